package trellis

// Code says why a run failed or stopped. The table below is the one of docs and `trellis help failures`.
type Code string

const (
	AgentMissing     Code = "agent_missing"
	AgentAuth        Code = "agent_auth"
	AgentExit        Code = "agent_exit"
	AgentSignal      Code = "agent_signal"
	AgentProtocol    Code = "agent_protocol"
	EmptyOutput      Code = "empty_output"
	TimeoutWall      Code = "timeout_wall"
	TimeoutIdle      Code = "timeout_idle"
	RateLimited      Code = "rate_limited"
	ProviderDown     Code = "provider_unavailable"
	QuotaExhausted   Code = "quota_exhausted"
	ContextOverflow  Code = "context_overflow"
	BudgetTokens     Code = "budget_tokens"
	BudgetCost       Code = "budget_cost"
	BudgetTime       Code = "budget_time"
	VerifyFailed     Code = "verify_failed"
	AcceptanceUnmet  Code = "acceptance_unmet"
	StepFailed       Code = "step_failed"
	NoProgress       Code = "no_progress"
	EmptyDiff        Code = "empty_diff"
	ProtectedPath    Code = "protected_path"
	SecretFound      Code = "secret_found"
	WorktreeFailed   Code = "worktree_failed"
	HookFailed       Code = "hook_failed"
	CommitFailed     Code = "commit_failed"
	PushFailed       Code = "push_failed"
	PRFailed         Code = "pr_failed"
	Conflict         Code = "conflict"
	CIFailed         Code = "ci_failed"
	ChangesRequested Code = "changes_requested"
	InvalidTask      Code = "invalid_task"
	ApprovalRejected Code = "approval_rejected"
	JournalDamaged   Code = "journal"
	Fenced           Code = "fenced"
	Interrupted      Code = "interrupted"
	CalledOff        Code = "called_off"
	Internal         Code = "internal"
)

// CodeInfo is a row of the failure table.
type CodeInfo struct {
	Code    Code
	Meaning string
	Todo    string // what a person should do
	Retried bool   // retried automatically, with back-off, within limits.attempts
}

// Codes is the failure table.
var Codes = []CodeInfo{
	{AgentMissing, "the agent program is not on PATH", "install it, or choose another with --agent or agents.default; `trellis doctor` lists those installed", false},
	{AgentAuth, "the agent is not signed in, or its key was refused", "sign in with the agent's own command, then `trellis retry DIR`", false},
	{AgentExit, "the agent program exited with an error", "read `trellis logs DIR`; `trellis retry DIR` continues in the same worktree", true},
	{AgentSignal, "the agent program was killed by a signal", "check for memory pressure or a manual kill; `trellis retry DIR`", true},
	{AgentProtocol, "the agent's answer was unusable, even after a repair", "read the message, and answer.md if it names one; try another agent or model", false},
	{EmptyOutput, "the agent succeeded but said and did nothing", "check its model and permissions with `trellis doctor`; `trellis retry DIR`", false},
	{TimeoutWall, "a phase took longer than its limit", "raise limits.<phase> in .trellis/config.yaml or split the task; `trellis retry DIR`", false},
	{TimeoutIdle, "the agent sent no event for limits.idle", "check the provider's status; `trellis retry DIR`", true},
	{RateLimited, "the provider limits requests until the time shown", "wait: a watcher resumes the task automatically; without one, `trellis start DIR` after that time", false},
	{ProviderDown, "the provider can't be reached, or has errors of its own", "wait: the call is retried automatically, at least every five minutes for twelve hours, without using up an attempt; then `trellis retry DIR`", false},
	{QuotaExhausted, "the account has no credit or quota left at the provider", "add credit or choose another agent or model, then `trellis retry DIR`", false},
	{ContextOverflow, "the prompt is larger than the model accepts", "shorten the context files (`trellis prompt ROLE --task DIR` shows sizes) or choose a larger model", false},
	{BudgetTokens, "the task used up limits.tokens, or the day's tasks used up limits.day_tokens", "raise the named limit in .trellis/config.yaml, then `trellis start DIR`; work limited by day resumes automatically the next day", false},
	{BudgetCost, "the task used up limits.cost_usd, or the day's tasks used up limits.day_cost_usd", "raise the named limit in .trellis/config.yaml, then `trellis start DIR`; work limited by day resumes automatically the next day", false},
	{BudgetTime, "the task used up limits.seconds", "raise limits.seconds in .trellis/config.yaml, then `trellis start DIR`", false},
	{VerifyFailed, "the project's own checks still fail after the last round", "read report.md and `trellis diff DIR`; fix it in the worktree yourself, or `trellis retry DIR`", false},
	{AcceptanceUnmet, "acceptance criteria are not met, or could not be judged", "read report.md; sharpen the criteria in prd.md, or choose another accept agent if its answer was unusable, then `trellis retry DIR`", false},
	{StepFailed, "a step of plan.json failed for good", "read report.md; edit plan.json, then `trellis retry DIR`", false},
	{NoProgress, "the same failure came twice with no change in between", "the agent is stuck: sharpen prd.md, debug.jsonl or the named step of plan.json, then `trellis retry DIR`", false},
	{EmptyDiff, "the run changed nothing although a change was required", "check that the agent may edit (`trellis logs DIR`); sharpen prd.md, then `trellis retry DIR`", false},
	{ProtectedPath, "something was changed that may not be: a protected path, the main checkout, or anything by a read-only role", "read the message: undo what it names, or allow the path in `protected`, then `trellis retry DIR`", false},
	{SecretFound, "the change contains something that looks like a secret", "remove it in the worktree (file, line and rule are named), then `trellis retry DIR`", false},
	{WorktreeFailed, "git could not create the worktree or the branch, or can't work in it", "fix what the message says, then `trellis retry DIR`", false},
	{HookFailed, "a setup command failed, or a check can't run at all in a fresh worktree", "fix that command, or set worktree.copy and worktree.setup in .trellis/config.yaml (a .trellis/worktree.yaml has copy and post_create), then `trellis retry DIR`", false},
	{CommitFailed, "git refused the commit", "read the message: a hook that refused, or something that git can't commit; fix that, then `trellis retry DIR`", false},
	{PushFailed, "git could not push the branch", "read the message: the remote, your access, the pre-push hook, or commits of others on the branch; then `trellis deliver DIR`, which calls no agent", true},
	{PRFailed, "the pull request could not be opened", "read the message, and what `trellis doctor` says about delivery; then `trellis deliver DIR`, which calls no agent", true},
	{Conflict, "the branch conflicts with its base", "fix the named files in the worktree, or merge the base branch there and commit that, then `trellis retry DIR`", false},
	{CIFailed, "checks of the pull request fail, and no round is left to fix them", "fix them and push to the branch yourself, or `trellis retry DIR` for as many rounds again", false},
	{ChangesRequested, "reviewers ask for changes, and no round is left to make them", "make them and push to the branch yourself, or `trellis retry DIR` for as many rounds again", false},
	{InvalidTask, "a file of the task directory is invalid", "`trellis validate DIR` shows file and line", false},
	{ApprovalRejected, "a person rejected it", "read the reason in the message; change what they object to, then `trellis retry DIR`", false},
	{JournalDamaged, "the run's journal is damaged or was written by a newer trellis", "the work is backed up; `trellis retry DIR` starts a new run", false},
	{Fenced, "another process took over the run", "check the named process; nothing was written", false},
	{Interrupted, "the run was interrupted and can be resumed", "`trellis start DIR`, or leave it to the watcher", false},
	{CalledOff, "a call that planning made in advance is no longer needed: the requirement was rejected, or is tiny", "nothing; its usage counts", false},
	{Internal, "a bug in trellis, or an error without a code of its own", "report it with the message", false},
}

// Info returns the code's row of the table, and whether there is one.
func (c Code) Info() (CodeInfo, bool) {
	for _, row := range Codes {
		if row.Code == c {
			return row, true
		}
	}
	return CodeInfo{}, false
}
