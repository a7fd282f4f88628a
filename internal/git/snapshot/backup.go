package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/git"
)

// saveBeforeUndo backs up a checkout as ref, unless ref is "", before a part of it is undone. Unlike [Backups.Backup] it accepts
// repositories within the work tree: nothing in those is undone.
func (r Snapshots) saveBeforeUndo(ctx context.Context, dir, ref string) error {
	if ref == "" {
		return nil
	}
	_, err := r.makeBackup(ctx, dir, ref, "trellis: what was in "+filepath.Base(dir)+" before a part of it was undone", nil)
	return err
}

// makeBackup backs up dir and the submodules in it that are worktrees, unless check returns an error.
func (r Snapshots) makeBackup(ctx context.Context, dir, ref, message string, check func(*Snapshot, context.Context, ...string) error, exclude ...string) (string, error) {
	s := &Snapshot{r: r, dir: dir, exclude: exclude}
	defer s.Close()
	err := r.repo.Worktrees().RelinkAt(ctx, dir)
	if err == nil {
		err = r.repo.Worktrees().CheckOwn(dir)
	}
	if err == nil {
		err = s.prepare(ctx, false)
	}
	var kept []string
	if err == nil {
		kept, err = r.backupSubmodules(ctx, dir, ref, message)
	}
	if err == nil && check != nil {
		err = check(s, ctx, kept...)
	}
	sha := ""
	if err == nil {
		sha, err = s.commitState(ctx, ref, message)
	}
	if err != nil {
		return "", fmt.Errorf("saving %s as %s: %w", dir, ref, err)
	}
	return sha, nil
}

// state is the state of a checkout to be saved.
type state struct {
	head, headTree     string // HEAD and its tree, "" when unborn
	indexTree          string // tree of the index, "" if it has conflicts (these are in the work tree as well)
	workTree           string // tree of the work tree
	refCommit, refTree string // commit that the ref names, and its tree; "" if there is none
}

// ifCommitted returns a tree if a commit has it, so that git need not write it, else "".
func (st state) ifCommitted(tree string) string {
	if tree == st.headTree || tree == st.refTree {
		return tree
	}
	return ""
}

// commitState commits the state of the checkout as ref, unless ref holds it already, and returns the commit that ref then names.
func (s *Snapshot) commitState(ctx context.Context, ref, message string) (string, error) {
	st, err := s.captureState(ctx, ref)
	if err != nil {
		return "", err
	}
	if saved, err := s.alreadySaved(ctx, st); err != nil || saved {
		return st.refCommit, err
	}
	sha := st.head
	if st.refCommit != "" || st.headTree != st.workTree || st.hasStagedOnly() {
		if sha, err = s.commitBackup(ctx, st, message); err != nil {
			return "", err
		}
	}
	return sha, s.r.repo.Refs().MoveRef(ctx, ref, sha, st.refCommit)
}

// checkSaveable returns an *EmbeddedRepoError if something was changed in a repository within the work tree, other than in the
// submodules kept, which are saved already.
func (s *Snapshot) checkSaveable(ctx context.Context, kept ...string) error {
	inside, err := s.r.repo.Index().EmbeddedRepos(ctx, s.dir, s.env, s.exclude)
	if err != nil {
		return err
	}
	changed, err := s.r.repo.Index().Status(ctx, s.dir, s.exclude...)
	if err != nil {
		return err
	}
	for _, e := range changed {
		if e.Submodule && !slices.Contains(kept, e.Path) {
			inside = append(inside, e.Path)
		}
	}
	if len(inside) > 0 {
		return &git.EmbeddedRepoError{Paths: inside}
	}
	return nil
}

// hasStagedOnly reports whether the index holds something that neither HEAD nor the work tree has.
func (st state) hasStagedOnly() bool {
	return st.indexTree != "" && st.indexTree != st.headTree && st.indexTree != st.workTree
}

// alreadySaved reports whether the ref holds all of st.
func (s *Snapshot) alreadySaved(ctx context.Context, st state) (bool, error) {
	if st.refCommit == "" || st.hasStagedOnly() {
		return false, nil
	}
	if st.refCommit == st.head {
		return st.headTree == st.workTree, nil
	}
	if st.refTree != st.workTree {
		return false, nil
	}
	if st.head == "" {
		return true, nil
	}
	return s.r.repo.History().IsAncestor(ctx, st.head, st.refCommit)
}

func (s *Snapshot) saveFolder(ctx context.Context, folder, ref, message string, except []string) (string, error) {
	args := []string{"add", "--all", "--sparse", "--force", "--", git.Literal(folder)}
	for _, path := range except {
		args = append(args, ":(top,exclude,literal)"+folder+"/"+path)
	}
	if err := s.r.repo.Do(ctx, git.Command{Dir: s.dir, Env: s.env, Args: args, Write: true}); err != nil {
		return "", err
	}
	tree, err := s.writeTree(ctx, s.index(), true)
	if err != nil {
		return "", err
	}
	old, err := s.r.repo.Refs().Find(ctx, ref)
	if err != nil {
		return "", err
	}
	if saved, err := s.r.repo.Refs().TreeAt(ctx, old); old != "" && err == nil && saved == tree {
		return old, nil
	}
	sha, err := s.r.repo.CommitTree(ctx, tree, message, old)
	if err != nil {
		return "", err
	}
	return sha, s.r.repo.Refs().MoveRef(ctx, ref, sha, old)
}

// backupSubmodules backs up each submodule that is a worktree as ref, in the submodule's repository, and returns their paths.
func (r Snapshots) backupSubmodules(ctx context.Context, dir, ref, message string) (paths []string, err error) {
	list, err := r.repo.Modules().Worktrees(ctx, dir)
	for _, m := range list {
		if _, lookErr := os.Lstat(filepath.Join(m.Dir(dir), ".git")); err != nil || errors.Is(lookErr, fs.ErrNotExist) {
			continue // removed already
		}
		paths = append(paths, m.Path)
		_, err = NewBackups(m.Repo).Backup(ctx, m.Dir(dir), ref, message)
	}
	return paths, err
}
