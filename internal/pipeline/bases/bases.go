// Package bases finds where the work of a task begins, and what it has to wait for before it can begin there: its base branch, or
// the branch of the one task that it depends on and that is not merged yet.
package bases

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Finder finds where the work of tasks begins.
type Finder struct {
	Repo       *git.Repo
	Store      taskdir.Store
	OnlyMerged bool    // tasks wait until their dependencies are merged
	Merges     *Merges // nil: nothing is remembered
}

// Base is where the work of a task begins.
type Base struct {
	Branch string // base_branch, or the branch that is checked out
	Unset  bool   // task.json names no base branch
	Commit string
	On     string // the task on whose branch Commit is, "" if it is on Branch
}

// Wait is one thing that a task has to wait for before it can begin.
type Wait struct {
	For  string
	Next string // what a person can do about it, printed after For; "" if that is left to the caller
	Task string // the task that has to go on, if a person can only follow it
}

// Waits are all things that a task has to wait for, as people read them in one line.
type Waits []Wait

func (w Waits) String() string {
	var list []string
	for _, one := range w {
		if one.Next != "" {
			one.For += "; next: " + one.Next
		}
		list = append(list, one.For)
	}
	return strings.Join(list, "; ")
}

// FirstWithoutNext returns the first wait without Next that names a task, for which the caller has to say what to do, the zero Wait if
// there is none. It returns false if there are waits and all of them have a Next.
func (w Waits) FirstWithoutNext() (Wait, bool) {
	unsaid := slices.DeleteFunc(slices.Clone(w), func(one Wait) bool { return one.Next != "" })
	if i := slices.IndexFunc(unsaid, func(one Wait) bool { return one.Task != "" }); i >= 0 {
		return unsaid[i], true
	}
	return Wait{}, len(w) == 0 || len(unsaid) > 0
}

// UnmetError suspends a run that can't be claimed, since its dependencies changed after it was begun.
type UnmetError struct{ Waits Waits }

func (e *UnmetError) Error() string { return "the task has to wait for " + e.Waits.String() }

// Is makes the error a suspension, after which the run continues later.
func (e *UnmetError) Is(target error) bool { return target == flow.ErrSuspended }

// BaseOf returns the base of a task, and what it has to wait for before it can begin there. A task that has begun keeps its earlier
// base as long as its branch exists, whatever became of its dependencies, unless it is to begin again (fresh).
func (b Finder) BaseOf(ctx context.Context, t *taskdir.Task, earlier Base, fresh bool) (base Base, waits Waits, err error) {
	if base, err = b.namedBase(ctx, t); err != nil {
		return base, nil, err
	}
	tip := ""
	if !fresh {
		if tip, err = b.Repo.Refs().Branch(ctx, t.BranchName()); err != nil {
			return base, nil, err
		}
	}
	if tip != "" && earlier.Commit != "" {
		base.Commit, base.On = earlier.Commit, earlier.On
		return base, nil, nil
	}
	if base.Commit, err = b.Repo.Refs().Resolve(ctx, base.Branch); err != nil {
		return base, nil, flow.Fail(string(trellis.WorktreeFailed), "base branch %s: %v", base.Branch, err)
	}
	if waits, err = b.stackOnDependency(ctx, t, &base); err == nil && tip != "" {
		err = b.moveToMergeBase(ctx, &base, tip)
	}
	return base, waits, err
}

// namedBase returns the base branch of a task.
func (b Finder) namedBase(ctx context.Context, t *taskdir.Task) (base Base, err error) {
	if t.BaseBranch != "" {
		return Base{Branch: t.BaseBranch}, nil
	}
	base.Unset = true
	if base.Branch, err = b.Repo.Refs().CurrentBranch(ctx, b.Repo.Main); err == nil && base.Branch == "" {
		err = flow.Fail(string(trellis.WorktreeFailed), "no base_branch is set and no branch is checked out: `trellis task set-base-branch %s BRANCH`", trellis.ShellWord(t.ID))
	}
	return base, err
}

// moveToMergeBase moves base down to its merge base with an existing branch, of which nobody recorded where it began. Otherwise
// the branch would seem to revert what came to the base branch since.
func (b Finder) moveToMergeBase(ctx context.Context, base *Base, tip string) error {
	shared, err := b.Repo.History().MergeBase(ctx, base.Commit, tip)
	if err == nil && shared != "" && shared != tip {
		base.Commit = shared
	}
	return err
}

// unmergedTask is a dependency that is done but not merged.
type unmergedTask struct{ id, tip string }

// stackOnDependency sets the base to the branch of the one dependency that is not merged yet, if there is one.
func (b Finder) stackOnDependency(ctx context.Context, t *taskdir.Task, base *Base) (waits Waits, err error) {
	var list []unmergedTask
	for _, id := range t.Pipeline.DependsOn {
		on, why, err := b.checkDependency(ctx, id, *base)
		switch {
		case err != nil:
			return nil, err
		case why.For != "":
			waits = append(waits, why)
		case on.tip != "":
			list = append(list, on)
		}
	}
	if len(waits) > 0 {
		return waits, nil
	}
	if list, err = b.dropContained(ctx, list); err != nil || len(list) == 0 {
		return nil, err
	}
	if len(list) > 1 {
		return Waits{severalWait(list)}, nil
	}
	base.Commit, base.On = list[0].tip, list[0].id
	return nil, nil
}

// dropContained drops the dependencies whose work is on the branch of another.
func (b Finder) dropContained(ctx context.Context, list []unmergedTask) (tops []unmergedTask, err error) {
	for i, d := range list {
		below := false
		for k, other := range list {
			if i == k || below || d.tip == other.tip && i < k {
				continue
			}
			if below, err = b.Repo.History().IsAncestor(ctx, d.tip, other.tip); err != nil {
				return nil, err
			}
		}
		if !below {
			tops = append(tops, d)
		}
	}
	return tops, nil
}

func severalWait(list []unmergedTask) Wait {
	var ids []string
	for _, d := range list {
		ids = append(ids, d.id)
	}
	last := len(ids) - 1
	return Wait{Task: ids[0], For: fmt.Sprintf("all but one of %s and %s to be merged (they are in review, and a branch can begin on one of them)", strings.Join(ids[:last], ", "), ids[last])}
}

// checkDependency says why a task that begins at base has to wait for another one, the zero Wait if it need not. Then on is the
// other one's branch, zero if base already has its work.
func (b Finder) checkDependency(ctx context.Context, id string, base Base) (on unmergedTask, why Wait, err error) {
	t, wrong := b.Find(id)
	switch {
	case wrong != "":
		return on, Wait{For: wrong}, nil
	case t.Status.EndedBadly():
		return on, b.lostWait(t), nil
	case t.Status == trellis.Completed, b.isArchived(t):
		return on, why, nil
	case t.Status != trellis.Review:
		return on, Wait{For: t.ID, Task: t.ID}, nil
	}
	tip, err := b.Repo.Refs().Branch(ctx, t.BranchName())
	if err != nil {
		return on, why, err
	}
	merged, err := b.ContainsWork(ctx, t, tip, base)
	switch {
	case err != nil || merged:
		return on, why, err
	case b.OnlyMerged:
		why.For = t.ID + " to be merged (it is in review)"
	case tip == "":
		why.For = t.ID + " to be merged (it is in review, but its branch " + t.BranchName() + " is gone)"
	case t.BaseBranch != "" && t.BaseBranch != base.Branch:
		why.For = fmt.Sprintf("%s to be merged into %s (it is in review, and was made for %s)", t.ID, base.Branch, t.BaseBranch)
	default:
		return unmergedTask{t.ID, tip}, why, nil
	}
	why.Task = t.ID
	return on, why, nil
}

// lostWait says that a dependency won't complete by itself, and what people can do about it.
func (b Finder) lostWait(t *taskdir.Task) Wait {
	const out = "take it out of pipeline.depends_on"
	switch {
	case b.isArchived(t):
		return Wait{For: fmt.Sprintf("%s, which is %s and in the archive: %s", t.ID, t.Status, out)}
	case t.Status == trellis.Rejected:
		return Wait{For: fmt.Sprintf("%s, which is %s: %s", t.ID, t.Status, out)}
	}
	return Wait{For: fmt.Sprintf("%s, which is %s", t.ID, t.Status), Next: "trellis retry " + trellis.ShellWord(t.ID) + ", or " + out}
}

func (b Finder) isArchived(t *taskdir.Task) bool { return filepath.Dir(t.Dir) != b.Store.Tasks() }

// maxHops is how many tasks without a change may be stacked on each other.
const maxHops = 100

// Find returns the task that id stands for: if id needed no change, the task on whose branch it was stacked. Else it says why not.
func (b Finder) Find(id string) (*taskdir.Task, string) {
	for range maxHops {
		dir, err := b.Store.Find(id)
		if err != nil {
			return nil, fmt.Sprintf("%s: %v", id, err)
		}
		t, err := b.Store.Load(dir)
		if err != nil {
			return nil, id + ", whose task.json can't be read"
		}
		if t.Status != trellis.Completed || t.Pipeline.Outcome != trellis.NoChangeNeeded || t.Pipeline.StackedOn == "" {
			return t, ""
		}
		id = t.Pipeline.StackedOn
	}
	return nil, id + ", which is based on itself"
}

// ContainsWork reports whether base contains the work of a task in review, whose branch may have been deleted since.
func (b Finder) ContainsWork(ctx context.Context, t *taskdir.Task, tip string, base Base) (bool, error) {
	if tip == "" {
		var err error
		if tip, err = b.Repo.Refs().Find(ctx, t.Commit); err != nil {
			return false, err
		}
	}
	if tip == "" {
		return false, nil
	}
	return b.Merges.isMerged(ctx, b.Repo, base.Commit, t.Pipeline.BaseCommit, tip)
}

// Merges remembers which work was found in which base. The zero value is ready to use, by several goroutines at once.
type Merges struct {
	mu   sync.Mutex
	last map[string]mergeAnswer // by the commit that was looked up
}

type mergeAnswer struct {
	base, from string
	merged     bool
}

func (m *Merges) isMerged(ctx context.Context, repo *git.Repo, base, from, tip string) (bool, error) {
	if m == nil {
		m = new(Merges)
	}
	m.mu.Lock()
	known := m.last[tip]
	m.mu.Unlock()
	if known.base == base && known.from == from {
		return known.merged, nil
	}
	held, err := askMerged(ctx, repo, base, from, tip)
	if err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		m.last = map[string]mergeAnswer{}
	}
	m.last[tip] = mergeAnswer{base, from, held}
	return held, nil
}

// askMerged asks git. If it is not known where the work began, only the commit tip itself counts.
func askMerged(ctx context.Context, repo *git.Repo, base, from, tip string) (bool, error) {
	if from == "" {
		return repo.History().IsAncestor(ctx, tip, base)
	}
	if _, err := repo.Refs().Resolve(ctx, from); err != nil {
		return repo.History().IsAncestor(ctx, tip, base)
	}
	return repo.History().Merged(ctx, base, from, tip)
}
