package cleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// survey is the state of a repository at one moment.
type survey struct {
	repo      *git.Repo
	folder    string // folder of all worktrees
	inspector inspector
	prover    prover

	tasksDir string                   // folder of the tasks that are not archived
	all      map[string]taskdir.Entry // by name, including those that can't be read
	tasks    []*taskdir.Task          // archived ones after the others
	owner    map[string]*taskdir.Task
	trees    []git.Worktree
	main     string // branch of the main checkout
	bases    map[string][]base
	remotes  map[string]string // remote that a base branch follows
	heldDir  string            // directory of the task whose lock this process holds
}

// begun reports whether a run may have made something for the task: without a run, a branch of its name need not be its own.
func begun(t *taskdir.Task) bool {
	return t.BranchName() != "" && (t.Pipeline.BaseCommit != "" || t.Commit != "" || t.WorktreePath != "")
}

// outranks reports whether a branch that two tasks name belongs to the first: to the one that is still at work, then to the one
// that is not archived, then to the newer one.
func outranks(store taskdir.Store, a, b *taskdir.Task) bool {
	rank := func(t *taskdir.Task) string { // true sorts after false
		return fmt.Sprint(!t.Status.Ended(), filepath.Dir(t.Dir) == store.Tasks(), store.Made(t).Format(time.DateOnly), t.ID)
	}
	return rank(a) > rank(b)
}

func (s *survey) leftover(ctx context.Context, t *taskdir.Task) (l Leftover, err error) {
	l = Leftover{Dir: t.Dir, ID: t.ID, Status: t.Status, Base: t.BaseBranch, Trees: []Tree{}, Task: t}
	l.Base = cmp.Or(l.Base, s.main)
	if owner := s.owner[t.BranchName()]; !begun(t) {
		l.Why = "nothing was done for it"
		return l, nil
	} else if owner != nil && owner.Dir != t.Dir {
		l.Why = "its branch belongs to " + owner.ID + " by now"
		return l, nil
	}
	if l.Tip, err = s.repo.Refs().Branch(ctx, t.BranchName()); err != nil {
		return l, err
	}
	if l.Tip != "" {
		l.Branch = t.BranchName()
	}
	for _, w := range s.trees {
		if !owns(s.folder, t, w) {
			continue
		}
		if why := checkNotSwapped(s.repo, w); why != nil && l.Keeps == "" {
			l.Keeps, l.Hint = why.Error(), "put the worktree back, or move away what is in its place; then trellis cleanup "+trellis.ShellWord(t.ID)
			l.swappedPath = w.Path
			continue
		}
		tree, err := s.inspector.inspect(ctx, w, s.trees)
		if err != nil {
			return l, err
		}
		l.Trees = append(l.Trees, tree)
	}
	if l.bases, err = s.basesOf(ctx, l.Base); err != nil {
		return l, err
	}
	if err := s.prover.prove(ctx, &l); err != nil {
		return l, fmt.Errorf("looking whether %s was merged: %w", t.ID, err)
	}
	if l.Remote, l.There, err = s.remoteBranch(ctx, l.Base, t.BranchName()); err != nil {
		return l, err
	}
	if err := s.markLoose(ctx, &l); err != nil {
		return l, fmt.Errorf("looking at the worktrees of %s: %w", t.ID, err)
	}
	s.setKeepReason(&l)
	return l, nil
}

// checkNotSwapped returns an error if something else is in the place of a worktree: nothing of that is read, saved or removed. A
// worktree that is gone, half made, or half removed does not count.
func checkNotSwapped(repo *git.Repo, w git.Worktree) error {
	if st, err := os.Lstat(w.Path); w.Gone || w.HalfMade() || err == nil && st.IsDir() && !durable.Exists(filepath.Join(w.Path, ".git")) {
		return nil
	}
	return repo.Worktrees().Check(w)
}

// remoteBranch returns the remote that has a branch, by its remote-tracking branch, and the commit at which the branch ends there.
func (s *survey) remoteBranch(ctx context.Context, base, branch string) (remote, tip string, err error) {
	remote, asked := s.remotes[base]
	if !asked {
		if remote, err = s.repo.Remotes().Remote(ctx, base); err != nil {
			return "", "", err
		}
		s.remotes[base] = remote
	}
	if remote == "" {
		return "", "", nil
	}
	tip, err = s.repo.Refs().Find(ctx, "refs/remotes/"+remote+"/"+branch)
	if tip == "" {
		remote = ""
	}
	return remote, tip, err
}

// markLoose marks the worktrees whose HEAD nothing else keeps: the task's branch does not end there, and no base has it.
func (s *survey) markLoose(ctx context.Context, l *Leftover) error {
	for i, tree := range l.Trees {
		if tree.Gone || tree.at.HalfMade() || !durable.Exists(filepath.Join(tree.Path, ".git")) {
			continue
		}
		head, err := s.repo.Refs().Head(ctx, tree.Path)
		if errors.Is(err, git.ErrNoCommit) || err == nil && head == l.Tip || err != nil && !durable.Exists(filepath.Join(tree.Path, ".git")) {
			continue
		}
		if err != nil {
			return err
		}
		within, err := inBase(ctx, s.repo, *l, head)
		if err != nil {
			return err
		}
		l.Trees[i].Loose = !within
	}
	return nil
}

// owns reports whether a worktree belongs to the task: it is where runs make it; or where the task says, on the task's
// branch; or it was made for the task and is still on its branch.
func owns(folder string, t *taskdir.Task, w git.Worktree) bool {
	branch := t.BranchName()
	if at := filepath.Join(folder, filepath.FromSlash(branch)); w.At(at) || w.At(at+finalSuffix) && w.Branch == "" {
		return true
	}
	if w.Branch == branch && w.Owner() == t.ID {
		return true
	}
	return t.WorktreePath != "" && (w.Branch == branch && w.At(t.WorktreePath) || w.Branch == "" && w.At(t.WorktreePath+finalSuffix))
}

// finalSuffix is the suffix of the checkout in which a run verifies what was committed.
const finalSuffix = "~final"

// basesOf returns the branches that may have work for a base branch.
func (s *survey) basesOf(ctx context.Context, branch string) ([]base, error) {
	if list, known := s.bases[branch]; known || branch == "" {
		return list, nil
	}
	var list []base
	add := func(name, shown string) error {
		sha, err := s.repo.Refs().Find(ctx, name)
		if err == nil && sha != "" {
			list = append(list, base{shown, sha})
		}
		return err
	}
	remotes, err := s.repo.Remotes().Remotes(ctx, branch)
	if err == nil {
		err = add(branch, branch)
	}
	for _, name := range remotes {
		err = errors.Join(err, add(name, strings.TrimPrefix(name, "refs/remotes/")))
	}
	s.bases[branch] = list
	return list, err
}

// setKeepReason sets the reason why nothing of a task may be removed now.
func (s *survey) setKeepReason(l *Leftover) {
	t := l.Task
	switch h, held := Holder(t.Dir); {
	case l.Keeps != "":
		return
	case held && t.Dir != s.heldDir:
		l.Keeps, l.Hint = fmt.Sprintf("process %d on %s is at work on it", h.PID, h.Host), "trellis stop "+trellis.ShellWord(t.ID)
	case !t.Status.Ended():
		l.Keeps, l.Hint = fmt.Sprintf("it is %s", t.Status), "trellis cancel "+trellis.ShellWord(t.ID)
	case l.Branch != "" && (l.Branch == l.Base || l.Branch == s.main):
		l.Keeps = fmt.Sprintf("its branch %s is not a branch of its own", l.Branch)
	}
	for _, tree := range l.Trees {
		switch {
		case l.Keeps != "":
			return
		case tree.Locked != "":
			l.Keeps, l.Hint = fmt.Sprintf("its worktree is locked (%s)", tree.Locked), "git worktree unlock "+trellis.ShellWord(tree.Path)
		case len(tree.Nested) > 0:
			l.Keeps, l.Hint = nestedText(tree.Nested), "push what is in them, or move them away; then trellis cleanup "+trellis.ShellWord(t.ID)
		}
	}
	if l.Keeps == "" && t.WorktreePath != "" {
		if lost := s.repo.Worktrees().CheckLost(t.WorktreePath); lost != nil {
			l.Keeps, l.Hint = lost.Error(), "trellis cleanup "+trellis.ShellWord(t.ID)
		}
	}
	for _, w := range s.trees {
		if l.Keeps == "" && l.Branch != "" && w.Branch == l.Branch && !w.Gone && !owns(s.folder, t, w) {
			l.Keeps, l.Hint = fmt.Sprintf("its branch is checked out in %s", w.Path), "git worktree remove "+trellis.ShellWord(w.Path)
		}
	}
}

func nestedText(paths []string) string {
	return fmt.Sprintf("its worktree holds repositories with work that is saved nowhere else (%s)", strings.Join(paths, ", "))
}

// Holder returns the process that holds a task.
func Holder(dir string) (durable.Holder, bool) {
	path := filepath.Join(dir, taskdir.RunLock)
	if !durable.Exists(path) || !durable.Held(path) {
		return durable.Holder{}, false
	}
	h, _ := durable.ReadHolder(path) // only for messages
	return h, true
}
