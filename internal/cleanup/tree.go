package cleanup

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Tree is a worktree. Its JSON is a contract with scripts.
type Tree struct {
	Path    string   `json:"path"`
	Branch  string   `json:"branch"`  // "" if none is checked out
	Size    int64    `json:"size"`    // bytes on the disk
	Gone    bool     `json:"gone"`    // its folder does not exist
	Dirty   bool     `json:"dirty"`   // it has something that is not committed; files that are only missing don't count
	Locked  string   `json:"locked"`  // reason given by whoever locked it, or "no reason given"; "": not locked
	Nested  []string `json:"nested"`  // repositories within it with commits that no remote has
	Ignored []string `json:"ignored"` // git ignores them, no backup has them, somebody may miss them; also folders of submodules without a checkout
	Made    []string `json:"made"`    // the same, but with names of what a build or an installer makes again
	Loose   bool     `json:"loose"`   // it has commits that no branch and no base has

	at      git.Worktree
	missing bool // tracked files are missing in it, which git counts as changes
}

// Orphan is a worktree that belongs to no task. Its JSON is a contract with scripts.
type Orphan struct {
	Tree
	Why  string `json:"why"`
	Next string `json:"next"` // command to type
}

// orphan says why a worktree belongs to no task: the task that it was made for may exist, and not name it.
func (s *survey) orphan(tree Tree) Orphan {
	path := trellis.ShellWord(tree.Path)
	o := Orphan{tree, "belongs to no task", "git worktree remove " + path}
	if (tree.Dirty || tree.missing) && durable.Exists(filepath.Join(tree.Path, ".git")) { // git worktree remove refuses these
		o.Next = "git -C " + path + " stash --include-untracked && " + o.Next
	}
	e, there := s.all[tree.at.Owner()]
	switch {
	case !there:
	case filepath.Dir(e.Dir) != s.tasksDir && e.Err != nil:
		o.Why = "was made for " + e.ID + ", which is archived and can't be read"
	case filepath.Dir(e.Dir) != s.tasksDir:
		o.Why = "was made for " + e.ID + ", which is archived and does not name its branch"
	case e.Err != nil:
		o.Why, o.Next = "was made for "+e.ID+", which can't be read", "trellis validate "+trellis.ShellWord(e.ID)
	case tree.Branch != "" && e.Task.BranchName() != tree.Branch:
		o.Why, o.Next = "was made for "+e.ID+", which names the branch "+e.Task.BranchName()+" by now", "trellis task set-branch "+trellis.ShellWord(e.ID)+" "+trellis.ShellWord(tree.Branch)
	default:
		o.Why = "was made for " + e.ID + ", which does not know it"
	}
	return o
}

// inspector inspects worktrees.
type inspector struct {
	repo   *git.Repo
	copied []string // what a run copies from the main checkout into worktrees, see worktree.copy
}

// inspect inspects a worktree and changes nothing. A worktree that was half removed counts as dirty, and one that disappears
// meanwhile, as the fresh checkouts of runs do, as gone.
func (in inspector) inspect(ctx context.Context, w git.Worktree, all []git.Worktree) (Tree, error) {
	t, err := in.lookInto(ctx, w, all)
	if err == nil || durable.Exists(filepath.Join(w.Path, ".git")) {
		return t, err
	}
	_, gone := os.Lstat(w.Path)
	w.Gone = errors.Is(gone, fs.ErrNotExist)
	return in.lookInto(ctx, w, all)
}

func (in inspector) lookInto(ctx context.Context, w git.Worktree, all []git.Worktree) (t Tree, err error) {
	t = Tree{Path: w.Path, Branch: w.Branch, Gone: w.Gone, Nested: []string{}, Ignored: []string{}, Made: []string{}, at: w}
	if why, locked := w.Locked(); locked {
		t.Locked = why
		if why == "" {
			t.Locked = "no reason given"
		}
	}
	if w.Gone || w.HalfMade() {
		return t, nil
	}
	size, inner, err := measure(ctx, w.Path)
	if err != nil {
		return t, err
	}
	t.Size = size
	for _, dir := range inner {
		if unsaved, err := in.repo.Worktrees().HasUnsavedWork(ctx, w.Path, dir); err != nil || unsaved { // what can't be read may hold anything
			t.Nested = append(t.Nested, dir)
		}
	}
	for _, other := range all {
		if rel, err := filepath.Rel(w.Path, other.Path); err == nil && rel != "." && filepath.IsLocal(rel) && !other.Gone && !slices.Contains(t.Nested, rel) {
			t.Nested = append(t.Nested, rel)
		}
	}
	if !durable.Exists(filepath.Join(w.Path, ".git")) {
		t.Dirty = true
		return t, nil
	}
	if t.Dirty, t.missing, err = in.dirty(ctx, w.Path); err == nil {
		t.Ignored, t.Made, err = in.ignored(ctx, w.Path)
	}
	return t, err
}

// dirty reports whether a worktree has something that is not committed, and whether files are missing in it.
func (in inspector) dirty(ctx context.Context, dir string) (holds, misses bool, err error) {
	const missing = ".D"
	list, err := in.repo.Index().Status(ctx, dir, in.runFiles(dir)...)
	if errors.As(err, new(*git.EmbeddedRepoError)) { // git can't read it; saving the work reports that
		return true, false, nil
	}
	gone := func(e git.Entry) bool { return e.Code == missing }
	return slices.ContainsFunc(list, func(e git.Entry) bool { return !gone(e) }), slices.ContainsFunc(list, gone), err
}

// runFiles returns what runs put into a worktree: of what is copied, the files that are still as they are in the main checkout.
func (in inspector) runFiles(dir string) []string {
	list := []string{".trellis/.runtime", ".trellis/.current-task"}
	for _, name := range in.copied {
		name = filepath.FromSlash(name)
		if filepath.IsLocal(name) && containsAll(filepath.Join(in.repo.Main, name), filepath.Join(dir, name)) {
			list = append(list, filepath.ToSlash(name))
		}
	}
	return list
}

// containsAll reports whether a has all that b has.
func containsAll(a, b string) bool {
	err := filepath.WalkDir(b, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(b, file)
		if err != nil {
			return err
		}
		x, errX := content(filepath.Join(a, rel))
		y, errY := content(file)
		if !bytes.Equal(x, y) {
			return errDiffers
		}
		return errors.Join(errX, errY)
	})
	return err == nil
}

var errDiffers = errors.New("differs")

// content returns the content of a file, or the target of a link.
func content(file string) ([]byte, error) {
	if to, err := os.Readlink(file); err == nil {
		return []byte("-> " + to), nil
	}
	return durable.Read(file, durable.MaxJournal)
}

// ignored returns the paths that git ignores, except for what runs put there: those that somebody may miss, and those with
// names of what is made again. A name proves nothing: people put files there, too.
func (in inspector) ignored(ctx context.Context, dir string) (missed, made []string, err error) {
	missed, made = []string{}, []string{} // lists, for scripts
	laid := in.runFiles(dir)
	list, err := in.repo.Index().Ignored(ctx, dir, laid...)
	if err != nil {
		return missed, made, err
	}
	filled, err := in.repo.Index().PopulatedSubmodules(ctx, dir)
	for _, folder := range filled {
		missed = append(missed, folder+"/")
	}
	for _, p := range list {
		switch name := strings.TrimSuffix(p, "/"); {
		case slices.Contains(laid, name):
		case git.IsBuildArtifact(name):
			made = append(made, p)
		default:
			missed = append(missed, p)
		}
	}
	return missed, made, err
}

// measure returns how many bytes a folder takes on the disk, links not followed, and the folders in it that are repositories.
func measure(ctx context.Context, root string) (size int64, repositories []string, err error) {
	type inode struct{ dev, ino uint64 }
	seen := map[inode]bool{}
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return skipUnreadable(d, err)
		}
		if parent := filepath.Dir(file); d.Name() == ".git" && parent != root && file != root {
			if rel, err := filepath.Rel(root, parent); err == nil {
				repositories = append(repositories, rel)
			}
		}
		info, err := d.Info()
		if err != nil {
			return skipUnreadable(d, err)
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			size += info.Size()
			return nil
		}
		if id := (inode{uint64(st.Dev), uint64(st.Ino)}); st.Nlink > 1 && !d.IsDir() {
			if seen[id] {
				return nil
			}
			seen[id] = true
		}
		const block = 512
		size += int64(st.Blocks) * block
		return nil
	})
	return size, repositories, err
}

// skipUnreadable ignores what can't be read or has disappeared meanwhile: it does not count.
func skipUnreadable(d fs.DirEntry, err error) error {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if d != nil && d.IsDir() {
		return fs.SkipDir
	}
	return nil
}
