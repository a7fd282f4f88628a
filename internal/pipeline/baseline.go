package pipeline

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/pipeline/passes"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const baseline flow.Act[checksIn, Checks] = "baseline"

// baselineBesideWork runs the verify commands in a checkout of base while the first agents work. A command may have failed because
// an agent ran the same one at that time, so failed ones are repeated alone before they are forgiven.
func (r *run) baselineBesideWork(f flow.Flow) error {
	var checks Checks
	in := checksIn{Job: r.job, Fresh: true}
	err := f.All(0,
		flow.Branch{Name: strings.TrimSuffix(FirstWork, "/"), Run: r.implement},
		flow.Branch{Name: strings.TrimSuffix(besideWork, "/"), Run: func(f flow.Flow) (err error) {
			checks, err = baseline.Do(f, in)
			return err
		}})
	if err != nil {
		return err
	}
	if in.Passed = checks.passedCommands(); len(in.Passed.Results) < len(r.job.Verify) {
		return r.baselineAlone(f, in)
	}
	r.rep.Baseline = checks
	return nil
}

// reusable reports whether a later run may rely on this baseline, the result of the activity with that id: each command could
// run, and none failed while an agent was running.
func (c Checks) reusable(id string) bool {
	beside := strings.HasPrefix(id, besideWork)
	return !slices.ContainsFunc(c.Results, func(c CommandResult) bool { return !canRun(c) || beside && c.Code != 0 })
}

func (c Checks) passedCommands() *FreshResults {
	return &FreshResults{Results: slices.DeleteFunc(slices.Clone(c.Results), func(c CommandResult) bool { return c.Code != 0 })}
}

// baselineAlone runs the verify commands at base while no agent works. Those that fail count later only if the task names them.
func (r *run) baselineAlone(f flow.Flow, in checksIn) (err error) {
	if r.rep.Baseline, err = baseline.Do(f, in); err != nil {
		return err
	}
	for _, c := range r.rep.Baseline.Results {
		if c.Offline { // a command known to fail would no longer decide anything
			return flow.Fail(string(trellis.HookFailed), "`%s` can't run without a network, which it does not have in the sandbox: %s", c.Command, sandbox.NetworkHint(sandbox.Verify))
		}
		if !canRun(c) {
			return flow.Fail(string(trellis.HookFailed),
				"`%s` can't run in a fresh worktree (exit %d: %s): fix the command where it is set, or install what it needs with worktree.setup", c.Command, c.Code, c.Tail)
		}
	}
	return nil
}

// canRun reports whether a command could run at all: its program exists, and so does what it needs.
func canRun(c CommandResult) bool {
	switch c.Code {
	case 0:
		return true
	case 124, 126, 127:
		return false
	}
	lacks := []string{"command not found", "No module named", "Cannot find module", "cannot find package", "ERR_MODULE_NOT_FOUND"}
	return !slices.ContainsFunc(lacks, func(words string) bool { return strings.Contains(c.Tail, words) })
}

// forgiven returns the commands that failed at base, except those that the task names to be fixed.
func (c Checks) forgiven(named []string) (list []string) {
	for _, c := range c.Results {
		if c.Code != 0 && !slices.Contains(named, c.Command) {
			list = append(list, c.Command)
		}
	}
	return list
}

// baseline is [verifier.baseline], or runs the commands in a fresh checkout of base, whatever is in the worktree by then.
func (fv *freshVerifier) baseline(ctx context.Context, c flow.Call, in checksIn) (out Checks, err error) {
	if !in.Fresh {
		return fv.verifier.baseline(ctx, c, in)
	}
	err = fv.fresh.do(ctx, c, in.Job, in.Job.BaseCommit, func(fresh Job, broken *CommandResult) error {
		out.Fresh = true
		if broken != nil {
			out.Results = []CommandResult{*broken}
			return nil
		}
		in.Job = fresh
		return fv.verifier.runUnknown(ctx, c, in, &out)
	})
	return out, err
}

// baseline runs the commands in the worktree, which must hold only what is committed. Otherwise it returns the uncommitted paths
// and runs nothing. Files and commits that the commands leave are not part of the work, and are undone.
func (v *verifier) baseline(ctx context.Context, c flow.Call, in checksIn) (out Checks, err error) {
	if out.Notes, err = v.repairer.repair(ctx, c, in.Job); err != nil {
		return out, err
	}
	m := v.task.checkpoint(c)
	stray, err := v.restorer.strayPaths(ctx, c, in.Job, m, &out)
	if out.UncommittedPaths = shortList(stray); err != nil || len(stray) > 0 {
		return out, err
	}
	head, err := v.repo.Refs().Head(ctx, in.Job.Worktree)
	if err == nil {
		err = m.write(allCommitted + " " + head)
	}
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, m.end(err)) }()
	if err := v.runUnknown(ctx, c, in, &out); err != nil || len(out.Results) == 0 {
		return out, err
	}
	if out.Notes, err = v.restorer.uncommit(ctx, c, in.Job, head, "the checks", out.Notes); err != nil {
		return out, err
	}
	left, err := v.restorer.uncommitted(ctx, in.Job)
	if err != nil || len(left) == 0 {
		return out, err
	}
	_, err = snapshot.NewBackups(v.repo).Discard(ctx, in.Job.Worktree, v.task.backupRef(c), left...)
	return out.noteUndone(left), err
}

// runUnknown runs the commands, unless all of them passed on the same files before, for this or another task. Of tasks that begin
// at the same base at the same time, all others wait for the first.
func (v *verifier) runUnknown(ctx context.Context, c flow.Call, in checksIn, out *Checks) error {
	if in.Tree != "" { // final verify in the worktree: its own results count
		return v.runAll(ctx, c, in, out)
	}
	at, err := v.passes.atHead(ctx, in.Job)
	if err != nil {
		return err
	}
	ask := passes.Question{Task: at.task, Limit: time.Duration(len(in.Job.Verify)) * in.Job.Limits.Command}
	for _, line := range in.Job.Verify {
		ask.Of = append(ask.Of, at.subject(line))
	}
	ask.Known = func() (found bool, err error) {
		out.Results, err = at.results(in.Job.Verify)
		return len(out.Results) > 0, err
	}
	ask.Find = func() error {
		if err := v.runAll(ctx, c, in, out); err != nil {
			return err
		}
		out.Notes = append(out.Notes, at.keep(out.Results)...)
		return nil
	}
	ask.Waits = func(task string) error { return v.reportWait(c, task) }
	return at.store.Ask(ctx, ask)
}

// reportWait tells that the commands are not run while another task runs the same ones.
func (v *verifier) reportWait(c flow.Call, task string) error {
	task = cmp.Or(task, "another task")
	return v.reportCheck(c, CheckNews{Wait: &events.Wait{For: "checks", Why: "the checks at base, which " + task + " runs"}})
}
