// Package pipeline takes a task that is ready to a checked commit on its branch: claim, worktree,
// baseline, implement, rounds of check, verify and accept with debug between them, commit, final
// verify, report. Files other than acts*.go are flow code.
package pipeline

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/ask"
	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Code is the version of Run in this binary. A run is finished by the code that began it.
const Code = 1

// Flow is the name of this flow in a journal.
const Flow = "pipeline"

// Input is what a run begins with. What people wrote is read from the task directory, by activities.
type Input struct {
	Code     int           `json:"code"`
	Task     string        `json:"task"`            // directory name
	Agent    string        `json:"agent,omitempty"` // --agent
	Adopt    bool          `json:"adopt,omitempty"` // --adopt-branch
	Fresh    bool          `json:"fresh,omitempty"` // begin again at base, work so far is backed up
	Nonce    string        `json:"nonce"`
	Attempts int           `json:"attempts"` // used by earlier runs
	Retries  int           `json:"retries"`  // how often a person asked for another run
	Revision int64         `json:"revision"` // highest revision of task.json that earlier runs wrote
	Used     trellis.Usage `json:"used"`     // by earlier runs
	// Implemented is the content hash under which an earlier run finished implement; the same content is
	// not implemented again.
	Implemented string `json:"implemented,omitempty"`
	// Baseline is what the checks said at base, when an earlier run asked them: now the worktree is not the base.
	Baseline *Checks `json:"baseline,omitempty"`
}

// Report is how a run ended, also when it failed.
type Report struct {
	Outcome  trellis.Outcome `json:"outcome"`
	Branch   string          `json:"branch,omitempty"`
	Base     string          `json:"base,omitempty"` // base commit
	Worktree string          `json:"worktree,omitempty"`
	Commit   string          `json:"commit,omitempty"`
	Rounds   int             `json:"rounds"`
	Attempts int             `json:"attempts"`
	Usage    trellis.Usage   `json:"usage"`
	Executed bool            `json:"executed"` // some check was run by a command
	Baseline Checks          `json:"baseline"`
	Checks   Checks          `json:"checks"`
	Criteria []Judged        `json:"criteria,omitempty"`
	Notes    []string        `json:"notes,omitempty"`
	// Implemented is the content hash that implement finished with, "" when it did not.
	Implemented string `json:"implemented,omitempty"`
}

// The activities of a run, besides the calls of its roles.
const (
	claim    flow.Act[Input, Job]           = "claim"
	project  flow.Act[Standing, int64]      = "status" // returns the revision it wrote
	prepare  flow.Act[prepareIn, Prepared]  = "prepare"
	baseline flow.Act[checksIn, Checks]     = "baseline"
	observe  flow.Act[observeIn, Content]   = "observe"
	verify   flow.Act[checksIn, Checks]     = "verify"
	prove    flow.Act[proveIn, []Judged]    = "criteria"
	final    flow.Act[checksIn, Checks]     = "final-verify"
	changed  flow.Act[checksIn, Checks]     = "changed"
	ground   flow.Act[proveIn, []string]    = "ground" // ids of what only a claim says
	commit   flow.Act[commitIn, Committed]  = "commit"
	discard  flow.Act[discardIn, struct{}]  = "discard"
	conclude flow.Act[concludeIn, struct{}] = "report"
)

type (
	// Job is what a claim fixes for the whole run.
	Job struct {
		Title        string                      `json:"title"`
		Repo         string                      `json:"repo"` // main checkout
		Branch       string                      `json:"branch"`
		BaseBranch   string                      `json:"base_branch"`
		BaseUnset    bool                        `json:"base_unset,omitempty"` // task.json named no base branch when it was claimed
		BaseCommit   string                      `json:"base_commit"`
		Worktree     string                      `json:"worktree"`
		Verify       []string                    `json:"verify,omitempty"`
		VerifySource string                      `json:"verify_source,omitempty"`
		Protected    []string                    `json:"protected,omitempty"`
		Choices      map[trellis.Role]ask.Choice `json:"choices"`
		Limits       Limits                      `json:"limits"`
		Baseline     bool                        `json:"baseline"`
		Setup        Setup                       `json:"setup"`
		CommitType   string                      `json:"commit_type"`
		Scope        string                      `json:"scope,omitempty"`
		Approval     int                         `json:"approval,omitempty"` // approvers that the plan needs, 0: none
	}
	// Setup is how a worktree is made ready to work in.
	Setup struct {
		Copy    []string      `json:"copy,omitempty"`
		Run     []string      `json:"run,omitempty"`
		Timeout time.Duration `json:"timeout,omitempty"`
	}
	// Limits bound a run. Zero is no limit, except for Rounds and Attempts.
	Limits struct {
		Rounds    int           `json:"rounds"`
		Attempts  int           `json:"attempts"`
		Idle      time.Duration `json:"idle"`
		Implement time.Duration `json:"implement"`
		Check     time.Duration `json:"check"`
		Debug     time.Duration `json:"debug"`
		Accept    time.Duration `json:"accept"`
		Command   time.Duration `json:"command"` // a verify command
		Tokens    int64         `json:"tokens"`
		CostUSD   float64       `json:"cost_usd"`
		Seconds   float64       `json:"seconds"`
	}
	// Standing is what task.json is to say.
	Standing struct {
		Status   trellis.Status  `json:"status"`
		Phase    string          `json:"phase,omitempty"`
		Round    int             `json:"round,omitempty"`
		Attempt  int             `json:"attempt,omitempty"`
		Outcome  trellis.Outcome `json:"outcome,omitempty"`
		Failure  *flow.Failure   `json:"failure,omitempty"`
		ResumeAt time.Time       `json:"resume_at,omitzero"`
		Usage    trellis.Usage   `json:"usage"`
		Commit   string          `json:"commit,omitempty"`
		Job      *Job            `json:"job,omitempty"` // branch, base, worktree: once, after the claim
	}
	prepareIn struct {
		Job   Job  `json:"job"`
		Fresh bool `json:"fresh,omitempty"`
		Adopt bool `json:"adopt,omitempty"`
	}
	// Prepared is a worktree that agents can work in.
	Prepared struct {
		Notes []string `json:"notes,omitempty"`
	}
	checksIn struct {
		Job   Job      `json:"job"`
		Known []string `json:"known,omitempty"` // commands that failed at base, and are forgiven
	}
	// Checks is what the project's own commands said about a tree.
	Checks struct {
		Results   []Check  `json:"results,omitempty"`
		Tree      string   `json:"tree,omitempty"`
		Unchanged bool     `json:"unchanged,omitempty"` // the tree is the base's
		Stray     []string `json:"stray,omitempty"`     // final: not in the commit, which was not checked therefore
		Protected []string `json:"protected,omitempty"` // changed although the project protects them
		Defining  []string `json:"defining,omitempty"`  // changed files that define what the commands do
		Stat      string   `json:"stat,omitempty"`      // what was changed, in short
		Notes     []string `json:"notes,omitempty"`
	}
	// Check is one command's run.
	Check struct {
		Command string  `json:"command"`
		Code    int     `json:"code"`
		Seconds float64 `json:"seconds"`
		Tail    string  `json:"tail,omitempty"`
		Output  ask.Ref `json:"output"`
		Known   bool    `json:"known,omitempty"` // failed at base already, and was not asked to be mended
	}
	observeIn struct {
		Job   Job    `json:"job"`
		Phase string `json:"phase"`
	}
	// Content is what people wrote, frozen: the copy below run/inputs is what phases read.
	Content struct {
		Hash     string      `json:"hash"`
		Criteria []Criterion `json:"criteria"`
		PlanHash string      `json:"plan_hash,omitempty"`
		Approved bool        `json:"approved"`
		Markers  []string    `json:"markers"`         // what the check agent ends with, when nothing can be executed
		Named    []string    `json:"named,omitempty"` // verify commands that the task itself names: they count although they failed at base
		Notes    []string    `json:"notes,omitempty"`
	}
	// Criterion is one way to tell that the work is done.
	Criterion struct {
		ID     string `json:"id"` // A1, A2, …
		Text   string `json:"text"`
		Verify string `json:"verify,omitempty"`
		Should bool   `json:"should,omitempty"` // does not block
	}
	// Judged is a criterion and what was found. Proven: a command said so.
	Judged struct {
		Criterion
		Verdict  string `json:"verdict"` // met, unmet, unknown
		Evidence string `json:"evidence,omitempty"`
		Proven   bool   `json:"proven,omitempty"`
	}
	proveIn struct {
		Job      Job         `json:"job"`
		Criteria []Criterion `json:"criteria"`
		Judged   []Judged    `json:"judged,omitempty"`
	}
	commitIn struct {
		Job  Job    `json:"job"`
		Task string `json:"task"`
	}
	// Committed is what git made of the work.
	Committed struct {
		SHA     string  `json:"sha,omitempty"`
		Nothing bool    `json:"nothing,omitempty"` // there is no change
		Hook    string  `json:"hook,omitempty"`    // what a hook said that refused the commit
		Output  ask.Ref `json:"output,omitzero"`
	}
	discardIn struct {
		Job Job `json:"job"`
	}
	concludeIn struct {
		Task    string        `json:"task"`
		Job     Job           `json:"job"`
		Report  Report        `json:"report"`
		Failure *flow.Failure `json:"failure,omitempty"`
	}
)

// Run takes one task from its claim to its report. A Failure has been written to task.json and
// report.md when it is returned.
func Run(f flow.Flow, in Input) (Report, error) {
	if in.Code > Code {
		return Report{}, flow.Fail(string(trellis.JournalDamaged), "the run was begun by a newer trellis (code %d, this one has %d)", in.Code, Code)
	}
	r := &run{in: in, rep: Report{Usage: in.Used, Attempts: in.Attempts, Implemented: in.Implemented}}
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

// run is what a run knows so far. It is rebuilt by replay.
type run struct {
	in    Input
	job   Job
	phase string
	round int
	named []string // verify commands that the task itself names
	rep   Report
}

// work is the straight line from claim to review.
func (r *run) work(f flow.Flow) (err error) {
	if r.job, err = claim.Do(f, r.in); err != nil {
		return err
	}
	r.rep.Branch, r.rep.Base, r.rep.Worktree = r.job.Branch, r.job.BaseCommit, r.job.Worktree
	if err := r.enter(f, "prepare"); err != nil {
		return err
	}
	ready, err := prepare.Do(f, prepareIn{r.job, r.in.Fresh, r.in.Adopt})
	if err != nil {
		return err
	}
	r.note(ready.Notes)
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

// enter writes the phase to task.json; the first time, with what the claim fixed.
func (r *run) enter(f flow.Flow, phase string) error {
	s := r.standing(trellis.InProgress)
	s.Phase = phase
	if r.phase == "" {
		s.Job = &r.job
	}
	r.phase = phase
	_, err := project.Do(f, s)
	return err
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

// implement is one agent run from prd.md. The steps of a plan.json belong here, run one by one.
func (r *run) implement(f flow.Flow) error {
	content, err := r.observe(f, "implement")
	if err != nil || content.Hash == r.in.Implemented {
		return err
	}
	if err := r.enter(f, "implement"); err != nil {
		return err
	}
	reply, err := r.ask(f, trellis.Implement, r.job.Limits.Implement, about{Content: content})
	if err != nil {
		return err
	}
	if err := r.silent(f, reply, ""); err != nil {
		return err
	}
	r.rep.Implemented = content.Hash
	return nil
}

// deliver ends a run whose commit is verified. Push and pull request belong here, when they are configured.
func (r *run) deliver(f flow.Flow) error {
	if r.rep.Outcome == trellis.NoChangeNeeded {
		if _, err := discard.Do(f, discardIn{r.job}); err != nil {
			return err
		}
		r.rep.Worktree = ""
		return r.end(f, trellis.Completed, trellis.NoChangeNeeded, nil)
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
	s.Outcome, s.Failure, s.Commit = outcome, fail, r.rep.Commit
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

// Why is the standing's failure in words, "" without one.
func (s Standing) Why() string {
	if s.Failure == nil {
		return ""
	}
	return s.Failure.Error()
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
