package pipeline

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// claim fixes what holds for the whole run: branch, base, who plays each role, the commands that decide, and
// whose yes is needed.
func (cl *claimer) claim(ctx context.Context, _ flow.Call, in Input) (Job, error) {
	var j Job
	_, err := cl.intake.judge(ctx, func(t *taskdir.Task, k *taken) (err error) {
		j, err = cl.claimRead(ctx, in, t, k)
		return err
	})
	return j, err
}

// claimRead is the claim by what was taken.
func (cl *claimer) claimRead(ctx context.Context, in Input, t *taskdir.Task, k *taken) (Job, error) {
	asked := *t
	if k.wrong != nil {
		return Job{}, k.wrong
	}
	p := main(k.plan)
	base, waits, err := cl.findBase(ctx, t, in)
	if err != nil {
		return Job{}, err
	}
	if waits != "" {
		return Job{}, &UnmetError{waits}
	}
	if err := cl.trust.trusted(ctx, t, base, in.Begun || in.Fresh); err != nil {
		return Job{}, err
	}
	j, err := cl.job(t, k, p, in, base)
	if err != nil {
		return j, err
	}
	if err := cl.resumeBaseUpdate(ctx, in, &j); err != nil {
		return j, err
	}
	g, err := cl.approvals.ofRun(&asked, p, j, false)
	j.Unapproved = g.State != proof.Approved
	return j, err
}

// job is what a run of the task that begins at base is to be, with p as its plan, nil when it has none.
func (cl *claimer) job(t *taskdir.Task, k *taken, p *plan.Plan, in Input, base Base) (Job, error) {
	taskdir.Defaults(t)
	cfg := cl.config
	j := Job{Title: t.Title, Repo: cl.repo.Main, Branch: t.Branch, BaseBranch: base.Branch, BaseUnset: base.Unset, BaseCommit: base.Commit, StackedOn: base.On,
		Scope: t.Scope, Baseline: cfg.Baseline, InPlace: !cfg.VerifyFresh,
		Setup: Setup{cfg.Worktree.Copy, cfg.Worktree.Setup, cfg.Worktree.SetupTimeout}, CommitType: cfg.Delivery.CommitType, Delivery: delivering(cfg, in.Deliver),
		Protected: protected(cfg, t), Choices: map[trellis.Role]agentcall.Choice{}, Limits: limits(cl.config), Approvers: Approvers(cfg, t),
		Preconditions: preconditions(p), Assumed: few(Assumed(p))}
	if required(cfg, t, p) {
		j.Approval = j.Approvers
	}
	j.Worktree = filepath.Join(cfg.Worktree.Dir, filepath.FromSlash(j.Branch))
	for _, role := range Roles() {
		c, err := cl.cast.Choose(role, t.Pipeline.Agent, in.Agent)
		if err != nil {
			return j, err
		}
		j.Choices[role] = c
	}
	var err error
	if j.Verify, j.VerifySource, err = cl.decidingCommands(t, k, p); err != nil {
		return j, err
	}
	if long(j.Verify) {
		return j, flow.Fail(string(trellis.InvalidTask), "the %d verify commands of %s are too many or too long to be recorded: put them into a script", len(j.Verify), j.VerifySource)
	}
	if j.Modules, err = modulesOf(cfg, t); err != nil {
		return j, err
	}
	if long(j.Preconditions) {
		return j, flow.Fail(string(trellis.InvalidTask), "the %d preconditions of plan.json are too many or too long to be recorded: put them into a script", len(j.Preconditions))
	}
	return j, nil
}

// long reports whether commands, or what comes of them, are too long to stand in a record.
func long(commands []string) bool {
	return len(strings.Join(commands, "")) > maxCommands || len(commands) > mostCommands
}

func limits(cfg *config.Config) Limits {
	l := cfg.Limits
	return Limits{Rounds: max(1, l.Rounds), Attempts: max(1, l.Attempts), Idle: l.Idle, Implement: l.Implement, Check: l.Check, Debug: l.Debug,
		Accept: l.Accept, Command: cfg.VerifyTimeout, Tokens: l.Tokens, CostUSD: l.CostUSD, Seconds: float64(l.Seconds)}
}

// findBase finds where the branch begins. waits is in words what has to come before that.
func (cl *claimer) findBase(ctx context.Context, t *taskdir.Task, in Input) (base Base, waits string, err error) {
	b := Bases{Repo: cl.repo, Store: cl.store, Merged: cl.config.DependsOnMerged, Known: cl.merges}
	return b.Of(ctx, t, Base{Commit: in.Base, On: in.StackedOn}, in.Fresh)
}

// How long all verify commands may be together, and all preconditions, in bytes, and how many they may be.
const (
	maxCommands  = 8 << 10
	mostCommands = 50
)

// Sources of the commands that decide, in the order they are asked.
const (
	fromTask     = "task.json"
	fromConfig   = "config.yaml"
	fromPlan     = "plan.json"
	fromResearch = "research.md"
)

// decidingCommands are the commands that decide whether work is done, and where they come from: the first source
// that has any. An agent in a worktree can't reach one of them.
func (cl *claimer) decidingCommands(t *taskdir.Task, k *taken, p *plan.Plan) (list []string, source string, err error) {
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

// researchCommands are the commands of research.md that can be run here.
func (cl *claimer) researchCommands(k *taken) (found []string) {
	here := research.Project{Root: cl.repo.Main, LookPath: cl.lookPath}
	for _, c := range research.Parse(k.texts[taskdir.Research]).Commands {
		if here.Missing(c) == "" {
			found = append(found, c)
		}
	}
	return found
}
