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

// worktreeGuard knows the worktree that was made for the run, and git's hooks and objects before any agent was at work.
type worktreeGuard struct {
	place
	hooks    map[string]string
	lastBase string
	made     git.WorktreeID
	objects  objects
	mu       sync.Mutex
}

// SetMade sets the worktree that this run made, or found.
func (g *worktreeGuard) SetMade(m *git.WorktreeID) {
	if m == nil { // not made yet, or by a Trellis that did not record it
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.made = *m
}

// SetHooks sets the hooks as they were before any agent of the task was at work.
func (g *worktreeGuard) SetHooks(before map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hooks = before
}

func (g *worktreeGuard) worktree() git.WorktreeID {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.made
}

// changedHooks returns the hooks that were changed since: an agent may have written them, and git runs no hook then.
func (g *worktreeGuard) changedHooks(ctx context.Context, m git.WorktreeID, base string) ([]string, error) {
	g.mu.Lock()
	before := g.hooks
	if base == "" { // of an activity whose input has no job
		base = g.lastBase
	}
	g.lastBase = base
	g.mu.Unlock()
	if base == "" || before == nil || m.Path == "" || m.CheckUnchanged() != nil {
		return nil, nil
	}
	return g.repo.Hooks().ChangedHooks(ctx, m.Path, base, before)
}

// confine returns a context in which git works in no other folder than the worktree that was made, and runs no hooks if an agent
// may have changed one.
func (g *worktreeGuard) confine(ctx context.Context, base string) (context.Context, error) {
	m := g.worktree()
	ctx = git.InWorktree(ctx, m)
	changed, err := g.changedHooks(ctx, m, base)
	if len(changed) > 0 {
		ctx = git.Hookless(ctx)
	}
	return ctx, err
}

// baseOf returns the base commit of the job in the input of an activity or a call, "" if there is none.
func baseOf(in json.RawMessage) string {
	var d struct {
		Job struct {
			Base string `json:"base_commit"`
		} `json:"job"`
	}
	_ = json.Unmarshal(in, &d) // an input of another kind has none
	return d.Job.Base
}

// withoutWorktree lists activities that don't need the worktree to exist: they record how a run is going or ended, deliver the
// branch, make the worktree, or remove it, which an interrupted attempt may have done.
var withoutWorktree = []string{string(claim), string(writeStatus), string(prepare), string(deliver), string(conclude), string(discard)}

// guardWorktree wraps activities, so that they do nothing in the worktree once another folder is in its place. It is checked
// before each activity, and by each again before it acts there.
func guardWorktree(g *worktreeGuard, s *standardsWatch, list []flow.Activity) []flow.Activity {
	for i, act := range list {
		if act.Name == string(prepare) { // it checks the worktree itself
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
			out, err := s.runWatched(ctx, c, in, act)
			return out, g.explain(err)
		}
	}
	return list
}

// checkSame returns a failure if the worktree is no longer the one in which the run worked.
func (g *worktreeGuard) checkSame(m git.WorktreeID) error { return g.explain(m.CheckUnchanged()) }

// explain adds what to do to errors about a replaced worktree, or about damaged or borrowed objects of git.
func (g *worktreeGuard) explain(err error) error {
	if damaged, ok := errors.AsType[*git.DamagedError](err); ok {
		return flow.Fail(string(trellis.ProtectedPath), "%v; then `trellis retry %s`", damaged, g.task.id())
	}
	if borrowed, ok := errors.AsType[*git.AlternatesError](err); ok {
		return flow.Fail(string(trellis.ProtectedPath), "%v; then `trellis retry %s`", borrowed, g.task.id())
	}
	var e *git.ReplacedError
	if !errors.As(err, &e) {
		return err
	}
	return flow.Fail(string(trellis.WorktreeFailed), "%v; nothing was done there: put the worktree back, or move away what is in its place, then `trellis retry %s`", e, g.task.id())
}

// objects is the state of git's objects when no process of the run was at work, or when they were last checked. The zero value has
// no state yet.
type objects struct {
	mu       sync.Mutex
	seen     *git.Objects
	since    time.Time // when the first run began, by its journal: objects that were changed later are checked
	borrowed []string  // where git borrowed objects from then, nil: unknown
}

// SetObjects sets what the journal says about git's objects: when the first run of the task began, and where they were borrowed from
// before any agent was at work, nil if unknown.
func (g *worktreeGuard) SetObjects(since time.Time, borrowed []string) {
	g.objects.mu.Lock()
	defer g.objects.mu.Unlock()
	g.objects.since, g.objects.borrowed = since, borrowed
}

// recordObjects records git's objects before any agent is at work, and returns where they are borrowed from: before, or the
// current places if that is nil.
func (g *worktreeGuard) recordObjects(before []string) (borrowed []string, err error) {
	o := &g.objects
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen, err = g.repo.Trees().Objects(o.since, before); err != nil {
		return nil, err
	}
	o.borrowed = o.seen.Alternates()
	return o.borrowed, nil
}

// verifyObjects checks the objects that appeared or were changed since an agent or a command of the run was at work, since git
// itself trusts them. A wrong one ends the run; removed ones are noted. A process that continues a run checks all that were
// changed since the first run began. Since others can set file times, it also hashes the trees of the base, against which changes
// are determined.
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

// repairer undoes changes to git or to task directories that no agent may make.
type repairer struct {
	place
	guard   *worktreeGuard
	modules *modules
}

func (r *repairer) repair(ctx context.Context, c flow.Call, j Job) (notes []string, err error) {
	if notes, err = r.guard.verifyObjects(ctx, j.BaseCommit); err != nil {
		return notes, err
	}
	strayed, err := snapshot.NewBackups(r.repo).Reattach(ctx, j.Worktree, j.Branch, j.requiredCommit(), r.task.backupRef(c)+"-strayed")
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
	hidden, err := r.repo.Index().ClearHiddenFlags(ctx, j.Worktree)
	if err != nil {
		return notes, err
	}
	if len(hidden) > 0 {
		notes = append(notes, "git had been told to ignore changes to tracked files, which was undone: "+strings.Join(shortList(hidden), ", "))
	}
	if j.merging() { // the base's tasks are not in the branch yet, and the merge commit takes them from the base
		return notes, nil
	}
	if _, err := os.Lstat(filepath.Join(j.Worktree, ".trellis", "tasks")); errors.Is(err, fs.ErrNotExist) {
		return notes, nil // it does not matter who removed it: it is never committed
	}
	undone, err := snapshot.NewBackups(r.repo).Discard(ctx, j.Worktree, r.task.backupRef(c), ".trellis/tasks")
	if undone {
		notes = append(notes, "changes below .trellis/tasks of the worktree were undone: a task lives in the main checkout")
	}
	return notes, err
}
