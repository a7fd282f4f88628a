package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// worktreeGuard knows the worktree that was made for the run, and what git had around it before any agent was at work.
type worktreeGuard struct {
	repo     *git.Repo
	task     *taskDir
	hooks    map[string]string
	lastBase string
	made     git.WorktreeID
	objects  objects
	mu       sync.Mutex
}

// Made tells the worktree as this run made it, or found it.
func (g *worktreeGuard) Made(m *git.WorktreeID) {
	if m == nil { // not yet, or by a Trellis that did not write it down
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.made = *m
}

// Hooks tells the hooks that there were before any agent of the task was at work.
func (g *worktreeGuard) Hooks(before map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hooks = before
}

func (g *worktreeGuard) worktree() git.WorktreeID {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.made
}

// changedHooks are those that were changed since: an agent may have written them, and git runs none then.
func (g *worktreeGuard) changedHooks(ctx context.Context, m git.WorktreeID, base string) ([]string, error) {
	g.mu.Lock()
	before := g.hooks
	if base == "" { // of an activity that knows no job
		base = g.lastBase
	}
	g.lastBase = base
	g.mu.Unlock()
	if base == "" || before == nil || m.Path == "" || m.Same() != nil {
		return nil, nil
	}
	return g.repo.Hooks().ChangedHooks(ctx, m.Path, base, before)
}

// confine is a context in which git works in no other folder than the worktree that was made, and runs no hook that an agent
// may have written.
func (g *worktreeGuard) confine(ctx context.Context, base string) (context.Context, error) {
	m := g.worktree()
	ctx = git.InWorktree(ctx, m)
	changed, err := g.changedHooks(ctx, m, base)
	if len(changed) > 0 {
		ctx = git.Hookless(ctx)
	}
	return ctx, err
}

// baseOf is the base commit of the job in the input of an activity or of a call, "" when there is none.
func baseOf(in json.RawMessage) string {
	var d struct {
		Job struct {
			Base string `json:"base_commit"`
		} `json:"job"`
	}
	_ = json.Unmarshal(in, &d) // of another kind: it has none
	return d.Job.Base
}

// withoutWorktree are activities that don't need the worktree to be there: they say how a run stands or ended, deliver the
// branch, make the worktree, or take it away, which an entry that was cut off may have done.
var withoutWorktree = []string{string(claim), string(writeStatus), string(prepare), string(deliver), string(conclude), string(discard)}

// guardWorktree are activities that do nothing in the worktree once something else is in its place: it is looked at before each,
// and by each again before what it does there.
func guardWorktree(g *worktreeGuard, s *standardsWatch, list []flow.Activity) []flow.Activity {
	for i, act := range list {
		if act.Name == string(prepare) { // it looks for itself
			continue
		}
		list[i].Run = func(ctx context.Context, c flow.Call, in json.RawMessage) (any, error) {
			m := g.worktree()
			if !slices.Contains(withoutWorktree, act.Name) {
				if err := g.checkSame(m); err != nil {
					return nil, err
				}
			}
			ctx, err := g.confine(ctx, baseOf(in))
			if err != nil {
				return nil, err
			}
			out, err := s.around(ctx, c, in, act)
			return out, g.explain(err)
		}
	}
	return list
}

// checkSame is the failure of a run whose worktree is no longer the one that it worked in.
func (g *worktreeGuard) checkSame(m git.WorktreeID) error { return g.explain(m.Same()) }

// explain adds to an error that says so, or that objects of git are not what they are to be, what to do.
func (g *worktreeGuard) explain(err error) error {
	if damaged, ok := errors.AsType[*git.DamagedError](err); ok {
		return flow.Fail(string(trellis.ProtectedPath), "%v; then `trellis retry %s`", damaged, g.task.id())
	}
	if borrowed, ok := errors.AsType[*git.AlternatesError](err); ok {
		return flow.Fail(string(trellis.ProtectedPath), "%v; then `trellis retry %s`", borrowed, g.task.id())
	}
	var e *git.SwappedError
	if !errors.As(err, &e) {
		return err
	}
	return flow.Fail(string(trellis.WorktreeFailed), "%v; nothing was done there: put the worktree back, or move away what is in its place, then `trellis retry %s`", e, g.task.id())
}

// objects are git's, as they were when nobody of the run was at work, or when they were looked at last. The zero value has not
// begun.
type objects struct {
	mu       sync.Mutex
	seen     *git.Objects
	since    time.Time // when the first run began, by its journal: what was changed later is looked at
	borrowed []string  // what was borrowed then, nil: nobody knows
}

// Objects tells what the journal says of git's objects: when the first run of the task began, and where they were borrowed before
// any agent was at work, nil when that is not known.
func (g *worktreeGuard) Objects(since time.Time, borrowed []string) {
	g.objects.mu.Lock()
	defer g.objects.mu.Unlock()
	g.objects.since, g.objects.borrowed = since, borrowed
}

// beginObjects notes how git's objects are before any agent is at work, and returns where they are borrowed: as before, or
// as now when that is nil.
func (g *worktreeGuard) beginObjects(before []string) (borrowed []string, err error) {
	o := &g.objects
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen, err = g.repo.Trees().Objects(o.since, before); err != nil {
		return nil, err
	}
	o.borrowed = o.seen.Alternates()
	return o.borrowed, nil
}

// verifyObjects makes sure of the objects that appeared or were changed since an agent or a command of the run was at work: git itself
// believes what stands there. One that is wrong ends the run; what was removed is told. In a process that goes on
// with a run all count that were changed since the first run began, and dates of others' doing are not believed alone: the trees of
// the base, by which changes are told, are hashed.
func (g *worktreeGuard) verifyObjects(ctx context.Context, base string) (notes []string, err error) {
	o := &g.objects
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		seen, err := g.repo.Trees().Objects(o.since, o.borrowed)
		if err == nil {
			err = g.repo.Trees().VerifyTrees(ctx, base)
		}
		if err != nil {
			return nil, g.explain(err)
		}
		o.seen = seen
	}
	notes, err = o.seen.Check(ctx)
	return notes, g.explain(err)
}

// repairer takes back what no agent may do to git or to task directories.
type repairer struct {
	repo    *git.Repo
	guard   *worktreeGuard
	modules *modules
	task    *taskDir
}

func (r *repairer) repair(ctx context.Context, c flow.Call, j Job) (notes []string, err error) {
	if notes, err = r.guard.verifyObjects(ctx, j.BaseCommit); err != nil {
		return notes, err
	}
	strayed, err := snapshot.NewBackups(r.repo).Reattach(ctx, j.Worktree, j.Branch, j.anchor(), r.task.backupRef(c)+"-strayed")
	if err != nil {
		return notes, err
	}
	if strayed {
		notes = append(notes, "the worktree had left its branch, or the branch its base: it was put back, the files as they were")
	}
	more, err := r.modules.repair(ctx, c, j)
	if notes = append(notes, more...); err != nil {
		return notes, err
	}
	hidden, err := r.repo.Index().Unhide(ctx, j.Worktree)
	if err != nil {
		return notes, err
	}
	if len(hidden) > 0 {
		notes = append(notes, "git had been told not to look at tracked files, which was undone: "+strings.Join(few(hidden), ", "))
	}
	if j.merging() { // what the base has there is not in the branch yet, and its commit takes it from the base
		return notes, nil
	}
	if _, err := os.Lstat(filepath.Join(j.Worktree, ".trellis", "tasks")); errors.Is(err, fs.ErrNotExist) {
		return notes, nil // whether someone removed it is no matter: it is never committed
	}
	undone, err := snapshot.NewBackups(r.repo).Discard(ctx, j.Worktree, r.task.backupRef(c), ".trellis/tasks")
	if undone {
		notes = append(notes, "changes below .trellis/tasks of the worktree were undone: a task lives in the main checkout")
	}
	return notes, err
}
