package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// guard knows the worktree that was made for the run, and what git had around it before any agent was at work.
type guard struct {
	repo     *git.Repo
	task     *taskDir
	hooks    map[string]string
	lastBase string
	made     git.WorktreeID
	objects  objects
	mu       sync.Mutex
}

// Made tells the worktree as this run made it, or found it.
func (g *guard) Made(m *git.WorktreeID) {
	if m == nil { // not yet, or by a Trellis that did not write it down
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.made = *m
}

// Hooks tells the hooks that there were before any agent of the task was at work.
func (g *guard) Hooks(before map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hooks = before
}

func (g *guard) worktree() git.WorktreeID {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.made
}

// changedHooks are those that were changed since: an agent may have written them, and git runs none then.
func (g *guard) changedHooks(ctx context.Context, m git.WorktreeID, base string) ([]string, error) {
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
func (g *guard) confine(ctx context.Context, base string) (context.Context, error) {
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

// elsewhere are activities that don't need the worktree to be there: they say how a run stands or ended, deliver the
// branch, make the worktree, or take it away, which an entry that was cut off may have done.
var elsewhere = []string{string(claim), string(project), string(prepare), string(deliver), string(conclude), string(discard)}

// inWorktree are activities that do nothing in the worktree once something else is in its place: it is looked at before each,
// and by each again before what it does there.
func inWorktree(g *guard, s *standardsWatch, list []flow.Activity) []flow.Activity {
	for i, act := range list {
		if act.Name == string(prepare) { // it looks for itself
			continue
		}
		list[i].Run = func(ctx context.Context, c flow.Call, in json.RawMessage) (any, error) {
			m := g.worktree()
			if !slices.Contains(elsewhere, act.Name) {
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
func (g *guard) checkSame(m git.WorktreeID) error { return g.explain(m.Same()) }

// explain adds to an error that says so, or that objects of git are not what they are to be, what to do.
func (g *guard) explain(err error) error {
	if damaged := (*git.DamagedError)(nil); errors.As(err, &damaged) {
		return flow.Fail(string(trellis.ProtectedPath), "%v; then `trellis retry %s`", damaged, g.task.id())
	}
	if borrowed := (*git.AlternatesError)(nil); errors.As(err, &borrowed) {
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

// begin notes how they are, and returns where they are borrowed: as before, or as now when that is nil.
func (o *objects) begin(r *git.Repo, before []string) (borrowed []string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen, err = r.Trees().Objects(o.since, before); err != nil {
		return nil, err
	}
	o.borrowed = o.seen.Alternates()
	return o.borrowed, nil
}

// check makes sure of them. In a process that goes on with a run the dates of others' doing are not believed alone: the trees of the
// base, by which changes are told, are hashed.
func (o *objects) check(ctx context.Context, r *git.Repo, base string) (notes []string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		seen, err := r.Trees().Objects(o.since, o.borrowed)
		if err == nil {
			err = r.Trees().VerifyTrees(ctx, base)
		}
		if err != nil {
			return nil, err
		}
		o.seen = seen
	}
	return o.seen.Check(ctx)
}

// Objects tells what the journal says of git's objects: when the first run of the task began, and where they were borrowed before
// any agent was at work, nil when that is not known.
func (g *guard) Objects(since time.Time, borrowed []string) {
	g.objects.mu.Lock()
	defer g.objects.mu.Unlock()
	g.objects.since, g.objects.borrowed = since, borrowed
}

// beginObjects notes how git's objects are before any agent is at work.
func (g *guard) beginObjects(before []string) (borrowed []string, err error) {
	return g.objects.begin(g.repo, before)
}

// verifyObjects makes sure of the objects that appeared or were changed since an agent or a command of the run was at work: git itself
// believes what stands there. One that is wrong ends the run; what was removed is told. In a process that goes on
// with a run all count that were changed since the first run began.
func (g *guard) verifyObjects(ctx context.Context, base string) ([]string, error) {
	notes, err := g.objects.check(ctx, g.repo, base)
	return notes, g.explain(err)
}
