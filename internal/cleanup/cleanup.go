// Package cleanup finds what tasks left in a repository, and removes what nobody needs: worktrees, branches, backups and the
// files of old runs.
package cleanup

import (
	"context"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Cleaner finds what tasks left in a repository: worktrees and branches. It finds out which of that work is in its base,
// completes tasks whose work was merged, and removes what nobody needs. Nothing is lost: what is not in the history of a base
// is stored as a commit below [snapshot.BackupRefs] first.
//
// Every method may be called again after it was cut off at any point.
type Cleaner struct {
	Store  taskdir.Store
	Repo   *git.Repo
	Folder string   // folder of all worktrees
	Copied []string // what a run copies from the main checkout into worktrees, see worktree.copy
	Now    func() time.Time
}

// Completer returns what completes the tasks whose work was merged.
func (c *Cleaner) Completer() Completer { return Completer{c.Store, c.Now} }

// Backups returns the backups of what was removed.
func (c *Cleaner) Backups() Backups { return Backups{c.Store, c.Repo} }

// Look returns what tasks left: the tasks with something to remove, and those in review. Orphans are worktrees in the folder
// of worktrees that belong to no task, by what the tasks say.
func (c *Cleaner) Look(ctx context.Context) (list []Leftover, orphans []Orphan, err error) {
	s, err := c.survey(ctx)
	if err != nil {
		return nil, nil, err
	}
	owned := map[string]bool{}
	for _, t := range s.tasks {
		l, err := s.leftover(ctx, t)
		if err != nil {
			return nil, nil, err
		}
		owned[l.swappedPath] = true
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
		tree, err := s.inspector.inspect(ctx, w, s.trees)
		if err != nil {
			return nil, nil, err
		}
		orphans = append(orphans, s.orphan(tree))
	}
	return list, orphans, nil
}

// LookAt returns what one task left.
func (c *Cleaner) LookAt(ctx context.Context, dir string) (Leftover, error) {
	return c.lookAt(ctx, dir, "")
}

func (c *Cleaner) lookAt(ctx context.Context, dir, heldDir string) (Leftover, error) {
	s, err := c.survey(ctx)
	if err != nil {
		return Leftover{}, err
	}
	t, err := c.Store.Load(dir)
	if err != nil {
		return Leftover{}, err
	}
	s.heldDir = heldDir
	return s.leftover(ctx, t)
}

// survey reads the current state of the repository.
func (c *Cleaner) survey(ctx context.Context) (s *survey, err error) {
	s = &survey{repo: c.Repo, folder: c.Folder, inspector: inspector{c.Repo, c.Copied}, prover: prover{c.Repo}, owner: map[string]*taskdir.Task{}, bases: map[string][]base{}, remotes: map[string]string{}, all: map[string]taskdir.Entry{}, tasksDir: c.Store.Tasks()}
	for _, list := range []func() ([]taskdir.Entry, error){c.Store.List, c.Store.ListArchived} {
		entries, err := list()
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if _, newer := s.all[e.ID]; !newer {
				s.all[e.ID] = e
			}
			if e.Task == nil || e.Planning || !begun(e.Task) {
				continue // nothing was done for it, or nobody can tell
			}
			s.tasks = append(s.tasks, e.Task)
			if now := s.owner[e.Task.BranchName()]; now == nil || outranks(c.Store, e.Task, now) {
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
