package git

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Backup saves all of a checkout, what is staged, what is not, and untracked files, as a commit that ref
// names, and touches nothing else. It returns the commit, which is HEAD itself when all is committed. What
// ref named before is in the history of the new commit, so that a backup is never lost to another one.
// A submodule that is a worktree (see [Module]) is saved under the same name in its own repository. Other
// repositories within the work tree, and submodules that changed, can't be saved and are a *NestedError; ignored files are not saved.
func (r Backups) Backup(ctx context.Context, dir, ref, message string) (string, error) {
	return r.backUp(ctx, dir, ref, message, (*Snapshot).saveable)
}

// save is Backup before something in a checkout is undone, which other repositories in it are not.
func (r Backups) save(ctx context.Context, dir, ref string) error {
	if ref == "" {
		return nil
	}
	_, err := r.backUp(ctx, dir, ref, "trellis: what was in "+filepath.Base(dir)+" before a part of it was undone", nil)
	return err
}

// worktreeOrMain is a *SwappedError when dir is neither the main checkout nor a worktree as it was made.
func (r Backups) worktreeOrMain(dir string) error {
	if dir == r.Main {
		return nil
	}
	_, err := r.Worktrees().Identify(dir)
	return err
}

// saveCommit makes ref have a commit in its history, unless a branch other than the one given, a remote or a tag has it.
func (r Backups) saveCommit(ctx context.Context, sha, except, ref string) error {
	if sha == "" || ref == "" {
		return nil
	}
	args := []string{"rev-list", "--max-count=1", sha, "--not"}
	if except != "" {
		args = append(args, "--exclude="+except)
	}
	lost, err := r.Line(ctx, Command{Dir: r.Main, Args: append(args, "--branches", "--remotes", "--tags")})
	if err != nil || lost == "" {
		return err
	}
	old, err := r.Refs().askCommit(ctx, r.Main, ref)
	if errors.Is(err, ErrNotFound) {
		return r.Refs().MoveRef(ctx, ref, sha, "")
	}
	if err != nil {
		return err
	}
	if within, err := r.History().IsAncestor(ctx, sha, old); err != nil || within {
		return err
	}
	both := ""
	tree, err := r.Refs().TreeAt(ctx, sha)
	if err == nil {
		both, err = (&Snapshot{r: r.Repo, dir: r.Main}).commit(ctx, tree, "trellis: commits that were left", sha, old)
	}
	if err != nil {
		return err
	}
	return r.Refs().MoveRef(ctx, ref, both, old)
}

// backUp makes a backup, unless may forbids it.
func (r Backups) backUp(ctx context.Context, dir, ref, message string, may func(*Snapshot, context.Context, ...string) error) (string, error) {
	s := &Snapshot{r: r.Repo, dir: dir}
	defer s.Close()
	err := r.mend(ctx, dir)
	if err == nil {
		err = r.worktreeOrMain(dir)
	}
	if err == nil {
		err = s.prepare()
	}
	if err == nil {
		err = s.begin(ctx)
	}
	var kept []string
	if err == nil {
		kept, err = r.Modules().backUpInner(ctx, dir, ref, message)
	}
	if err == nil && may != nil {
		err = may(s, ctx, kept...)
	}
	sha := ""
	if err == nil {
		sha, err = s.backup(ctx, ref, message)
	}
	if err != nil {
		return "", fmt.Errorf("saving %s as %s: %w", dir, ref, err)
	}
	return sha, nil
}

// mend links a worktree to the repository again that has lost the file which does.
func (r Backups) mend(ctx context.Context, dir string) error {
	if !unlinked(dir) {
		return nil
	}
	all, err := r.Worktrees().List(ctx)
	for _, w := range all {
		if err == nil && w.Path == clean(dir) && !w.Gone {
			err = r.Worktrees().relink(w)
		}
	}
	return err
}

// state is what a backup is made of.
type state struct {
	head, tree string // HEAD and its tree, "" when unborn
	staged     string // tree of the index, "" when it has conflicts (what is in them is in the work tree)
	work       string // tree of the work tree
	old        string // what the ref names, ""
}

func (s *Snapshot) backup(ctx context.Context, ref, message string) (string, error) {
	st, err := s.state(ctx, ref)
	if err != nil {
		return "", err
	}
	if saved, err := s.saved(ctx, st); err != nil || saved {
		return st.old, err
	}
	sha := st.head
	if st.old != "" || st.tree != st.work || st.differs() {
		if sha, err = s.keep(ctx, st, message); err != nil {
			return "", err
		}
	}
	return sha, s.r.Refs().MoveRef(ctx, ref, sha, st.old)
}

// saveable is nil when all that changed is kept in this repository, or was kept already, and not in another one within
// the work tree.
func (s *Snapshot) saveable(ctx context.Context, kept ...string) error {
	inside, err := s.r.Snapshots().nested(ctx, s.dir, s.env, nil)
	if err != nil {
		return err
	}
	changed, err := s.r.Index().Status(ctx, s.dir)
	if err != nil {
		return err
	}
	for _, e := range changed {
		if e.submodule && !slices.Contains(kept, e.Path) {
			inside = append(inside, e.Path)
		}
	}
	if len(inside) > 0 {
		return &NestedError{inside}
	}
	return nil
}

func (s *Snapshot) state(ctx context.Context, ref string) (st state, err error) {
	if st.staged, err = s.staged(ctx); err != nil {
		return st, err
	}
	if err = s.add(ctx, true); err != nil {
		return st, err
	}
	if st.work, err = s.treeIn(ctx, s.index(), true); err != nil {
		return st, err
	}
	if st.head, err = s.r.Refs().Head(ctx, s.dir); err == nil {
		st.tree, err = s.r.Refs().TreeAt(ctx, st.head)
	}
	if err != nil && !errors.Is(err, ErrNoCommit) {
		return st, err
	}
	st.old, err = s.r.Refs().askCommit(ctx, s.dir, ref)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return st, err
}

// staged is the tree of the index, "" when it has conflicts.
func (s *Snapshot) staged(ctx context.Context) (string, error) {
	tree, err := s.r.Line(ctx, Command{Dir: s.dir, Env: s.env, Args: []string{"write-tree"}, Write: true, Once: true})
	if err == nil {
		return tree, nil
	}
	conflicts, lookErr := s.r.Line(ctx, Command{Dir: s.dir, Env: s.env, Args: []string{"ls-files", "--unmerged"}})
	if lookErr != nil || conflicts != "" {
		return "", lookErr
	}
	return s.r.Line(ctx, Command{Dir: s.dir, Env: s.env, Args: []string{"write-tree"}, Write: true})
}

// differs reports whether the index holds something that neither HEAD nor the work tree has.
func (st state) differs() bool {
	return st.staged != "" && st.staged != st.tree && st.staged != st.work
}

// saved reports whether the ref holds all of it already.
func (s *Snapshot) saved(ctx context.Context, st state) (bool, error) {
	if st.old == "" || st.differs() {
		return false, nil
	}
	if st.old == st.head {
		return st.tree == st.work, nil
	}
	tree, err := s.r.Refs().TreeAt(ctx, st.old)
	if err != nil || tree != st.work {
		return false, err
	}
	if st.head == "" {
		return true, nil
	}
	return s.r.History().IsAncestor(ctx, st.head, st.old)
}

// keep makes the commit: the work tree, on top of HEAD, the index and the backup before.
func (s *Snapshot) keep(ctx context.Context, st state, message string) (string, error) {
	parents := []string{st.head}
	if st.differs() {
		index, err := s.commit(ctx, st.staged, message+" (index)", st.head)
		if err != nil {
			return "", err
		}
		parents = append(parents, index)
	}
	return s.commit(ctx, st.work, message, append(parents, st.old)...)
}

// commit makes a commit object by Trellis, whoever the user is.
func (s *Snapshot) commit(ctx context.Context, tree, message string, parents ...string) (string, error) {
	args := []string{"commit-tree", "--no-gpg-sign", tree}
	for _, p := range parents {
		if p != "" {
			args = append(args, "-p", p)
		}
	}
	by := []string{"GIT_AUTHOR_NAME=trellis", "GIT_AUTHOR_EMAIL=trellis@localhost", "GIT_COMMITTER_NAME=trellis", "GIT_COMMITTER_EMAIL=trellis@localhost"}
	return s.r.Line(ctx, Command{Dir: s.dir, Args: args, Env: by, Stdin: strings.NewReader(message + "\n"), Write: true})
}

// MoveRef sets a ref, unless it no longer is what it was. old is "" for a ref that is not there.
func (r Refs) MoveRef(ctx context.Context, ref, sha, old string) error {
	if sha == old || sha == "" {
		return nil
	}
	own := []string{filepath.Join(r.Common, filepath.FromSlash(ref)+".lock")}
	return RetryLocked(ctx, own, func() error {
		return Retry(ctx, func() error {
			_, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"update-ref", "--end-of-options", ref, sha, old}, Write: true, Once: true})
			if now, lookErr := r.RevParse(ctx, r.Main, ref); err != nil && lookErr == nil && now == sha {
				return nil // it was done all the same
			}
			return err
		})
	})
}
