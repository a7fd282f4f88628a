package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const prepare flow.Act[prepareIn, Prepared] = "prepare"

type prepareIn struct {
	Job   Job  `json:"job"`
	Fresh bool `json:"fresh,omitempty"`
	Adopt bool `json:"adopt,omitempty"`
	Begun bool `json:"begun,omitempty"`
	// Hooks are the hooks before the first run, and Borrowed is where git borrowed objects from then.
	Hooks    map[string]string `json:"hooks,omitempty"`
	Borrowed []string          `json:"borrowed,omitzero"`
	Filled   []string          `json:"filled,omitzero"` // as the previous run recorded it
}

// Prepared describes a worktree that agents can work in.
type Prepared struct {
	Notes       []string          `json:"notes,omitempty"`
	Lost        bool              `json:"lost,omitempty"`    // the work of earlier runs is gone
	Fingerprint map[string]string `json:"footing,omitempty"` // hashes of what a verdict depends on besides the worktree; journals have it by this name
	Results     []CommandResult   `json:"results,omitempty"` // of the plan's preconditions
	// BaselineBeside is set when the deciding commands run at base beside the first agent, not before it.
	BaselineBeside bool            `json:"baseline_beside,omitempty"`
	Made           *git.WorktreeID `json:"made,omitempty"` // identity of the worktree, which shows whether another folder was put in its place
	// Hooks are the hooks that git would run, as they were before any agent of the task was at work, and Borrowed the folders that
	// git borrowed objects from: nil in a journal from before they were recorded.
	Hooks    map[string]string `json:"hooks,omitempty"`
	Borrowed []string          `json:"borrowed,omitzero"`
	// Filled are submodules without a repository that held files before any agent was at work: git sees none of those files. It is
	// nil if that was not recorded.
	Filled []string `json:"filled,omitzero"`
}

// prepare makes the worktree ready. If the work of earlier runs is lost, what they recorded about it no longer counts.
func (r *run) prepare(f flow.Flow) error {
	if err := r.enter(f, "prepare"); err != nil {
		return err
	}
	ready, err := prepare.Do(f, prepareIn{r.job, r.in.Fresh, r.in.Adopt, r.in.Begun, r.in.Hooks, r.in.Borrowed, r.in.Filled})
	if err != nil {
		return err
	}
	r.rep.note(ready.Notes)
	if ready.Lost {
		r.in.Implemented, r.in.Finished, r.in.Undelivered, r.rep.Implemented, r.in.Begun = "", nil, nil, "", false
	}
	r.fingerprint, r.filledSubmodules, r.baselineBeside = ready.Fingerprint, ready.Filled, ready.BaselineBeside
	r.job.Preconditions, r.job.Assumed = nil, nil
	return nil
}

// preparer is the effect of prepare.
type preparer struct {
	place
	box         *sandbox.Box
	commands    *commands
	environment *fingerprinter
	guard       *worktreeGuard
	modules     *modules
	passes      *passRecords
	restorer    *restorer
	setup       *setup
	warm        *warmFolders
	worktrees   *worktrees
}

// prepare makes the worktree on the task's branch, or takes it as it was left, sets it up, and checks that the plan's
// preconditions hold.
func (pp *preparer) prepare(ctx context.Context, c flow.Call, in prepareIn) (p Prepared, err error) {
	if p.Notes, err = pp.clear(ctx, c, in); err != nil {
		return p, err
	}
	_, missing := pp.repo.Worktrees().Identify(in.Job.Worktree)
	made := missing != nil
	if p.Notes, err = pp.worktrees.resumeUpdate(ctx, c, in, p.Notes); err != nil {
		return p, err
	}
	if ctx, err = pp.protect(ctx, in, made, &p); err != nil {
		return p, err
	}
	if err := pp.modules.addWorktrees(ctx, in); err != nil {
		return p, err
	}
	if p.Lost, err = pp.worktrees.workLost(ctx, in); err != nil {
		return p, err
	}
	settled, err := pp.restorer.finishEarlier(ctx, c, in, made)
	if err != nil {
		return p, err
	}
	p.Notes = append(p.Notes, settled...)
	if err := pp.furnish(ctx, c, in, made, &p); err != nil {
		return p, err
	}
	if p.Fingerprint, err = pp.environment.fingerprint(ctx, in.Job); err != nil || in.Begun {
		return p, err
	}
	if p.BaselineBeside, err = pp.passes.wantsBaselineBeside(ctx, in.Job); err != nil {
		return p, err
	}
	p.Results, p.Notes, err = pp.checkPreconditions(ctx, c, in.Job, p.Notes)
	return p, err
}

// clear removes a worktree that has to be made again, after backing up its contents.
func (pp *preparer) clear(ctx context.Context, c flow.Call, in prepareIn) (notes []string, err error) {
	disposable := pp.worktrees.untouched
	if in.Fresh {
		disposable = pp.worktrees.disposable
	}
	if clear, err := disposable(ctx, in); err != nil || !clear {
		return nil, err
	}
	if err := pp.worktrees.checkOwner(ctx, c, in); err != nil {
		return nil, err
	}
	return pp.worktrees.backUpAndRemove(ctx, c, in.Job)
}

// protect records the worktree, objects and hooks that the task began with, and makes git refuse any others from here on. Git
// commands that get the returned context are confined to them.
func (pp *preparer) protect(ctx context.Context, in prepareIn, made bool, p *Prepared) (context.Context, error) {
	id, err := pp.repo.Worktrees().Identify(in.Job.Worktree)
	if err != nil {
		return ctx, pp.guard.explain(err)
	}
	pp.guard.SetMade(&id)
	p.Made = &id
	before := in.Borrowed
	if in.Fresh {
		before = nil
	}
	if p.Borrowed, err = pp.guard.recordObjects(before); err != nil {
		return ctx, err
	}
	if !made { // the trees of a new worktree were hashed when it was made
		if err := pp.repo.Trees().VerifyTrees(ctx, in.Job.BaseCommit); err != nil {
			return ctx, pp.guard.explain(err)
		}
	}
	if p.Hooks = in.Hooks; p.Hooks == nil || in.Fresh {
		if p.Hooks, err = pp.repo.Hooks().HookState(in.Job.Worktree); err != nil {
			return ctx, err
		}
	}
	pp.guard.SetHooks(p.Hooks)
	return pp.guard.confine(ctx, in.Job.BaseCommit)
}

// furnish adds to the worktree what is not committed: copied files, the pointer to the task, and what worktree.setup makes.
func (pp *preparer) furnish(ctx context.Context, c flow.Call, in prepareIn, made bool, p *Prepared) error {
	notes, err := pp.setup.copyFiles(ctx, in.Job)
	p.Notes = append(p.Notes, notes...)
	if why := pp.box.MissingReason(ctx); why != "" {
		p.Notes = append(p.Notes, "agents and commands ran without a sandbox: "+why)
	}
	if err != nil {
		return err
	}
	if err := pp.setup.writePointer(in.Job); err != nil {
		return err
	}
	filled, err := firstResult(pp.task, c, filledFile, maxStandards, func() ([]string, error) { return pp.repo.Index().PopulatedSubmodules(ctx, in.Job.Worktree) })
	if err != nil {
		return err
	}
	note, err := pp.setUpCleanly(ctx, c, in, made)
	if err != nil {
		return err
	}
	if note != "" {
		p.Notes = append(p.Notes, note)
	}
	p.Filled, err = pp.filledSubmodules(ctx, in, filled, made)
	return err
}

// filledFile is where a call records which submodules held files before worktree.setup.
const filledFile = "filled.json"

// filledSubmodules returns the value of [Prepared.Filled]: all submodules with files, if no agent has worked in the worktree; else
// those of the previous run and those that setup filled. before are the submodules that held files before setup.
func (pp *preparer) filledSubmodules(ctx context.Context, in prepareIn, before []string, made bool) ([]string, error) {
	list, err := pp.repo.Index().PopulatedSubmodules(ctx, in.Job.Worktree)
	switch {
	case err != nil || in.Begun && !made && in.Filled == nil:
		return nil, err
	case in.Begun && !made:
		list = append(slices.Clone(in.Filled), slices.DeleteFunc(list, func(path string) bool {
			return slices.Contains(before, path) || slices.Contains(in.Filled, path)
		})...)
	}
	if list == nil {
		list = []string{}
	}
	return list, nil
}

// setUpCleanly is setUp, but fails if that left what git would commit, which is undone: it would be taken for the work of agents.
// After agents have worked in the worktree nothing is undone, since it may be theirs.
func (pp *preparer) setUpCleanly(ctx context.Context, c flow.Call, in prepareIn, made bool) (note string, err error) {
	if in.Begun && !made || len(in.Job.Setup.Run) == 0 {
		return pp.setUp(ctx, c, in.Job, made)
	}
	was, err := firstResult(pp.task, c, beforeSetupFile, maxStandards, func() (was beforeSetup, err error) {
		if was.Uncommitted, err = pp.restorer.uncommitted(ctx, in.Job); err == nil {
			was.Head, err = pp.repo.Refs().Head(ctx, in.Job.Worktree)
		}
		return was, err
	})
	if err != nil {
		return "", err
	}
	note, err = pp.setUp(ctx, c, in.Job, made)
	if err != nil && !errors.As(err, new(*flow.Failure)) {
		return note, err // setup was interrupted, and starts again
	}
	if left := pp.restorer.refuseLeftovers(ctx, c, in.Job, was); err == nil || left != nil && !errors.As(left, new(*flow.Failure)) {
		err = left
	}
	return note, err
}

// beforeSetup is the state of the worktree before worktree.setup. It is kept as beforeSetupFile in the folder of the call.
type beforeSetup struct {
	Head        string   `json:"head"`
	Uncommitted []string `json:"uncommitted"`
}

const beforeSetupFile = "setup.json"

// setUp makes the worktree ready. A new one gets copies of the warm folders; if there are none yet, they are kept after setup.
func (pp *preparer) setUp(ctx context.Context, c flow.Call, j Job, made bool) (note string, err error) {
	if !made || len(j.Setup.Warm) == 0 {
		return "", pp.setup.runCommands(ctx, c, j)
	}
	key, err := pp.warm.key(ctx, j)
	if err != nil {
		return "", err
	}
	used, whole, err := pp.warm.copyInto(ctx, j)
	if err != nil || whole {
		return "", err
	}
	if err := pp.setup.runCommands(ctx, c, j); err != nil || used != "" {
		return "", err
	}
	return pp.warm.keep(ctx, j, key)
}

// checkPreconditions checks, in the worktree before the work, that the plan's preconditions hold. What their commands change or
// commit there is undone; commits are noted.
func (pp *preparer) checkPreconditions(ctx context.Context, c flow.Call, j Job, notes []string) (held []CommandResult, _ []string, err error) {
	if len(j.Preconditions) == 0 {
		return nil, notes, nil
	}
	snap, _, end, err := pp.restorer.begin(ctx, c, j)
	if err != nil {
		return nil, notes, err
	}
	defer end(&err)
	head, err := firstResult(pp.task, c, headFile, maxStandards, func() (string, error) { return pp.repo.Refs().Head(ctx, j.Worktree) })
	if err != nil {
		return nil, notes, err
	}
	for i, line := range j.Preconditions {
		res, err := pp.commands.run(ctx, c, sandbox.Verify, fmt.Sprintf("precondition-%d", i+1), j.Worktree, line, j.Limits.Command)
		if err != nil {
			return nil, notes, err
		}
		if notes, err = pp.restorer.uncommit(ctx, c, j, head, "a precondition", notes); err != nil {
			return nil, notes, err
		}
		if _, err := snap.Restore(ctx, pp.task.backupRef(c)); err != nil {
			return nil, notes, err
		}
		if res.Code != 0 {
			return nil, notes, flow.Fail(string(trellis.InvalidTask), "a precondition of plan.json does not hold: `%s` exited with %d: %s", line, res.Code, res.Tail)
		}
		held = append(held, res)
	}
	return held, notes, nil
}
