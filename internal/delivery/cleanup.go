package delivery

import (
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

// Cleaner finds what tasks left in a repository: worktrees and branches. It knows which of that their base has, completes
// tasks whose work was merged, and takes away what nobody needs. Nothing is lost by it: what is not in the history of a
// base is a commit below [git.Backups] first.
//
// Every method may be called again after it was cut off anywhere.
type Cleaner struct {
	Store  taskdir.Store
	Repo   *git.Repo
	Folder string   // of all worktrees
	Copied []string // what a run copies into them from the main checkout, see worktree.copy
	Now    func() time.Time
}

// Leftover is what a task left, and what became of its work.
type Leftover struct {
	Dir, ID string
	Status  trellis.Status
	Branch  string // "" when there is none any more
	Tip     string // where it ends
	Remote  string // the remote that has the branch too, as far as is known here: cleaning up asks nobody
	There   string // where it ends there
	Base    string // the branch that the work is meant for
	Trees   []Tree // worktrees: the task's own, and its fresh checkout if a run was cut off in it
	Proof   git.Proof
	In      string // which base has the work: Base, or a remote-tracking branch of it
	Why     string // there is no proof
	Named   string // a commit of a base that names the task all the same, "" for none
	Keeps   string // why nothing can be taken away; "" when it can
	Hint    string // what to do about it

	task  *taskdir.Task
	bases []base
}

// base is a branch in which work may be.
type base struct{ name, commit string }

// Nothing reports whether there is nothing to take away.
func (l Leftover) Nothing() bool {
	return l.Branch == "" && len(l.Trees) == 0 && l.task.WorktreePath == ""
}

// Size is what it takes on the disk.
func (l Leftover) Size() (bytes int64) {
	for _, t := range l.Trees {
		bytes += t.Size
	}
	return bytes
}

// Saves reports whether something is to be saved before it is taken away.
func (l Leftover) Saves() bool {
	for _, t := range l.Trees {
		if t.Dirty || t.Loose {
			return true
		}
	}
	return l.Proof != git.InHistory && l.Tip != "" && l.Tip != l.task.Pipeline.BaseCommit
}

// RemoteDelete is the command that deletes the branch of the remote, unless it moved since.
func (l Leftover) RemoteDelete() string {
	name := l.task.BranchName()
	return fmt.Sprintf("git push --force-with-lease=%s %s %s", word(name+":"+l.There), word(l.Remote), word(":"+name))
}

// survey is what a repository has at one moment.
type survey struct {
	tasks []*taskdir.Task // archived ones after the others
	owner map[string]*taskdir.Task
	trees []git.Worktree
	main  string // the branch of the main checkout
	bases map[string][]base
	to    map[string]string // the remotes that base branches follow
	ours  string            // the task whose lock we hold ourselves
}

// Look tells what tasks left: those that have something to take away, and those in review. Orphans are worktrees in the
// folder of worktrees that belong to no task.
func (c *Cleaner) Look(ctx context.Context) (list []Leftover, orphans []Tree, err error) {
	s, err := c.survey(ctx)
	if err != nil {
		return nil, nil, err
	}
	owned := map[string]bool{}
	for _, t := range s.tasks {
		l, err := c.leftover(ctx, s, t)
		if err != nil {
			return nil, nil, err
		}
		for _, tree := range l.Trees {
			owned[tree.Path] = true
		}
		if !l.Nothing() || l.Status == trellis.Review {
			list = append(list, l)
		}
	}
	for _, w := range s.trees {
		if owned[w.Path] || !w.In(c.Folder) {
			continue
		}
		tree, err := c.inspect(ctx, w, s.trees)
		if err != nil {
			return nil, nil, err
		}
		orphans = append(orphans, tree)
	}
	return list, orphans, nil
}

// LookAt tells what one task left.
func (c *Cleaner) LookAt(ctx context.Context, dir string) (Leftover, error) {
	return c.lookAt(ctx, dir, "")
}

func (c *Cleaner) lookAt(ctx context.Context, dir, ours string) (Leftover, error) {
	s, err := c.survey(ctx)
	if err != nil {
		return Leftover{}, err
	}
	t, err := c.Store.Load(dir)
	if err != nil {
		return Leftover{}, err
	}
	s.ours = ours
	return c.leftover(ctx, s, t)
}

func (c *Cleaner) survey(ctx context.Context) (s *survey, err error) {
	s = &survey{owner: map[string]*taskdir.Task{}, bases: map[string][]base{}, to: map[string]string{}}
	for _, list := range []func() ([]taskdir.Entry, error){c.Store.List, c.Store.ListArchived} {
		entries, err := list()
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Task == nil || e.Planning || !begun(e.Task) {
				continue // nothing was done for it, or nobody can tell
			}
			s.tasks = append(s.tasks, e.Task)
			if now := s.owner[e.Task.BranchName()]; now == nil || c.before(e.Task, now) {
				s.owner[e.Task.BranchName()] = e.Task
			}
		}
	}
	if s.main, err = c.Repo.Refs().CurrentBranch(ctx, c.Repo.Main); err != nil {
		return nil, err
	}
	s.trees, err = c.Repo.Worktrees().List(ctx)
	return s, err
}

// begun reports whether a run may have made something for the task: a branch of its name need not be its.
func begun(t *taskdir.Task) bool {
	return t.BranchName() != "" && (t.Pipeline.BaseCommit != "" || t.Commit != "" || t.WorktreePath != "")
}

// before reports whether a branch that two tasks name is the first one's: that of the one which is still at work, then of
// the one which is not archived, then of the newer one.
func (c *Cleaner) before(a, b *taskdir.Task) bool {
	rank := func(t *taskdir.Task) string {
		text := ""
		for _, yes := range []bool{!t.Status.Ended(), filepath.Dir(t.Dir) == c.Store.Tasks()} {
			if yes {
				text += "1"
			} else {
				text += "0"
			}
		}
		return text + c.Store.Made(t).Format(time.DateOnly) + t.ID
	}
	return rank(a) > rank(b)
}

// leftover looks at one task.
func (c *Cleaner) leftover(ctx context.Context, s *survey, t *taskdir.Task) (l Leftover, err error) {
	l = Leftover{Dir: t.Dir, ID: t.ID, Status: t.Status, Base: t.BaseBranch, task: t}
	if l.Base == "" {
		l.Base = s.main
	}
	if owner := s.owner[t.BranchName()]; !begun(t) {
		l.Why = "nothing was done for it"
		return l, nil
	} else if owner != nil && owner.Dir != t.Dir {
		l.Why = "its branch belongs to " + owner.ID + " by now"
		return l, nil
	}
	if l.Tip, err = c.Repo.Refs().Branch(ctx, t.BranchName()); err != nil {
		return l, err
	}
	if l.Tip != "" {
		l.Branch = t.BranchName()
	}
	for _, w := range s.trees {
		if !c.owns(t, w) {
			continue
		}
		if why := c.swapped(w); why != nil && l.Keeps == "" {
			l.Keeps, l.Hint = why.Error(), "put the worktree back, or move away what is in its place; then trellis cleanup "+t.ID
			continue
		}
		tree, err := c.inspect(ctx, w, s.trees)
		if err != nil {
			return l, err
		}
		l.Trees = append(l.Trees, tree)
	}
	if l.bases, err = c.basesOf(ctx, s, l.Base); err != nil {
		return l, err
	}
	if err := c.prove(ctx, &l); err != nil {
		return l, fmt.Errorf("looking whether %s was merged: %w", t.ID, err)
	}
	if l.Remote, l.There, err = c.pushed(ctx, s, l.Base, t.BranchName()); err != nil {
		return l, err
	}
	if err := c.loose(ctx, &l); err != nil {
		return l, fmt.Errorf("looking at the worktrees of %s: %w", t.ID, err)
	}
	c.keeps(s, &l)
	return l, nil
}

// swapped says that something else is in the place of a worktree: nothing of it is looked into, saved or removed. One that
// is gone, half made, or half removed is none of that.
func (c *Cleaner) swapped(w git.Worktree) error {
	if st, err := os.Lstat(w.Path); w.Gone || w.HalfMade() || err == nil && st.IsDir() && !exists(filepath.Join(w.Path, ".git")) {
		return nil
	}
	return c.Repo.Worktrees().Check(w)
}

// pushed is the remote that has a branch, by the remote-tracking branch of it, and where it ends there.
func (c *Cleaner) pushed(ctx context.Context, s *survey, base, branch string) (remote, tip string, err error) {
	remote, asked := s.to[base]
	if !asked {
		if remote, err = c.Repo.Remotes().Remote(ctx, base); err != nil {
			return "", "", err
		}
		s.to[base] = remote
	}
	if remote == "" {
		return "", "", nil
	}
	tip, err = c.known(ctx, "refs/remotes/"+remote+"/"+branch)
	if tip == "" {
		remote = ""
	}
	return remote, tip, err
}

// loose finds the worktrees whose HEAD is left to nothing else: neither the task's branch ends there, nor a base has it.
func (c *Cleaner) loose(ctx context.Context, l *Leftover) error {
	for i, tree := range l.Trees {
		if tree.Gone || tree.at.HalfMade() || !exists(filepath.Join(tree.Path, ".git")) {
			continue
		}
		head, err := c.Repo.Refs().Head(ctx, tree.Path)
		if errors.Is(err, git.ErrNoCommit) || err == nil && head == l.Tip {
			continue
		}
		if err != nil {
			return err
		}
		within, err := c.inBase(ctx, *l, head)
		if err != nil {
			return err
		}
		l.Trees[i].Loose = !within
	}
	return nil
}

// owns reports whether a worktree is the task's: where runs make it, or where the task says, on its branch.
func (c *Cleaner) owns(t *taskdir.Task, w git.Worktree) bool {
	branch := t.BranchName()
	if at := filepath.Join(c.Folder, filepath.FromSlash(branch)); w.At(at) || w.At(at+finalSuffix) && w.Branch == "" {
		return true
	}
	return t.WorktreePath != "" && (w.Branch == branch && w.At(t.WorktreePath) || w.Branch == "" && w.At(t.WorktreePath+finalSuffix))
}

// finalSuffix is that of the checkout in which a run verifies what was committed.
const finalSuffix = "~final"

// basesOf are the branches in which work for a base branch may be.
func (c *Cleaner) basesOf(ctx context.Context, s *survey, branch string) ([]base, error) {
	if list, known := s.bases[branch]; known || branch == "" {
		return list, nil
	}
	var list []base
	add := func(name, shown string) error {
		sha, err := c.Repo.Refs().Resolve(ctx, name)
		if err == nil {
			list = append(list, base{shown, sha})
		}
		if errors.Is(err, git.ErrNotFound) {
			err = nil
		}
		return err
	}
	remotes, err := c.Repo.Remotes().Remotes(ctx, branch)
	if err == nil {
		err = add(branch, branch)
	}
	for _, name := range remotes {
		err = errors.Join(err, add(name, strings.TrimPrefix(name, "refs/remotes/")))
	}
	s.bases[branch] = list
	return list, err
}

// keeps says why nothing of a task may be taken away now.
func (c *Cleaner) keeps(s *survey, l *Leftover) {
	t := l.task
	switch h, held := holder(t.Dir); {
	case l.Keeps != "":
		return
	case held && t.Dir != s.ours:
		l.Keeps, l.Hint = fmt.Sprintf("process %d on %s is at work on it", h.PID, h.Host), "trellis stop "+t.ID
	case !t.Status.Ended():
		l.Keeps, l.Hint = fmt.Sprintf("it is %s", t.Status), "trellis cancel "+t.ID
	case l.Branch != "" && (l.Branch == l.Base || l.Branch == s.main):
		l.Keeps = fmt.Sprintf("its branch %s is no branch of its own", l.Branch)
	}
	for _, tree := range l.Trees {
		switch {
		case l.Keeps != "":
			return
		case tree.Locked != "":
			l.Keeps, l.Hint = fmt.Sprintf("its worktree is locked (%s)", tree.Locked), "git worktree unlock "+tree.Path
		case len(tree.Nested) > 0:
			l.Keeps, l.Hint = nested(tree.Nested), "push what is in them, or move them away; then trellis cleanup "+t.ID
		}
	}
	for _, w := range s.trees {
		if l.Keeps == "" && l.Branch != "" && w.Branch == l.Branch && !w.Gone && !c.owns(t, w) {
			l.Keeps, l.Hint = fmt.Sprintf("its branch is checked out in %s", w.Path), "git worktree remove "+w.Path
		}
	}
}

func nested(paths []string) string {
	return fmt.Sprintf("its worktree holds repositories with work that is saved nowhere else (%s)", strings.Join(paths, ", "))
}

// holder is the process that holds a task.
func holder(dir string) (durable.Holder, bool) {
	path := filepath.Join(dir, taskdir.RunLock)
	if !exists(path) || !durable.Held(path) {
		return durable.Holder{}, false
	}
	h, _ := durable.ReadHolder(path) // only for messages
	return h, true
}
