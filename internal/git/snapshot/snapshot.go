// Package snapshot records the files of a checkout at one moment, restores them, and saves files that would be lost as commits.
package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// Snapshots takes snapshots of checkouts.
type Snapshots struct{ repo *git.Repo }

// New returns the Snapshots of a repository.
func New(r *git.Repo) Snapshots {
	return Snapshots{r}
}

// Snapshot is the content of a checkout's work tree at one moment: tracked and untracked files, without ignored files, and
// excluded paths as they are in the index. The user's index and repository are not touched; the objects of the snapshot are in a
// separate folder until Close. Not for concurrent use.
type Snapshot struct {
	Tree string // hash of the whole: the same exactly if nothing changed

	r           Snapshots
	dir         string
	exclude     []string
	temp        string
	remove      func() error // removes temp
	env         []string
	submodules  []git.Module      // submodules that are worktrees: Tree has their files as if they were the superproject's
	baseTrees   map[string]string // by commit or tree to compare with: its tree with the files of submodules
	privateTree string            // tree of the private index: Tree, until the work tree is read again
	written     bool              // Tree exists as an object
}

// TreeOf returns the hash of the whole work tree, which tells whether anything changed.
func (r Snapshots) TreeOf(ctx context.Context, dir string, exclude ...string) (string, error) {
	s, err := r.Snapshot(ctx, dir, exclude...)
	if err != nil {
		return "", err
	}
	return s.Tree, s.Close()
}

// Snapshot takes a snapshot of the checkout at dir. The caller closes it.
func (r Snapshots) Snapshot(ctx context.Context, dir string, exclude ...string) (*Snapshot, error) {
	return r.SnapshotIn(ctx, "", dir, exclude...)
}

// SnapshotIn is [Snapshots.Snapshot] with the objects in a folder of the caller, created if missing, which Close keeps: a later
// snapshot in the same folder can be compared with the Tree of an earlier one.
func (r Snapshots) SnapshotIn(ctx context.Context, objects, dir string, exclude ...string) (*Snapshot, error) {
	s := &Snapshot{r: r, dir: dir, exclude: exclude}
	err := s.prepare(ctx, false)
	if err == nil {
		s.submodules, err = r.repo.Modules().Worktrees(ctx, dir)
	}
	if err == nil {
		objects = cmp.Or(objects, filepath.Join(s.temp, "objects"))
		s.env = append(s.env, "GIT_OBJECT_DIRECTORY="+objects, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+s.alternates())
		err = os.MkdirAll(objects, 0o700)
	}
	if err == nil {
		s.Tree, err = s.refresh(ctx)
	}
	if err == nil && objects != filepath.Join(s.temp, "objects") {
		err = s.storeTree(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("taking a snapshot of %s: %w", dir, err), s.Close())
	}
	return s, nil
}

// Commit creates a commit of the work tree of dir, without ignored files and the excluded paths, on top of its HEAD. No ref names
// it: it exists as long as a checkout of it, and git removes it some weeks later. The checkout, its index and its branch do not
// change.
func (r Snapshots) Commit(ctx context.Context, dir, message string, exclude ...string) (commit, tree string, err error) {
	s := &Snapshot{r: r, dir: dir, exclude: exclude}
	defer func() {
		if err = errors.Join(err, s.Close()); err != nil {
			err = fmt.Errorf("making a commit of %s: %w", dir, err)
		}
	}()
	if err := s.prepare(ctx, false); err != nil {
		return "", "", err
	}
	if err := s.add(ctx, true); err != nil {
		return "", "", err
	}
	if tree, err = s.writeTree(ctx, s.index(), true); err != nil {
		return "", "", err
	}
	head, err := r.repo.Refs().Head(ctx, dir)
	if err != nil {
		return "", "", err
	}
	commit, err = r.repo.CommitTree(ctx, tree, message, head)
	return commit, tree, err
}

// Close removes the files of the snapshot.
func (s *Snapshot) Close() error {
	if s.remove == nil {
		return nil
	}
	return s.remove()
}

// prepare creates the temporary folder and, unless empty is set, the private index in it: the index of the checkout without
// anything that its writer could have forged.
func (s *Snapshot) prepare(ctx context.Context, empty bool) (err error) {
	if s.temp, s.remove, err = s.r.repo.Scratch(); err != nil {
		return err
	}
	s.env = []string{"GIT_INDEX_FILE=" + s.index()}
	if empty {
		return nil
	}
	return s.r.repo.Index().WriteFresh(ctx, s.dir, s.index())
}

func (s *Snapshot) index() string { return filepath.Join(s.temp, "index") }

// originalIndex is the path of the private index as it was for Tree, once the private index itself has changed.
func (s *Snapshot) originalIndex() string { return filepath.Join(s.temp, "seen") }

// copyIndex copies an index with its modification time, by which git knows which entries are too young to be trusted.
func copyIndex(from, to string) error {
	st, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		return err
	}
	return os.Chtimes(to, st.ModTime(), st.ModTime())
}

// refresh updates the private index and returns its tree, which need not exist as an object yet.
func (s *Snapshot) refresh(ctx context.Context) (tree string, err error) {
	s.privateTree = ""
	if err := s.add(ctx, false); err != nil {
		return "", err
	}
	if tree = s.r.repo.Index().Tree(s.index()); tree == "" {
		tree, err = s.writeTree(ctx, s.index(), false)
	}
	if err == nil {
		s.privateTree = tree
	}
	return tree, err
}

// writeTree writes the tree of an index as an object.
func (s *Snapshot) writeTree(ctx context.Context, index string, durable bool) (string, error) {
	env := append(slices.Clone(s.env), "GIT_INDEX_FILE="+index)
	return s.r.repo.Line(ctx, git.Command{Dir: s.dir, Env: env, Write: durable, Args: []string{"write-tree"}})
}

// storeTree writes Tree as an object.
func (s *Snapshot) storeTree(ctx context.Context) error {
	if s.written {
		return nil
	}
	index := s.index()
	if s.privateTree != s.Tree {
		index = s.originalIndex()
	}
	tree, err := s.writeTree(ctx, index, false)
	if err == nil && tree != s.Tree {
		err = fmt.Errorf("git writes the tree %s, not %s", tree, s.Tree)
	}
	s.written = err == nil
	return err
}

// add updates the private index. Repositories within the work tree are added as git does, by their HEAD; those without a commit
// are left out.
func (s *Snapshot) add(ctx context.Context, durable bool) error {
	exclude := slices.Clone(s.exclude)
	for _, m := range s.submodules {
		exclude = append(exclude, m.Path)
	}
	add := git.Command{Dir: s.dir, Env: s.env, Write: durable, Args: append([]string{"add", "--all", "--sparse", "--"}, git.Pathspec(exclude)...)}
	started := time.Now()
	err := s.r.repo.Do(ctx, add)
	if errors.As(err, new(*git.Error)) {
		unborn, lookErr := s.r.repo.Index().EmbeddedRepos(ctx, s.dir, s.env, s.exclude)
		if lookErr == nil && len(unborn) > 0 {
			add.Args = append([]string{"add", "--all", "--sparse", "--"}, git.Pathspec(slices.Concat(exclude, unborn))...)
			err = s.r.repo.Do(ctx, add)
		}
	}
	if err == nil {
		s.r.repo.Index().RecordStats(s.dir, s.index(), started)
	}
	for i := range s.submodules {
		if err == nil {
			err = s.expandSubmodule(ctx, i)
		}
	}
	return err
}

// ChangesSince returns the changes in the work tree since the snapshot was taken.
func (s *Snapshot) ChangesSince(ctx context.Context) (list []git.Change, err error) {
	if s.privateTree == s.Tree && !s.written {
		err = copyIndex(s.index(), s.originalIndex())
	}
	if err == nil {
		_, err = s.refresh(ctx)
	}
	if err == nil && s.privateTree != s.Tree {
		if err = s.storeTree(ctx); err == nil {
			list, err = s.diffFromTree(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("looking at %s again: %w", s.dir, err)
	}
	return list, nil
}

// diffFromTree returns the paths at which the private index differs from Tree.
func (s *Snapshot) diffFromTree(ctx context.Context) ([]git.Change, error) {
	args := slices.Concat([]string{"diff-index", "--cached", "-z", "--raw", "--numstat"}, git.DiffOptions, []string{s.Tree})
	out, _, err := s.r.repo.Run(ctx, git.Command{Dir: s.dir, Env: s.env, Args: args})
	if err != nil {
		return nil, err
	}
	return git.ParseChanges(out)
}

// Restore undoes the changes in the work tree since the snapshot was taken, and returns them. All of the checkout is saved as ref
// first, unless ref is "". Repositories within the work tree stay as they are.
func (s *Snapshot) Restore(ctx context.Context, ref string) ([]git.Change, error) {
	drift, err := s.ChangesSince(ctx)
	if err != nil || len(drift) == 0 {
		return nil, err
	}
	if err := s.r.saveBeforeUndo(ctx, s.dir, ref); err != nil {
		return nil, err
	}
	var paths strings.Builder
	for _, c := range drift {
		switch {
		case c.Submodule():
		case c.Kind == 'A':
			err = errors.Join(err, removeWithin(s.dir, c.Path))
		default:
			paths.WriteString(c.Path + "\x00")
		}
	}
	if err != nil {
		return drift, fmt.Errorf("restoring %s: %w", s.dir, err)
	}
	if err = s.r.repo.Do(ctx, git.Command{Dir: s.dir, Env: s.env, Args: []string{"read-tree", s.Tree}}); err == nil {
		s.privateTree = s.Tree
		err = s.r.repo.Do(ctx, git.Command{Dir: s.dir, Env: s.env, Args: []string{"checkout-index", "--force", "-z", "--stdin"}, Stdin: strings.NewReader(paths.String())})
	}
	if err != nil {
		return drift, fmt.Errorf("restoring %s: %w", s.dir, err)
	}
	return drift, nil
}

// RestoreTo restores the work tree to an earlier snapshot in the same folder of objects, given by its Tree, and returns the changes
// undone. From then on this snapshot is that one. Nothing is saved.
func (s *Snapshot) RestoreTo(ctx context.Context, tree string) ([]git.Change, error) {
	s.Tree = tree
	return s.Restore(ctx, "")
}

// removeWithin removes a file and the folders that become empty, and follows no link out of dir.
func removeWithin(dir, path string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for up := filepath.Dir(path); up != "."; up = filepath.Dir(up) {
		if root.Remove(up) != nil {
			break // not empty
		}
	}
	return nil
}

func (s *Snapshot) captureState(ctx context.Context, ref string) (st state, err error) {
	if st.head, st.headTree, err = s.head(ctx); err != nil {
		return st, err
	}
	if st.refCommit, err = s.r.repo.Refs().Find(ctx, ref); err == nil && st.refCommit != "" {
		st.refTree, err = s.r.repo.Refs().TreeAt(ctx, st.refCommit)
	}
	if err != nil {
		return st, err
	}
	if st.indexTree, err = s.stagedTree(ctx, st); err != nil {
		return st, err
	}
	if err = s.add(ctx, true); err != nil {
		return st, err
	}
	if st.workTree = st.ifCommitted(s.r.repo.Index().Tree(s.index())); st.workTree == "" {
		if st.workTree, err = s.writeTree(ctx, s.index(), true); err != nil {
			return st, err
		}
	}
	st.head, st.headTree, err = s.head(ctx) // somebody may have committed meanwhile
	return st, err
}

// head returns HEAD and its tree, "" if HEAD is unborn.
func (s *Snapshot) head(ctx context.Context) (commit, tree string, err error) {
	if commit, err = s.r.repo.Refs().Head(ctx, s.dir); err == nil {
		tree, err = s.r.repo.Refs().TreeAt(ctx, commit)
	}
	if errors.Is(err, git.ErrNoCommit) {
		err = nil
	}
	return commit, tree, err
}

// stagedTree returns the tree of the index, "" if it has conflicts.
func (s *Snapshot) stagedTree(ctx context.Context, st state) (string, error) {
	if tree := st.ifCommitted(s.r.repo.Index().Tree(s.index())); tree != "" {
		return tree, nil
	}
	tree, err := s.r.repo.Line(ctx, git.Command{Dir: s.dir, Env: s.env, Args: []string{"write-tree"}, Write: true, Once: true})
	if err == nil {
		return tree, nil
	}
	conflicts, lookErr := s.r.repo.Line(ctx, git.Command{Dir: s.dir, Env: s.env, Args: []string{"ls-files", "--unmerged"}})
	if lookErr != nil || conflicts != "" {
		return "", lookErr
	}
	return s.r.repo.Line(ctx, git.Command{Dir: s.dir, Env: s.env, Args: []string{"write-tree"}, Write: true})
}

// commitBackup creates the backup commit: the work tree, on top of HEAD, the index if it differs, and the previous backup.
func (s *Snapshot) commitBackup(ctx context.Context, st state, message string) (string, error) {
	parents := []string{st.head}
	if st.hasStagedOnly() {
		index, err := s.r.repo.CommitTree(ctx, st.indexTree, message+" (index)", st.head)
		if err != nil {
			return "", err
		}
		parents = append(parents, index)
	}
	return s.r.repo.CommitTree(ctx, st.workTree, message, append(parents, st.refCommit)...)
}

// Diff returns the difference to a commit as a patch, cut in the middle if it is longer than limit bytes.
func (s *Snapshot) Diff(ctx context.Context, base string, limit int) (string, error) {
	var out *proc.Capped
	err := git.Retry(ctx, func() error {
		out = proc.NewCapped(limit)
		_, err := s.compare(ctx, base, out, "--patch")
		return err
	})
	return out.String(), err
}

// alternates lists where a snapshot finds objects besides its own.
func (s *Snapshot) alternates() string {
	list := []string{git.QuoteAlternate(filepath.Join(s.r.repo.Common, "objects"))}
	for _, m := range s.submodules {
		list = append(list, git.QuoteAlternate(filepath.Join(m.Common, "objects")))
	}
	return strings.Join(list, string(filepath.ListSeparator))
}
