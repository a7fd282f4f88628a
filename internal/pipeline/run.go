package pipeline

import (
	"errors"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// run is what a run knows so far. It is rebuilt by replay.
type run struct {
	in       Input
	job      Job
	phase    string
	told     string // base commit that task.json was told of
	round    int
	first    *trouble          // that the rounds begin with
	spent    int               // rounds that steps used up
	stuck    map[string]string // by path, the tree on which a step failed last
	criteria []Criterion       // of the content that was taken in last
	named    []string          // verify commands that the task itself names
	foot     map[string]string // what verdicts stand on, when the worktree was ready
	rep      Report

	bundle func(hash string) (*plan.Bundle, error)
}

// work is the straight line from claim to review.
func (r *run) work(f flow.Flow) (err error) {
	if err := r.claim(f); err != nil {
		return err
	}
	r.rep.Branch, r.rep.Base, r.rep.Stacked, r.rep.Worktree = r.job.Branch, r.job.BaseCommit, r.job.StackedOn, r.job.Worktree
	if err := r.enter(f, "prepare"); err != nil {
		return err
	}
	ready, err := prepare.Do(f, prepareIn{r.job, r.in.Fresh, r.in.Adopt, r.in.Begun, r.in.Hooks, r.in.Borrowed})
	if err != nil {
		return err
	}
	r.note(ready.Notes)
	if ready.Lost {
		r.in.Implemented, r.in.Finished, r.in.Undelivered, r.rep.Implemented = "", nil, nil, ""
	}
	r.foot = ready.Footing
	r.job.Preconditions, r.job.Assumed = nil, nil
	if done, err := r.verified(f); err != nil {
		return err
	} else if done {
		if done, err = r.follow(f); err != nil {
			return err
		} else if done {
			return r.deliver(f)
		}
	}
	if err := r.baseline(f); err != nil {
		return err
	}
	if err := r.implement(f); err != nil {
		return err
	}
	if err := r.rounds(f); err != nil {
		return err
	}
	return r.deliver(f)
}

// claim fixes what holds until the end. When people must agree to the plan it is fixed once they have, so
// that no command of a plan runs before.
func (r *run) claim(f flow.Flow) (err error) {
	in := r.in
	in.Undelivered = nil // a claim does not ask for it, and it is long
	for {
		if r.job, err = claim.Do(f, in); err != nil || !r.job.Unapproved {
			return err
		}
		if err := r.agreed(f); err != nil {
			return err
		}
	}
}

// Approval is the signal that the plan needs nobody's yes any more, or has a no.
const Approval = "approval"

// agreed waits for people's yes to the plan. That it was required at the claim is written back to task.json, for them
// alone to take away.
func (r *run) agreed(f flow.Flow) error {
	s := r.standing(trellis.Waiting)
	s.Asks = r.job.Approval > 0
	if _, err := project.Do(f, s); err != nil {
		return err
	}
	_, err := f.Await(Approval, flow.Forever, nil)
	return err
}

// enter writes the phase to task.json; the first time, with what the claim fixed.
func (r *run) enter(f flow.Flow, phase string) error {
	s := r.standing(trellis.InProgress)
	s.Phase = phase
	r.tell(&s)
	r.phase = phase
	_, err := project.Do(f, s)
	return err
}

// tell adds what task.json does not know yet of where the work stands.
func (r *run) tell(s *Standing) {
	if r.told != r.job.BaseCommit {
		s.Job, r.told = &r.job, r.job.BaseCommit
	}
}

func (r *run) standing(to trellis.Status) Standing {
	return Standing{Status: to, Phase: r.phase, Round: max(r.round, 1), Attempt: r.rep.Attempts + 1, Usage: r.rep.Usage}
}

// baseline runs the verify commands before the first agent call: what fails already is known, and counts
// as failing later only if the task names it.
func (r *run) baseline(f flow.Flow) (err error) {
	if r.in.Baseline != nil {
		r.rep.Baseline = *r.in.Baseline
		return nil
	}
	if !r.job.Baseline || len(r.job.Verify) == 0 {
		return nil
	}
	if r.rep.Baseline, err = baseline.Do(f, checksIn{Job: r.job}); err != nil {
		return err
	}
	for _, c := range r.rep.Baseline.Results {
		if c.Offline { // as known to fail it would decide nothing any more
			return flow.Fail(string(trellis.HookFailed), "`%s` can't run without a network, which it does not have in the sandbox: %s", c.Command, sandbox.NetworkHint(sandbox.Verify))
		}
		if !canRun(c) {
			return flow.Fail(string(trellis.HookFailed),
				"`%s` can't run in a fresh worktree (exit %d: %s): say how to set it up in worktree.setup of .trellis/config.yaml", c.Command, c.Code, c.Tail)
		}
	}
	return nil
}

// canRun reports whether a command could do its work at all: its program is there, and what it needs.
func canRun(c Check) bool {
	switch c.Code {
	case 0:
		return true
	case 124, 126, 127:
		return false
	}
	for _, text := range []string{"command not found", "No module named", "Cannot find module", "cannot find package", "ERR_MODULE_NOT_FOUND"} {
		if strings.Contains(c.Tail, text) {
			return false
		}
	}
	return true
}

// known are the commands that failed at base and are not asked to be mended.
func (r *run) known() (list []string) {
	for _, c := range r.rep.Baseline.Results {
		if c.Code != 0 && !slices.Contains(r.named, c.Command) {
			list = append(list, c.Command)
		}
	}
	return list
}

// implement runs the steps of the plan, or has one agent do all the work when there are none.
func (r *run) implement(f flow.Flow) error {
	content, err := r.observe(f, "implement")
	if err != nil || content.Hash == r.in.Implemented {
		return err
	}
	if err := r.enter(f, "implement"); err != nil {
		return err
	}
	if content.Steps && r.in.Code > 1 {
		b, err := r.bundle(content.Bundle)
		if err != nil {
			return flow.AsFailure(err)
		}
		if err := r.steps(f, content, b); err != nil {
			return err
		}
	} else if err := r.atOnce(f, content); err != nil {
		return err
	}
	r.rep.Implemented = content.Hash
	return nil
}

// atOnce has one agent do all the work.
func (r *run) atOnce(f flow.Flow, content Content) error {
	reply, err := r.ask(f, trellis.Implement, r.job.Limits.Implement, about{Content: content})
	if err != nil {
		return err
	}
	return r.silent(f, reply, "")
}

// deliver ends a run whose commit is verified, with push and pull request when they are wanted.
func (r *run) deliver(f flow.Flow) error {
	if r.rep.Outcome == trellis.NoChangeNeeded {
		if _, err := discard.Do(f, discardIn{r.job}); err != nil {
			return err
		}
		r.rep.Worktree = ""
		return r.end(f, trellis.Completed, trellis.NoChangeNeeded, nil)
	}
	if err := r.probe(f); err != nil {
		return err
	}
	if err := r.handOver(f); err != nil {
		return err
	}
	return r.end(f, trellis.Review, trellis.Delivered, nil)
}

// fail ends a run that failed. Used-up budgets pause the task: a person raises them and says start.
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
	if r.seen() != "" {
		return r.stands(f, fail)
	}
	return r.end(f, trellis.Failed, trellis.OutcomeFailed, fail)
}

// end writes report.md, then the status: who sees the status can read the report.
func (r *run) end(f flow.Flow, to trellis.Status, outcome trellis.Outcome, fail *flow.Failure) error {
	r.rep.Outcome, r.rep.Rounds = outcome, r.round
	_, err := conclude.Do(f, concludeIn{r.in.Task, r.job, r.rep.brief(), fail})
	if lost := (*flow.Failure)(nil); err != nil && !errors.As(err, &lost) {
		return err
	}
	s := r.standing(to)
	if r.phase != "" {
		r.tell(&s)
	}
	s.Outcome, s.Failure, s.Commit, s.PRURL = outcome, fail, r.rep.Commit, r.rep.Delivery.PRURL
	_, perr := project.Do(f, s) // also when report.md could not be written
	return errors.Join(err, perr)
}

// brief is the report without what report.md does not show.
func (r Report) brief() Report {
	bare := func(list []Check, all bool) (out []Check) {
		for _, c := range list {
			if all || c.Code == 0 {
				c.Tail = ""
			}
			out = append(out, c)
		}
		return out
	}
	r.Baseline.Results, r.Baseline.Stat = bare(r.Baseline.Results, true), ""
	r.Checks.Results = bare(r.Checks.Results, false)
	return r
}

func (r *run) note(notes []string) {
	for _, n := range notes {
		if len(r.rep.Notes) >= maxNotes {
			return
		}
		n = short(n)
		known := false
		for _, old := range r.rep.Notes {
			known = known || old == n
		}
		if !known {
			r.rep.Notes = append(r.rep.Notes, n)
		}
	}
}

const (
	maxNotes = 30  // of a report
	maxSaid  = 400 // bytes of one note, of a criterion's evidence
)

// short is a text that fits into a record beside others.
func short(s string) string { return cut(s, maxSaid) }

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// evidenceSize is how long the evidence of one of n criteria may be, in bytes.
func evidenceSize(n int) int { return min(maxSaid, 16<<10/max(n, 1)) }
