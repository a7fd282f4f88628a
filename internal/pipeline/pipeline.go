// Package pipeline takes a task that is ready to a checked commit on its branch: claim, worktree,
// baseline, implement, rounds of check, verify and accept with debug between them, commit, final
// verify, push and pull request where they are wanted, report.
package pipeline

import (
	"errors"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// Code is the version of Run in this binary. A run is finished by the code that began it: one of version 1 gives the
// whole plan to one agent, one of version 2 ends with the commit, one of version 3 stays on the base it began at, one of version 4 does
// groups of verification steps as it does other steps, and one of version 5 mends a step as long as there are rounds.
const Code = 6

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
	// Finished are the steps that earlier runs brought to a good end: their hash by path.
	Finished map[string]string `json:"finished,omitempty"`
	// Baseline is what the checks said at base, when an earlier run asked them: now the worktree is not the base.
	Baseline *Checks `json:"baseline,omitempty"`
	// Base is the commit that an earlier run's branch began at, and StackedOn the task whose branch that was.
	Base      string `json:"base,omitempty"`
	StackedOn string `json:"stacked_on,omitempty"`
	// Undelivered is what an earlier run verified and could not push, or open a pull request for. It is delivered as it is
	// when nothing was changed since.
	Undelivered *Report `json:"undelivered,omitempty"`
	// Deliver: a person asked for push and pull request, whatever is configured.
	Deliver bool `json:"deliver,omitempty"`
	// Begun: an earlier run made the worktree ready. What a plan wants to hold before the work is not asked again.
	Begun bool `json:"begun,omitempty"`
	// Hooks are those that git would have run before an agent of the first run was at work.
	Hooks map[string]string `json:"hooks,omitempty"`
	// Since is when the first run began, and Borrowed what was then where git takes objects from: nil when it was not written down.
	Since    time.Time `json:"since,omitzero"`
	Borrowed []string  `json:"borrowed,omitzero"`
	// React is what is wrong with what an earlier run delivered, nil for nothing. The run ends in review, whatever comes of it.
	React *React `json:"react,omitempty"`
	// Reactions are those of earlier runs, and with React this one's.
	Reactions Reactions `json:"reactions,omitzero"`
}

// Report is how a run ended, also when it failed.
type Report struct {
	Outcome  trellis.Outcome `json:"outcome"`
	Branch   string          `json:"branch,omitempty"`
	Base     string          `json:"base,omitempty"`       // base commit
	Stacked  string          `json:"stacked_on,omitempty"` // the task on whose branch that is
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
	Steps    workflow.Report `json:"steps,omitzero"`   // of the plan
	Proofs   string          `json:"proofs,omitempty"` // head of the chain in proofs.jsonl, when all is proven
	Delivery Delivery        `json:"delivery,omitzero"`
	// Implemented is the content hash that implement finished with, "" when it did not.
	Implemented string `json:"implemented,omitempty"`
	// Content is the hash of what people wrote as it was taken in last.
	Content string `json:"content,omitempty"`
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
	seal     flow.Act[sealIn, string]       = "seal" // the proofs of a delivery; returns the head of their chain
	deliver  flow.Act[DeliverIn, Delivery]  = "deliver"
	conclude flow.Act[concludeIn, struct{}] = "report"
)

type (
	// Job is what a claim fixes for the whole run.
	Job struct {
		Title        string                            `json:"title"`
		Repo         string                            `json:"repo"` // main checkout
		Branch       string                            `json:"branch"`
		BaseBranch   string                            `json:"base_branch"`
		BaseUnset    bool                              `json:"base_unset,omitempty"` // task.json named no base branch when it was claimed
		BaseCommit   string                            `json:"base_commit"`
		StackedOn    string                            `json:"stacked_on,omitempty"` // the task on whose branch that commit is
		Clash        *Clash                            `json:"clash,omitempty"`      // that commit is on its way into the branch
		Worktree     string                            `json:"worktree"`
		Verify       []string                          `json:"verify,omitempty"`
		VerifySource string                            `json:"verify_source,omitempty"`
		Protected    []string                          `json:"protected,omitempty"`
		Choices      map[trellis.Role]agentcall.Choice `json:"choices"`
		Limits       Limits                            `json:"limits"`
		Baseline     bool                              `json:"baseline"`
		InPlace      bool                              `json:"in_place,omitempty"` // final verify in the worktree, not in a fresh checkout
		Setup        Setup                             `json:"setup"`
		Modules      []string                          `json:"modules,omitempty"` // paths of submodules that are worked in too
		CommitType   string                            `json:"commit_type"`
		Scope        string                            `json:"scope,omitempty"`
		Delivery     Delivering                        `json:"delivery,omitzero"`
		Approval     int                               `json:"approval,omitempty"`   // approvers that the plan needs, 0: none
		Approvers    int                               `json:"approvers,omitempty"`  // that it needs in any case when it changes what is protected
		Unapproved   bool                              `json:"unapproved,omitempty"` // they have not agreed yet: nothing of the plan may run
		// What must hold before the work, until the worktree is ready: commands, and what people make sure of.
		Preconditions []string `json:"preconditions,omitempty"`
		Assumed       []string `json:"assumed,omitempty"`
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
		Grade     time.Duration `json:"grade,omitempty"`
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
		PRURL    string          `json:"pr_url,omitempty"`
		Asks     bool            `json:"asks,omitempty"` // people's yes to the plan is required
		Job      *Job            `json:"job,omitempty"`  // branch, base, worktree: once, after the claim
	}
	prepareIn struct {
		Job   Job  `json:"job"`
		Fresh bool `json:"fresh,omitempty"`
		Adopt bool `json:"adopt,omitempty"`
		Begun bool `json:"begun,omitempty"`
		// Hooks are those before the first run, and Borrowed is what was where git takes objects from.
		Hooks    map[string]string `json:"hooks,omitempty"`
		Borrowed []string          `json:"borrowed,omitzero"`
	}
	// Prepared is a worktree that agents can work in.
	Prepared struct {
		Notes   []string          `json:"notes,omitempty"`
		Lost    bool              `json:"lost,omitempty"`    // what earlier runs did is gone
		Footing map[string]string `json:"footing,omitempty"` // what a verdict stands on besides the worktree, hashed
		Results []Check           `json:"results,omitempty"` // preconditions of the plan
		Made    *git.Made         `json:"made,omitempty"`    // the worktree, told from what may be put in its place
		// Hooks are those that git would run, before any agent of the task was at work, and Borrowed names the folders that it took
		// objects from: nil in a journal of before that was written down.
		Hooks    map[string]string `json:"hooks,omitempty"`
		Borrowed []string          `json:"borrowed,omitzero"`
	}
	checksIn struct {
		Job      Job               `json:"job"`
		Known    []string          `json:"known,omitempty"`    // commands that failed at base, and are forgiven
		Content  string            `json:"content,omitempty"`  // whose plan may change protected paths
		Plan     bool              `json:"plan,omitempty"`     // the checks at the end of that plan run too
		Footing  map[string]string `json:"footing,omitempty"`  // when the worktree was made ready
		Tree     string            `json:"tree,omitempty"`     // final: what was verified
		Criteria []Criterion       `json:"criteria,omitempty"` // final: those that a command proved
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
		Bent      []string `json:"bent,omitempty"`      // settings by which git would not commit what is there; nothing was run
		Fresh     bool     `json:"fresh,omitempty"`     // in a fresh checkout of the commit
		Judged    []Judged `json:"judged,omitempty"`    // the criteria, there
		Leaks     []string `json:"leaks,omitempty"`     // final: places of secrets in the commit
		Unseen    []string `json:"unseen,omitempty"`    // what git ignores in the worktree, when something fails without
		Notes     []string `json:"notes,omitempty"`
	}
	// Check is one command's run.
	Check struct {
		Command  string        `json:"command"`
		Code     int           `json:"code"`
		Seconds  float64       `json:"seconds"`
		Tail     string        `json:"tail,omitempty"`
		Sandbox  string        `json:"sandbox,omitempty"`  // that it ran in
		Isolated *bool         `json:"isolated,omitempty"` // whether it had no network; nil in what older versions of Trellis recorded
		Offline  bool          `json:"offline,omitempty"`  // it failed for that, as it seems
		Output   agentcall.Ref `json:"output"`
		Known    bool          `json:"known,omitempty"` // failed at base already, and was not asked to be mended
	}
	observeIn struct {
		Job   Job    `json:"job"`
		Phase string `json:"phase"`
		Asked bool   `json:"asked,omitempty"` // the run waited for people since it was asked last: what task.json requires, they do
		Known string `json:"known,omitempty"` // content that the run has taken in before
	}
	// Content is what people wrote, frozen: the copy below run/inputs is what phases read.
	Content struct {
		Hash     string      `json:"hash"`
		Bundle   string      `json:"bundle,omitempty"` // hash of the plan with the files that it calls
		Steps    bool        `json:"steps,omitempty"`  // it has steps to run
		Criteria []Criterion `json:"criteria"`
		PlanHash string      `json:"plan_hash,omitempty"`
		Approved bool        `json:"approved"`
		Waived   bool        `json:"waived,omitempty"` // it needs no yes any more, as people said while the run waited for it
		Markers  []string    `json:"markers"`          // what the check agent ends with, when nothing can be executed
		Named    []string    `json:"named,omitempty"`  // verify commands that the task itself names: they count although they failed at base
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
		// Seen is the commit that others have seen, which is not amended, and Why what they found wrong with it.
		Seen string       `json:"seen,omitempty"`
		Why  trellis.Code `json:"why,omitempty"`
	}
	// Committed is what git made of the work.
	Committed struct {
		SHA     string        `json:"sha,omitempty"`
		Nothing bool          `json:"nothing,omitempty"` // there is no change
		Hook    string        `json:"hook,omitempty"`    // what a hook said that refused the commit
		Output  agentcall.Ref `json:"output,omitzero"`
		// Leaks are the places of secrets, file, line and rule, for which nothing was committed.
		Leaks []string `json:"leaks,omitempty"`
		Notes []string `json:"notes,omitempty"`
	}
	sealIn struct {
		Task    string  `json:"task"`
		Job     Job     `json:"job"`
		Content string  `json:"content"`
		Commit  string  `json:"commit"`
		Results []Check `json:"results"`
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

// Run is what takes one task from its claim to its report. A Failure has been written to task.json and report.md
// when it is returned. bundle is the plan of a hash: always the same, whenever it is asked for.
func Run(bundle func(hash string) (*plan.Bundle, error)) func(flow.Flow, Input) (Report, error) {
	return func(f flow.Flow, in Input) (Report, error) { return begin(f, in, bundle) }
}

func begin(f flow.Flow, in Input, bundle func(string) (*plan.Bundle, error)) (Report, error) {
	if in.Code > Code {
		return Report{}, flow.Fail(string(trellis.JournalDamaged), "the run was begun by a newer trellis (code %d, this one has %d)", in.Code, Code)
	}
	r := &run{in: in, bundle: bundle, rep: Report{Usage: in.Used, Attempts: in.Attempts, Implemented: in.Implemented}}
	if in.React != nil {
		r.spent, r.rep.Commit = in.Reactions.Rounds, in.React.Head
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

// Why is the standing's failure in words, "" without one.
func (s Standing) Why() string {
	if s.Failure == nil {
		return ""
	}
	return s.Failure.Error()
}
