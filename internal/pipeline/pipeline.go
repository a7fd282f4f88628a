// Package pipeline takes a ready task to a verified commit on its branch: claim, worktree, baseline, implement, rounds of check,
// verify and accept with debug between them, commit, update, final verify, push and pull request if they are wanted, report. This
// file is the spine of the flow: which phase follows which, and how a run ends.
//
// Each phase has a file of the same name. It holds the phase's activity with its input and result, its step of the flow, its
// effect (a struct with the few things that it needs), and the data of its agent's prompt. Code that phases share is in files
// named after its subject: the task's state and the report, budgets and agent calls, what people wrote and approved, the standards
// by which the work is judged, secrets, the environment fingerprint, and the guard that keeps agents inside the worktree.
// effects.go makes all effects from one set of dependencies.
//
// Functions that take a flow.Flow decide and do nothing themselves: they are run again after a crash. Activities do the work, and
// first check whether an earlier attempt has already done it.
package pipeline

import (
	"errors"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Code is the version of Run in this binary. A run is finished by the rules of the version that began it, so that a replay asks for
// the same activities. What the versions before this one do, each in addition to those after it:
//
//	1   give the whole plan to one agent
//	2   end with the commit
//	3   stay on the base at which the run began
//	4   run groups of verification steps like other steps
//	5   mend a step as long as there are rounds
//	6   verify in the worktree, and then the commit again
//	7   let no agent work before the baseline is known
//	8   repeat a call with the limits of the first one
//	9   do not mark a cost as partial
//	10  ask as soon as a provider's limit is said to be over, however often that was wrong
//	11  continue with the debug agent when the accept agent gave no usable answer
const Code = 12

// Flow is the name of this flow in a journal.
const Flow = "pipeline"

// Run returns the flow that takes one task from its claim to its report. A Failure that it returns was written to task.json and
// report.md before, unless a newer trellis began the run. bundle returns the plan with the given hash, the same on every call.
func Run(bundle func(hash string) (*plan.Bundle, error)) func(flow.Flow, Input) (Report, error) {
	return func(f flow.Flow, in Input) (Report, error) { return runFlow(f, in, bundle) }
}

func runFlow(f flow.Flow, in Input, bundle func(string) (*plan.Bundle, error)) (Report, error) {
	if in.Code > Code {
		return Report{}, flow.Fail(string(trellis.JournalDamaged), "the run was begun by a newer trellis (code %d, this one has %d)", in.Code, Code)
	}
	r := &run{in: in, bundle: bundle, rep: Report{Usage: in.Used, Attempts: in.Attempts, Implemented: in.Implemented}}
	if in.React != nil {
		r.stepRounds, r.rep.Commit = in.Reactions.Rounds, in.React.Head
	}
	err := r.work(f)
	fail := (*flow.Failure)(nil)
	switch {
	case err == nil:
		return r.rep, nil
	case errors.Is(err, flow.ErrSuspended):
		return r.rep, err
	case errors.Is(err, flow.ErrCancelled):
		return r.rep, errors.Join(err, r.end(f.Shield().In("cancel"), trellis.Cancelled, trellis.OutcomeCancel, nil))
	case errors.As(err, &fail):
		if err := r.fail(f, fail); err != nil {
			return r.rep, err
		}
	}
	return r.rep, err
}

// run is the state of a run so far. Replay rebuilds it.
type run struct {
	in               Input
	job              Job
	phase            string
	writtenBase      string // base commit that was last written to task.json
	round            int
	deliveryTrouble  *trouble          // what was wrong with a commit to be delivered; the rounds begin with it
	stepRounds       int               // rounds that mending steps used up
	feedbackGiven    bool              // an agent was given people's feedback on the work
	criteria         []Criterion       // of the content that was taken in last
	namedCommands    []string          // verify commands that the task itself names
	fingerprint      map[string]string // hashes of what verdicts depend on, taken when the worktree was ready
	filledSubmodules []string          // submodules that git sees no files in, but that held files at that time
	baselineBeside   bool              // run the baseline beside the first agent
	rep              Report

	freshResults *FreshResults // results of verify in a fresh checkout, nil when it ran in the worktree

	bundle func(hash string) (*plan.Bundle, error)
}

// work is the straight line from claim to review.
func (r *run) work(f flow.Flow) (err error) {
	if err := r.claim(f); err != nil {
		return err
	}
	r.rep.Branch, r.rep.Base, r.rep.Stacked, r.rep.Worktree = r.job.Branch, r.job.BaseCommit, r.job.StackedOn, r.job.Worktree
	if err := r.prepare(f); err != nil {
		return err
	}
	if done, err := r.resumeVerified(f); err != nil {
		return err
	} else if done {
		return r.finish(f)
	}
	if err := r.baselineAndImplement(f); err != nil {
		return err
	}
	if err := r.rounds(f); err != nil {
		return err
	}
	return r.finish(f)
}

// baselineAndImplement is what precedes the rounds: the baseline and, after or beside it, the work of the first agents.
func (r *run) baselineAndImplement(f flow.Flow) error {
	if r.in.Baseline != nil {
		r.rep.Baseline = *r.in.Baseline
		return r.implement(f)
	}
	if !r.job.Baseline || len(r.job.Verify) == 0 {
		return r.implement(f)
	}
	if r.in.Code > 7 && r.baselineBeside {
		return r.baselineBesideWork(f)
	}
	begun := r.in.Code > 7 && r.in.Begun // the worktree may hold work already
	if err := r.baselineAlone(f, checksIn{Job: r.job, Fresh: begun && r.job.verifiesFresh()}); err != nil {
		return err
	}
	return r.implement(f)
}

// rounds repeats rounds until one ends in a verified commit, or none are left. Other limits are counted elsewhere: attempts by
// countAttempt, mended steps by planSteps.mend, budgets by left.
func (r *run) rounds(f flow.Flow) error {
	last, err := r.initialTrouble(f)
	if err != nil {
		return err
	}
	for r.round = 1; ; r.round++ {
		found, err := r.oneRound(f.In(fmt.Sprintf("round-%d", r.round)), last)
		switch {
		case err != nil:
			return err
		case found == nil:
			return nil
		case found.same(last) && found.Code == trellis.SecretFound:
			return flow.Fail(string(found.Code), "round %d did not take out the secrets: %s", r.round, found.Detail)
		case found.same(last) && found.Code == trellis.Conflict:
			return flow.Fail(string(found.Code), "round %d fixed nothing: %s", r.round, found.Detail)
		case found.same(last):
			return flow.Fail(string(trellis.NoProgress), "round %d ended as the one before, and nothing was changed in between: %s", r.round, found.Detail)
		case r.round+r.stepRounds >= r.job.Limits.Rounds:
			return flow.Fail(string(found.Code), "after %s: %s", text.Count(r.round, "round"), found.Detail)
		}
		last = found
	}
}

// oneRound runs debug (if there is something to mend), check, verify, accept, commit, update and final verify. It returns what is
// still wrong, nil when the work is done.
func (r *run) oneRound(f flow.Flow, last *trouble) (*trouble, error) {
	if last != nil {
		if err := r.debug(f, last); err != nil {
			return nil, err
		}
	}
	missing, err := r.check(f)
	if err != nil {
		return nil, err
	}
	if found, err := r.unresolvedConflicts(f); found != nil || err != nil {
		return found, err
	}
	if found, err := r.verifyAndAccept(f, missing); found != nil || err != nil || r.rep.Checks.Unchanged {
		return found, err
	}
	if found, err := r.commit(f); found != nil || err != nil {
		return found, err
	}
	if _, found, err := r.update(f); found != nil || err != nil {
		return found, err
	}
	if r.rep.Checks.Unchanged { // the base now contains all of the work
		return r.verifyAndAccept(f.In("again"), nil)
	}
	return r.final(f)
}

// verifyAndAccept runs verify and accept. If there is nothing to change, it also ends the work.
func (r *run) verifyAndAccept(f flow.Flow, missing []string) (*trouble, error) {
	if found, err := r.verify(f, missing); found != nil || err != nil {
		return found, err
	}
	if found, err := r.accept(f); found != nil || err != nil {
		return found, err
	}
	if r.rep.Checks.Unchanged {
		return nil, r.acceptUnchanged(f)
	}
	return nil, nil
}

// initialTrouble returns what the first round has to mend: what stopped a delivery, people's feedback on the work, what checks or
// reviewers found wrong with it, or conflicts that an earlier run left.
func (r *run) initialTrouble(f flow.Flow) (*trouble, error) {
	switch {
	case r.deliveryTrouble != nil:
		return r.deliveryTrouble, nil
	case r.in.Feedback != nil && !r.feedbackGiven:
		return r.in.Feedback.trouble(), nil
	case r.in.React != nil:
		return r.in.React.trouble(), nil
	}
	return r.unresolvedConflicts(f.In("opening"))
}

// finish ends a run whose commit is verified, with push and pull request when they are wanted.
func (r *run) finish(f flow.Flow) error {
	if r.rep.Outcome == trellis.NoChangeNeeded {
		gone, err := discard.Do(f, discardIn{r.job})
		if err != nil {
			return err
		}
		r.rep.note(gone.Notes)
		r.rep.Worktree = ""
		return r.end(f, trellis.Completed, trellis.NoChangeNeeded, nil)
	}
	if err := r.probe(f); err != nil {
		return err
	}
	if err := r.deliver(f); err != nil {
		return err
	}
	return r.end(f, trellis.Review, trellis.Delivered, nil)
}

// fail ends a run that failed. A budget that is used up pauses the task: a person raises it and starts the task again.
func (r *run) fail(f flow.Flow, fail *flow.Failure) error {
	f = f.In("end")
	switch trellis.Code(fail.Code) {
	case trellis.BudgetTokens, trellis.BudgetCost, trellis.BudgetTime:
		return r.end(f, trellis.Paused, "", fail)
	case trellis.VerifyFailed, trellis.AcceptanceUnmet, trellis.NoProgress:
		if r.rep.Checks.Unchanged {
			fail.Detail = "nothing was changed against the base; " + fail.Code + ": " + fail.Detail
			fail.Code = string(trellis.EmptyDiff)
		}
	}
	if r.in.seenCommit() != "" {
		return r.endInReview(f, fail)
	}
	return r.end(f, trellis.Failed, trellis.OutcomeFailed, fail)
}

// end writes report.md before the status, so that whoever sees the status can read the report.
func (r *run) end(f flow.Flow, to trellis.Status, outcome trellis.Outcome, fail *flow.Failure) error {
	r.rep.Outcome, r.rep.Rounds = outcome, r.round
	_, err := conclude.Do(f, concludeIn{r.in.Task, r.job, r.rep.trimmed(), fail})
	if lost := (*flow.Failure)(nil); err != nil && !errors.As(err, &lost) {
		return err
	}
	s := r.taskState(to)
	if r.phase != "" {
		r.addJob(&s)
	}
	s.Outcome, s.Failure, s.Commit, s.PRURL = outcome, fail, r.rep.Commit, r.rep.Delivery.PRURL
	_, perr := writeStatus.Do(f, s) // also when report.md could not be written
	return errors.Join(err, perr)
}
