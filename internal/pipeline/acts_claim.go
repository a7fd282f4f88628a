package pipeline

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/ask"
	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// claim fixes what holds for the whole run: branch, base, who plays each role, and the commands that decide.
func (a *Acts) claim(ctx context.Context, _ flow.Call, in Input) (Job, error) {
	t, err := a.Store.Load(a.Dir)
	if err != nil {
		return Job{}, err
	}
	taskdir.Defaults(t)
	cfg := a.Config
	j := Job{Title: t.Title, Repo: a.Repo.Main, Branch: t.Branch, BaseBranch: t.BaseBranch, Scope: t.Scope, Baseline: cfg.Baseline,
		Setup: Setup{cfg.Worktree.Copy, cfg.Worktree.Setup, cfg.Worktree.SetupTimeout}, CommitType: cfg.Delivery.CommitType,
		Protected: append(slices.Clone(cfg.Protected), t.Pipeline.Protected...), Choices: map[trellis.Role]ask.Choice{}, Limits: limits(a)}
	if t.Pipeline.Approval.Required {
		j.Approval = max(1, t.Pipeline.Approval.Approvers)
	}
	if err := a.base(ctx, &j, t, in.Fresh); err != nil {
		return j, err
	}
	j.Worktree = filepath.Join(cfg.Worktree.Dir, filepath.FromSlash(j.Branch))
	for _, role := range Roles() {
		c, err := a.Cast.Choose(role, t.Pipeline.Agent, in.Agent)
		if err != nil {
			return j, err
		}
		j.Choices[role] = c
	}
	j.Verify, j.VerifySource = a.decisive(t)
	if n := len(strings.Join(j.Verify, "")) + 32*len(j.Verify); n > maxVerify {
		return j, flow.Fail(string(trellis.InvalidTask), "the %d verify commands of %s are too long to be recorded: put them into a script", len(j.Verify), j.VerifySource)
	}
	return j, nil
}

func limits(a *Acts) Limits {
	l := a.Config.Limits
	return Limits{Rounds: max(1, l.Rounds), Attempts: max(1, l.Attempts), Idle: l.Idle, Implement: l.Implement, Check: l.Check, Debug: l.Debug,
		Accept: l.Accept, Command: a.Config.VerifyTimeout, Tokens: l.Tokens, CostUSD: l.CostUSD, Seconds: float64(l.Seconds)}
}

// base finds the branch's base: the commit of an earlier claim while its branch stands, else the tip of
// base_branch, else of the branch that is checked out.
func (a *Acts) base(ctx context.Context, j *Job, t *taskdir.Task, fresh bool) (err error) {
	if j.BaseBranch == "" {
		j.BaseUnset = true
		if j.BaseBranch, err = a.Repo.CurrentBranch(ctx, a.Repo.Main); err != nil {
			return err
		}
		if j.BaseBranch == "" {
			return flow.Fail(string(trellis.WorktreeFailed), "no base_branch is set and no branch is checked out: `trellis task set-base-branch %s BRANCH`", t.ID)
		}
	}
	if earlier := t.Pipeline.BaseCommit; earlier != "" && !fresh {
		if tip, err := a.Repo.Branch(ctx, j.Branch); err != nil || tip != "" {
			j.BaseCommit = earlier
			return err
		}
	}
	if j.BaseCommit, err = a.Repo.Resolve(ctx, j.BaseBranch); err != nil {
		return flow.Fail(string(trellis.WorktreeFailed), "base branch %s: %v", j.BaseBranch, err)
	}
	return nil
}

// maxVerify is how long all verify commands may be together, in bytes.
const maxVerify = 8 << 10

// Sources of the commands that decide, in the order they are asked.
const (
	fromTask     = "task.json"
	fromConfig   = "config.yaml"
	fromResearch = "research.md"
)

// decisive are the commands that decide whether work is done, and where they come from: the first source
// that has any. An agent in a worktree can't reach one of them.
func (a *Acts) decisive(t *taskdir.Task) ([]string, string) {
	if len(t.Pipeline.Verify) > 0 {
		return t.Pipeline.Verify, fromTask
	}
	if len(a.Config.Verify) > 0 {
		return a.Config.Verify, fromConfig
	}
	// The verification steps of a plan.json come here.
	data, err := os.ReadFile(filepath.Join(a.Dir, taskdir.Research))
	if err != nil {
		return nil, ""
	}
	var found []string
	p := research.Project{Root: a.Repo.Main, LookPath: a.LookPath}
	for _, c := range research.Parse(data).Commands {
		if p.Missing(c) == "" {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return nil, ""
	}
	return found, fromResearch
}
