package pipeline

import (
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Input is the input of a run. What people wrote is read from the task directory, by activities.
type Input struct {
	Code     int           `json:"code"`
	Task     string        `json:"task"`            // directory name
	Agent    string        `json:"agent,omitempty"` // --agent
	Adopt    bool          `json:"adopt,omitempty"` // --adopt-branch
	Fresh    bool          `json:"fresh,omitempty"` // begin again at base; the work so far is backed up
	Nonce    string        `json:"nonce"`
	Attempts int           `json:"attempts"` // used by earlier runs
	Retries  int           `json:"retries"`  // how often a person asked for another run
	Revision int64         `json:"revision"` // highest revision of task.json that earlier runs wrote
	Used     trellis.Usage `json:"used"`     // by earlier runs
	// Implemented is the content hash for which an earlier run finished implement; the same content is not implemented again.
	Implemented string `json:"implemented,omitempty"`
	// Finished are the steps that earlier runs completed: the hash of each by its path.
	Finished map[string]string `json:"finished,omitempty"`
	// Baseline is the result of the checks at base if an earlier run ran them: the worktree is no longer at base.
	Baseline *Checks `json:"baseline,omitempty"`
	// Base is the commit at which an earlier run's branch began, and StackedOn the task on whose branch Base is.
	Base      string `json:"base,omitempty"`
	Branch    string `json:"branch,omitempty"` // the branch with the work of earlier runs
	StackedOn string `json:"stacked_on,omitempty"`
	// Undelivered is the report on a commit that an earlier run verified but could not push, or open a pull request for. The
	// commit is delivered as it is if nothing was changed since.
	Undelivered *Report `json:"undelivered,omitempty"`
	// Deliver is set when a person asked for push and pull request, whatever is configured.
	Deliver bool `json:"deliver,omitempty"`
	// Begun is set when an earlier run made the worktree ready. The plan's preconditions are not checked again.
	Begun bool `json:"begun,omitempty"`
	// Hooks are the hooks that git would have run before any agent of the first run was at work.
	Hooks map[string]string `json:"hooks,omitempty"`
	// Since is when the first run began, and Borrowed where git borrowed objects from then: nil when that was not recorded.
	Since    time.Time `json:"since,omitzero"`
	Borrowed []string  `json:"borrowed,omitzero"`
	Filled   []string  `json:"filled,omitzero"` // see [Prepared]
	// React is what others found wrong with delivered work, nil for nothing. The run ends in review, whatever its result.
	React *React `json:"react,omitempty"`
	// Reactions are the reactions of earlier runs, and of this one if React is set.
	Reactions Reactions `json:"reactions,omitzero"`
	// Feedback is what people said about the work so far, nil for nothing. Work in review is in Undelivered then, and stays in
	// review, whatever the result of the run.
	Feedback *Feedback `json:"feedback,omitempty"`
}

// Job holds the values that a claim fixes for the whole run.
type Job struct {
	Title        string                            `json:"title"`
	Repo         string                            `json:"repo"` // path of the main checkout
	Branch       string                            `json:"branch"`
	BaseBranch   string                            `json:"base_branch"`
	BaseUnset    bool                              `json:"base_unset,omitempty"` // task.json named no base branch when it was claimed
	BaseCommit   string                            `json:"base_commit"`
	StackedOn    string                            `json:"stacked_on,omitempty"` // the task on whose branch BaseCommit is
	Clash        *Clash                            `json:"clash,omitempty"`      // the branch is being brought up to BaseCommit
	Worktree     string                            `json:"worktree"`
	Verify       []string                          `json:"verify,omitempty"`
	VerifySource string                            `json:"verify_source,omitempty"`
	Protected    []string                          `json:"protected,omitempty"`
	Choices      map[trellis.Role]agentcall.Choice `json:"choices"`
	Limits       Limits                            `json:"limits"`
	Baseline     bool                              `json:"baseline"`
	// BaselineBeside runs the baseline beside the first agent whenever it has to run.
	BaselineBeside bool `json:"baseline_beside,omitempty"`
	InPlace        bool `json:"in_place,omitempty"` // run verify and final verify in the worktree, not in a fresh checkout
	// VerifyAll runs all commands even after one has failed, and VerifyParallel is how many run at once; 0: one.
	VerifyAll      bool             `json:"verify_all,omitempty"`
	VerifyParallel int              `json:"verify_parallel,omitempty"`
	Setup          Setup            `json:"setup"`
	Modules        []string         `json:"modules,omitempty"` // paths of submodules that the task also works in
	CommitType     string           `json:"commit_type"`
	Scope          string           `json:"scope,omitempty"`
	Delivery       DeliverySettings `json:"delivery,omitzero"`
	Approval       int              `json:"approval,omitempty"`   // number of approvers that the plan needs, 0: none
	Approvers      int              `json:"approvers,omitempty"`  // number that it needs in any case when it changes protected paths
	Unapproved     bool             `json:"unapproved,omitempty"` // the approvers have not agreed yet: nothing of the plan may run
	// What must hold before the work, until the worktree is ready: commands, and sentences that people have to check.
	Preconditions []string `json:"preconditions,omitempty"`
	Assumed       []string `json:"assumed,omitempty"`
	Own           bool     `json:"own,omitempty"` // an earlier run worked on the branch
}

// Setup is how a worktree is made ready to work in.
type Setup struct {
	Copy    []string      `json:"copy,omitempty"`
	Run     []string      `json:"run,omitempty"`
	Warm    []string      `json:"warm,omitempty"` // folders that Run fills; checkouts with the same lock files get copies of them
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Limits bound a run. Zero means no limit, except for Rounds and Attempts.
type Limits struct {
	Rounds    int           `json:"rounds"`
	Attempts  int           `json:"attempts"`
	Idle      time.Duration `json:"idle"`
	Implement time.Duration `json:"implement"`
	Check     time.Duration `json:"check"`
	Debug     time.Duration `json:"debug"`
	Accept    time.Duration `json:"accept"`
	Grade     time.Duration `json:"grade,omitempty"`
	Command   time.Duration `json:"command"` // of one verify command
	Tokens    int64         `json:"tokens"`
	CostUSD   float64       `json:"cost_usd"`
	Seconds   float64       `json:"seconds"`
}

// requiredCommit returns the commit that the branch must contain, whoever moved it.
func (j Job) requiredCommit() string {
	if j.merging() {
		return j.Clash.Ours
	}
	return j.BaseCommit
}

// merging reports whether the next commit has to merge the base.
func (j Job) merging() bool { return j.Clash != nil && j.Clash.Ours != "" }

// Roles returns the roles that a run calls.
func Roles() []trellis.Role {
	return []trellis.Role{trellis.Implement, trellis.Check, trellis.Debug, trellis.Accept, trellis.Grade, trellis.Heal}
}

// NeverCommitted returns the paths of a worktree that are never committed, whatever git's own rules say.
func NeverCommitted(j Job) []string { return append(slices.Clone(ownPaths), j.Setup.Copy...) }

// ownPaths are the paths of a worktree that are Trellis' own and never part of the work.
var ownPaths = []string{".trellis/tasks", runtimeDir, currentTask}

// isOwn reports whether path is one of ownPaths, or below one.
func isOwn(path string) bool { return git.Covers(ownPaths, path) }

// Folders of a worktree that are for agents to read and never committed.
const (
	runtimeDir  = ".trellis/.runtime"
	currentTask = ".trellis/.current-task"
)

// Folders of the main checkout that record which commands passed, and keep what worktree.setup made.
const (
	passesFolder = ".trellis/.runtime/baseline"
	warmFolder   = ".trellis/.runtime/warm"
)
