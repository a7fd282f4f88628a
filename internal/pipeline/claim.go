package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	gitupdate "github.com/trellis-tasks/trellis/internal/git/update"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

const claim flow.Act[Input, Job] = "claim"

// claim fixes the values that hold until the end of the run. When people must approve the plan, they are fixed after the approval,
// so that no command of the plan runs before it.
func (r *run) claim(f flow.Flow) (err error) {
	in := r.in
	in.Undelivered = nil // the claim does not need it, and it is long
	for {
		if r.job, err = claim.Do(f, in); err != nil || !r.job.Unapproved {
			return err
		}
		if err := r.awaitApproval(f); err != nil {
			return err
		}
	}
}

// claimer is the effect of the claim.
type claimer struct {
	place
	config    *config.Config
	agents    agentcall.Agents
	lookPath  func(program string) error
	bases     bases.Finder
	approvals ApprovalJudge
	intake    *intake
	trust     *trustJudge
}

// claim fixes the values that hold for the whole run: branch, base, the agent of each role, the deciding commands, and the
// required approval. It is not a lock: that is held by whoever opened the run's journal.
func (cl *claimer) claim(ctx context.Context, _ flow.Call, in Input) (Job, error) {
	var j Job
	_, err := cl.intake.judgeStable(ctx, func(t *taskdir.Task, k *inputSnapshot) (err error) {
		j, err = cl.claimRead(ctx, in, t, k)
		return err
	})
	return j, err
}

// claimRead makes the claim from what was read of the task's directory.
func (cl *claimer) claimRead(ctx context.Context, in Input, t *taskdir.Task, k *inputSnapshot) (Job, error) {
	asked := *t
	if k.planErr != nil {
		return Job{}, k.planErr
	}
	p := rootPlan(k.plan)
	base, waits, err := cl.bases.BaseOf(ctx, t, bases.Base{Commit: in.Base, On: in.StackedOn}, in.Fresh)
	if err != nil {
		return Job{}, err
	}
	if len(waits) > 0 {
		return Job{}, &bases.UnmetError{Waits: waits}
	}
	if err := cl.trust.checkClaim(ctx, t, base, in.Begun || in.Fresh); err != nil {
		return Job{}, err
	}
	j, err := cl.job(ctx, t, k, p, in, base)
	if err != nil {
		return j, err
	}
	if err := cl.resumeBaseUpdate(ctx, in, &j); err != nil {
		return j, err
	}
	g, err := cl.approvals.judgeRun(&asked, p, j, false)
	j.Unapproved = g.State != proof.Approved
	return j, err
}

// job returns the job of a run that begins at base. p is the task's plan, nil if it has none.
func (cl *claimer) job(ctx context.Context, t *taskdir.Task, k *inputSnapshot, p *plan.Plan, in Input, base bases.Base) (Job, error) {
	taskdir.Defaults(t)
	cfg := cl.config
	commands, assumed := Preconditions(p)
	j := Job{Title: t.Title, Repo: cl.repo.Main, Branch: t.Branch, BaseBranch: base.Branch, BaseUnset: base.Unset, BaseCommit: base.Commit, StackedOn: base.On,
		Scope: t.Scope, Baseline: cfg.Baseline != "false", BaselineBeside: cfg.Baseline == "parallel", InPlace: !cfg.VerifyFresh, VerifyAll: cfg.VerifyAll, VerifyParallel: cfg.VerifyParallel,
		Setup: Setup{cfg.Worktree.Copy, cfg.Worktree.Setup, cfg.Worktree.Warm, cfg.Worktree.SetupTimeout}, CommitType: cfg.Delivery.CommitType, Delivery: deliverySettings(cfg, in.Deliver),
		Protected: protectedGlobs(cfg, t), Choices: map[trellis.Role]agentcall.Choice{}, Limits: limits(cl.config), Approvers: Approvers(cfg, t),
		Preconditions: commands, Assumed: shortList(assumed)}
	if approvalReason(cfg, t, p) != "" {
		j.Approval = j.Approvers
	}
	for _, role := range Roles() {
		c, err := cl.agents.Choose(role, t.Pipeline.Agent, in.Agent)
		if err != nil {
			return j, err
		}
		j.Choices[role] = c
	}
	if err := cl.setWorktree(ctx, in, t, &j); err != nil {
		return j, err
	}
	var err error
	if j.Verify, j.VerifySource, err = cl.decidingCommands(t, k, p); err != nil {
		return j, err
	}
	if tooLong(j.Verify) {
		return j, flow.Fail(string(trellis.InvalidTask), "the %d verify commands of %s are too many or too long to be recorded: put them into a script", len(j.Verify), j.VerifySource)
	}
	if j.Modules, err = modulesOf(cfg, t); err != nil {
		return j, err
	}
	if tooLong(j.Preconditions) {
		return j, flow.Fail(string(trellis.InvalidTask), "the %d preconditions of plan.json are too many or too long to be recorded: put them into a script", len(j.Preconditions))
	}
	return j, nil
}

// setWorktree sets the worktree's path: the configured one, or that of the existing worktree, which may have been made with other
// settings or moved since. It fails if the work so far is not on the branch that task.json names, which may be a person's.
func (cl *claimer) setWorktree(ctx context.Context, in Input, t *taskdir.Task, j *Job) error {
	j.Worktree = filepath.Join(cl.config.Worktree.Dir, filepath.FromSlash(j.Branch))
	w, err := cl.repo.Worktrees().ForTask(ctx, cl.task.id(), j.Branch, t.WorktreePath)
	j.Own = in.Branch == j.Branch || w != nil && w.Branch == j.Branch
	if err == nil && !j.Own && in.Begun && in.Branch != "" {
		return flow.Fail(string(trellis.WorktreeFailed), "task.json names the branch %s, and the work so far is on %s: `trellis task set-branch %s %[2]s` continues there, `trellis retry %[3]s --fresh` begins on the other one",
			j.Branch, in.Branch, cl.task.id())
	}
	if w != nil && (j.Own || in.Begun) {
		j.Worktree = w.Path
	}
	return err
}

func limits(cfg *config.Config) Limits {
	l := cfg.Limits
	return Limits{Rounds: max(1, l.Rounds), Attempts: max(1, l.Attempts), Idle: l.Idle, Implement: l.Implement, Check: l.Check, Debug: l.Debug,
		Accept: l.Accept, Command: cfg.VerifyTimeout, Tokens: l.Tokens, CostUSD: l.CostUSD, Seconds: float64(l.Seconds)}
}

// Limits for all verify commands together, and for all preconditions together: size in bytes, and number.
const (
	maxCommandBytes = 8 << 10
	maxCommandCount = 50
)

// tooLong reports whether commands, or their results, are too long to be recorded.
func tooLong(commands []string) bool {
	return len(strings.Join(commands, "")) > maxCommandBytes || len(commands) > maxCommandCount
}

// modulesOf returns the paths of the submodules that a task works in: the one that its package is in.
func modulesOf(cfg *config.Config, t *taskdir.Task) ([]string, error) {
	_, pkg, err := cfg.Package(t.Package)
	if err != nil && len(cfg.Packages) > 0 {
		return nil, flow.Fail(string(trellis.InvalidTask), "%v: packages of .trellis/config.yaml names them", err)
	}
	if path := pkg.Submodule(); path != "" {
		return []string{path}, nil
	}
	return nil, nil
}

// deliverySettings returns the delivery that is configured. With requested, push and pull request are part of it in any case.
func deliverySettings(cfg *config.Config, requested bool) (out DeliverySettings) {
	d := cfg.Delivery
	if d.Push || d.PR || requested {
		out = DeliverySettings{Push: true, PR: d.PR || requested, Draft: d.Draft, Labels: d.Labels, Reviewers: d.Reviewers}
	}
	if d.Update != "none" {
		out.Update = d.Update
	}
	return out
}

// Sources of the deciding commands, in order of precedence.
const (
	fromTask     = "task.json"
	fromConfig   = "config.yaml"
	fromPlan     = "plan.json"
	fromResearch = "research.md"
)

// decidingCommands returns the commands that decide whether work is done, and their source: the first one that names any. An agent
// in a worktree has no access to these sources.
func (cl *claimer) decidingCommands(t *taskdir.Task, k *inputSnapshot, p *plan.Plan) (list []string, source string, err error) {
	if len(t.Pipeline.Verify) > 0 {
		return t.Pipeline.Verify, fromTask, nil
	}
	if len(cl.config.Verify) > 0 {
		return cl.config.Verify, fromConfig, nil
	}
	if p != nil {
		if list := p.Verification(); len(list) > 0 {
			return list, fromPlan, nil
		}
	}
	if err := k.unread[taskdir.Research]; err != nil {
		return nil, "", flow.Fail(string(trellis.InvalidTask), "reading research.md, which says what decides: %v", err)
	}
	found := cl.researchCommands(k)
	if len(found) == 0 {
		return nil, "", nil
	}
	return found, fromResearch, nil
}

// researchCommands returns the commands of research.md that can be run here.
func (cl *claimer) researchCommands(k *inputSnapshot) (found []string) {
	here := research.Project{Root: cl.repo.Main, LookPath: cl.lookPath}
	for _, c := range research.Parse(k.texts[taskdir.Research]).Commands {
		if here.Missing(c) == "" {
			found = append(found, c)
		}
	}
	return found
}

// resumeBaseUpdate sets, in the claim of a later run, the base that the branch was brought up to since the first claim: by an
// update that an earlier run began, or by a person's merge.
func (cl *claimer) resumeBaseUpdate(ctx context.Context, in Input, j *Job) error {
	if in.Code < 4 || in.Fresh || in.Base == "" {
		return nil
	}
	tip, err := cl.repo.Refs().Branch(ctx, j.Branch)
	if err != nil || tip == "" {
		return err
	}
	u, err := gitupdate.New(cl.repo).Updating(ctx, filepath.Base(cl.task.dir))
	if err != nil {
		return err
	}
	if u == nil {
		return cl.followHandMerge(ctx, j, tip)
	}
	if u.Merge && tip != u.Ours {
		if within, err := cl.repo.History().IsAncestor(ctx, u.Base, tip); err != nil || within {
			return errors.Join(err, cl.followHandMerge(ctx, j, tip))
		}
	}
	var recorded pendingUpdate
	if err := json.Unmarshal([]byte(u.About), &recorded); err != nil {
		return fmt.Errorf("reading what is being updated: %w", err)
	}
	j.BaseCommit, j.StackedOn = u.Base, recorded.On
	j.setClash(u, recorded)
	return nil
}

// followHandMerge moves the base to the newest commit of the base branch that the task's branch contains.
func (cl *claimer) followHandMerge(ctx context.Context, j *Job, tip string) error {
	base, err := cl.repo.Refs().Branch(ctx, j.BaseBranch)
	if err != nil || base == "" || base == j.BaseCommit || j.Delivery.Update == "" {
		return err
	}
	shared, err := cl.repo.History().MergeBase(ctx, base, tip)
	if err != nil || shared == "" || shared == j.BaseCommit {
		return err
	}
	if newer, err := cl.repo.History().IsAncestor(ctx, j.BaseCommit, shared); err != nil || !newer {
		return err
	}
	j.BaseCommit, j.StackedOn = shared, ""
	return nil
}

// preview returns the job of a run that would be claimed now, and what it would take in.
func (cl *claimer) preview(ctx context.Context, in Input) (Job, *inputSnapshot, error) {
	t, err := cl.store.Load(cl.task.dir)
	if err != nil {
		return Job{}, nil, err
	}
	k, err := cl.intake.read(t)
	if err != nil {
		return Job{}, nil, err
	}
	if k.planErr != nil {
		return Job{}, nil, k.planErr
	}
	base, _, err := cl.bases.BaseOf(ctx, t, bases.Base{Commit: in.Base, On: in.StackedOn}, in.Fresh)
	if err != nil {
		return Job{}, nil, err
	}
	j, err := cl.job(ctx, t, k, rootPlan(k.plan), in, base)
	return j, k, err
}
