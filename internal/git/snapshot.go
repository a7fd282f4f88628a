package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Snapshot is what the work tree of a checkout held at one moment: tracked and untracked files, without
// ignored ones and the excluded paths (of which it has what the index has). Index and repository of the
// user are not touched; its objects live in a folder of its own until Close. Not for concurrent use.
type Snapshot struct {
	Tree string // hash of the whole: the same exactly when nothing changed

	r       *Repo
	dir     string
	exclude []string
	temp    string
	mine    *durable.Lock // of temp, until Close
	env     []string
	inner   []Module          // submodules that are worktrees: what they hold stands in Tree as if it were the superproject's
	bases   map[string]string // trees of what it is compared with, their submodules too
	held    string            // tree of the private index: Tree, until the work tree is looked at again
	written bool              // Tree is there as an object
}

// TreeOf is the hash of the whole work tree; it tells whether anything changed.
func (r Snapshots) TreeOf(ctx context.Context, dir string, exclude ...string) (string, error) {
	s, err := r.Snapshot(ctx, dir, exclude...)
	if err != nil {
		return "", err
	}
	return s.Tree, s.Close()
}

// Snapshot takes one of the checkout at dir. The caller closes it.
func (r Snapshots) Snapshot(ctx context.Context, dir string, exclude ...string) (*Snapshot, error) {
	return r.SnapshotIn(ctx, "", dir, exclude...)
}

// SnapshotIn is [Snapshots.Snapshot] with its objects in a folder of the caller's, made where it is missing, which Close
// leaves there: a later snapshot in the same folder can be compared with the Tree of an earlier one.
func (r Snapshots) SnapshotIn(ctx context.Context, objects, dir string, exclude ...string) (*Snapshot, error) {
	s := &Snapshot{r: r.Repo, dir: dir, exclude: exclude}
	err := s.prepare()
	if err == nil {
		err = s.begin(ctx)
	}
	if err == nil {
		s.inner, err = r.Modules().inner(ctx, dir)
	}
	if err == nil {
		if objects == "" {
			objects = filepath.Join(s.temp, "objects")
		}
		s.env = append(s.env, "GIT_OBJECT_DIRECTORY="+objects, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+s.alternates())
		err = os.MkdirAll(objects, 0o700)
	}
	if err == nil {
		s.Tree, err = s.look(ctx)
	}
	if err == nil && objects != filepath.Join(s.temp, "objects") {
		err = s.store(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("taking a snapshot of %s: %w", dir, err), s.Close())
	}
	return s, nil
}

// Close removes what the snapshot keeps on disk.
func (s *Snapshot) Close() error {
	if s.temp == "" {
		return nil
	}
	return discardScratch(s.temp, s.mine)
}

func (s *Snapshot) prepare() (err error) {
	if _, err = s.r.gitDir(s.dir); err != nil {
		return err
	}
	s.r.swept.Do(removeAbandoned)
	if s.temp, s.mine, err = scratch(); err != nil {
		return err
	}
	s.env = []string{"GIT_INDEX_FILE=" + s.index()}
	return nil
}

// begin makes the private index: that of the checkout, without what its writer could lie about.
func (s *Snapshot) begin(ctx context.Context) error {
	return s.r.Snapshots().privateIndex(ctx, s.dir, s.index())
}

// privateIndex writes a fresh index of a checkout to a file.
func (r Snapshots) privateIndex(ctx context.Context, dir, file string) error {
	gitDir, err := r.gitDir(dir)
	if err != nil {
		return err
	}
	data, _, err := r.Index().freshIndex(ctx, dir, gitDir)
	if err != nil || data == nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

func (s *Snapshot) index() string { return filepath.Join(s.temp, "index") }

// seen is the private index as it was for Tree, once that has moved on.
func (s *Snapshot) seen() string { return filepath.Join(s.temp, "seen") }

// copyIndex keeps the time of the file: by it git knows which entries are too young to be trusted.
func copyIndex(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Chtimes(to, st.ModTime(), st.ModTime())
}

// look brings the private index up to date and returns its tree, which is no object yet.
func (s *Snapshot) look(ctx context.Context) (tree string, err error) {
	s.held = ""
	if err := s.add(ctx, false); err != nil {
		return "", err
	}
	f, err := s.r.Index().readIndex(s.index())
	if tree = f.tree; err != nil || tree == "" {
		tree, err = s.treeIn(ctx, s.index(), false)
	}
	if err == nil {
		s.held = tree
	}
	return tree, err
}

// treeIn writes the tree of an index.
func (s *Snapshot) treeIn(ctx context.Context, index string, durable bool) (string, error) {
	env := append(slices.Clone(s.env), "GIT_INDEX_FILE="+index)
	return s.r.Line(ctx, Command{Dir: s.dir, Env: env, Write: durable, Args: []string{"write-tree"}})
}

// store makes Tree an object.
func (s *Snapshot) store(ctx context.Context) error {
	if s.written {
		return nil
	}
	index := s.index()
	if s.held != s.Tree {
		index = s.seen()
	}
	tree, err := s.treeIn(ctx, index, false)
	if err == nil && tree != s.Tree {
		err = fmt.Errorf("git writes the tree %s, not %s", tree, s.Tree)
	}
	s.written = err == nil
	return err
}

// add brings the private index up to date. Repositories within the work tree are taken as git does, by their HEAD; those
// without a commit are left out.
func (s *Snapshot) add(ctx context.Context, durable bool) error {
	exclude := slices.Clone(s.exclude)
	for _, m := range s.inner {
		exclude = append(exclude, m.Path)
	}
	add := Command{Dir: s.dir, Env: s.env, Write: durable, Args: append([]string{"add", "--all", "--"}, pathspec(exclude)...)}
	started := time.Now()
	_, _, err := s.r.Run(ctx, add)
	var failed *Error
	if errors.As(err, &failed) {
		unborn, lookErr := s.r.Snapshots().nested(ctx, s.dir, s.env, s.exclude)
		if lookErr == nil && len(unborn) > 0 {
			add.Args = append([]string{"add", "--all", "--"}, pathspec(slices.Concat(exclude, unborn))...)
			_, _, err = s.r.Run(ctx, add)
		}
	}
	if err == nil {
		s.r.Snapshots().remember(s.dir, s.index(), started)
	}
	for i := range s.inner {
		if err == nil {
			err = s.graft(ctx, i)
		}
	}
	return err
}

// remember notes what a private index says of the files of a checkout. What can't be read is not remembered.
func (r Snapshots) remember(dir, index string, started time.Time) {
	_, size := r.hashes()
	if list, err := entriesOf(index, size); err == nil {
		r.seen.learn(dir, list, started)
	}
}

// nested are the repositories within a checkout that are no submodules.
func (r Snapshots) nested(ctx context.Context, dir string, env, exclude []string) (list []string, err error) {
	args := append([]string{"ls-files", "-z", "--others", "--exclude-standard", "--directory", "--"}, pathspec(exclude)...)
	out, _, err := r.Run(ctx, Command{Dir: dir, Env: env, Args: args})
	if err != nil {
		return nil, err
	}
	for p := range strings.SplitSeq(out, "\x00") {
		if !strings.HasSuffix(p, "/") {
			continue
		}
		err := filepath.WalkDir(filepath.Join(dir, p), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.Name() != ".git" {
				return err
			}
			rel, err := filepath.Rel(dir, filepath.Dir(path))
			if err != nil {
				return err
			}
			list = append(list, rel)
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// quoteAlternate writes a path so that it may hold the separator of the list.
func quoteAlternate(path string) string {
	if !strings.ContainsAny(path, ":\"\n") {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

// Drift is what changed in the work tree since the snapshot was taken.
func (s *Snapshot) Drift(ctx context.Context) (list []Change, err error) {
	if s.held == s.Tree && !s.written {
		err = copyIndex(s.index(), s.seen())
	}
	if err == nil {
		_, err = s.look(ctx)
	}
	if err == nil && s.held != s.Tree {
		if err = s.store(ctx); err == nil {
			list, err = s.moved(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("looking at %s again: %w", s.dir, err)
	}
	return list, nil
}

// moved is what the private index has of other content than Tree.
func (s *Snapshot) moved(ctx context.Context) ([]Change, error) {
	args := slices.Concat([]string{"diff-index", "--cached", "-z", "--raw", "--numstat"}, plain, []string{s.Tree})
	out, _, err := s.r.Run(ctx, Command{Dir: s.dir, Env: s.env, Args: args})
	if err != nil {
		return nil, err
	}
	return parseChanges(out)
}

// Restore puts back what changed in the work tree since the snapshot was taken, and returns what that was: all of the
// checkout is then saved as ref first, unless that is "". Repositories within the work tree stay as they are.
func (s *Snapshot) Restore(ctx context.Context, ref string) ([]Change, error) {
	drift, err := s.Drift(ctx)
	if err != nil || len(drift) == 0 {
		return nil, err
	}
	if err := s.r.Backups().save(ctx, s.dir, ref); err != nil {
		return nil, err
	}
	var paths strings.Builder
	for _, c := range drift {
		switch {
		case c.Mode == gitlink:
		case c.Kind == 'A':
			err = errors.Join(err, removeWithin(s.dir, c.Path))
		default:
			paths.WriteString(c.Path + "\x00")
		}
	}
	if err != nil {
		return drift, fmt.Errorf("restoring %s: %w", s.dir, err)
	}
	if _, _, err = s.r.Run(ctx, Command{Dir: s.dir, Env: s.env, Args: []string{"read-tree", s.Tree}}); err == nil {
		s.held = s.Tree
		_, _, err = s.r.Run(ctx, Command{Dir: s.dir, Env: s.env, Args: []string{"checkout-index", "--force", "-z", "--stdin"}, Stdin: strings.NewReader(paths.String())})
	}
	if err != nil {
		return drift, fmt.Errorf("restoring %s: %w", s.dir, err)
	}
	return drift, nil
}

// Back puts the work tree back to what an earlier snapshot in the same folder of objects held, whose Tree is given, and
// returns what was not so. From then on this snapshot is that one. Nothing is saved.
func (s *Snapshot) Back(ctx context.Context, tree string) ([]Change, error) {
	s.Tree = tree
	return s.Restore(ctx, "")
}

const gitlink = "160000"

// removeWithin removes a file and the folders that it leaves empty, and follows no link out of dir.
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
