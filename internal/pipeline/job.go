package pipeline

import (
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

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
	Branch    string `json:"branch,omitempty"` // that its work is on
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
	Filled   []string  `json:"filled,omitzero"` // see [Prepared]
	// React is what is wrong with what an earlier run delivered, nil for nothing. The run ends in review, whatever comes of it.
	React *React `json:"react,omitempty"`
	// Reactions are those of earlier runs, and with React this one's.
	Reactions Reactions `json:"reactions,omitzero"`
	// Feedback is what people say to the work so far, nil for nothing. Work in review stands in Undelivered then, and stays in
	// review, whatever comes of the run.
	Feedback *Feedback `json:"feedback,omitempty"`
}

// Job is what a claim fixes for the whole run.
type Job struct {
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
	// BaselineBeside has it run beside the first agent whenever it has to run.
	BaselineBeside bool `json:"baseline_beside,omitempty"`
	InPlace        bool `json:"in_place,omitempty"` // final verify in the worktree, not in a fresh checkout
	// VerifyAll runs all commands although one failed, and VerifyParallel so many at once; 0: one.
	VerifyAll      bool       `json:"verify_all,omitempty"`
	VerifyParallel int        `json:"verify_parallel,omitempty"`
	Setup          Setup      `json:"setup"`
	Modules        []string   `json:"modules,omitempty"` // paths of submodules that are worked in too
	CommitType     string     `json:"commit_type"`
	Scope          string     `json:"scope,omitempty"`
	Delivery       Delivering `json:"delivery,omitzero"`
	Approval       int        `json:"approval,omitempty"`   // approvers that the plan needs, 0: none
	Approvers      int        `json:"approvers,omitempty"`  // that it needs in any case when it changes what is protected
	Unapproved     bool       `json:"unapproved,omitempty"` // they have not agreed yet: nothing of the plan may run
	// What must hold before the work, until the worktree is ready: commands, and what people make sure of.
	Preconditions []string `json:"preconditions,omitempty"`
	Assumed       []string `json:"assumed,omitempty"`
	Own           bool     `json:"own,omitempty"` // an earlier run worked on the branch
}

// Setup is how a worktree is made ready to work in.
type Setup struct {
	Copy    []string      `json:"copy,omitempty"`
	Run     []string      `json:"run,omitempty"`
	Warm    []string      `json:"warm,omitempty"` // folders that Run fills, which checkouts with the same lock files get copies of
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Limits bound a run. Zero is no limit, except for Rounds and Attempts.
type Limits struct {
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

// anchor is the commit that the branch must hold, whoever moved it.
func (j Job) anchor() string {
	if j.merging() {
		return j.Clash.Ours
	}
	return j.BaseCommit
}

// merging reports whether the next commit is to merge the base.
func (j Job) merging() bool { return j.Clash != nil && j.Clash.Ours != "" }

// Roles are the roles that a run asks.
func Roles() []trellis.Role {
	return []trellis.Role{trellis.Implement, trellis.Check, trellis.Debug, trellis.Accept, trellis.Grade, trellis.Heal}
}

// Outside are the paths of a worktree that are never committed, whatever git thinks of them.
func Outside(j Job) []string { return append(slices.Clone(ownPaths), j.Setup.Copy...) }

// ownPaths are the paths of a worktree that are Trellis' own and never part of the work.
var ownPaths = []string{".trellis/tasks", runtimeDir, currentTask}

// isOwn reports whether a path is one of them, or below one.
func isOwn(path string) bool { return git.Covers(ownPaths, path) }

// Folders of a worktree that are for agents to read and never committed.
const (
	runtimeDir  = ".trellis/.runtime"
	currentTask = ".trellis/.current-task"
)

// passesFolder is where the main checkout has what passed, and warmFolder what worktree.setup made.
const (
	passesFolder = ".trellis/.runtime/baseline"
	warmFolder   = ".trellis/.runtime/warm"
)
