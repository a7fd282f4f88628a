package planner

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Deps are the dependencies of the effects of planning one task.
type Deps struct {
	Dir      string // the task directory: a `.new-*` folder while it is planned for the first time
	Final    string // where it is published; the same as Dir if a task is planned again
	Repo     *git.Repo
	Store    taskdir.Store
	Config   *config.Config
	Choose   func(role trellis.Role, taskAgent, flag string) (agentcall.Choice, error) // returns the agent of a role
	LookPath func(program string) error
	Disk     *durable.Disk
	Now      func() time.Time
	// Trusted returns an error if agents must not get these files of the checkout, given by path as they were read, nor work in
	// it. Nil: all are trusted. It is called before each call of an agent.
	Trusted func(ctx context.Context, texts map[string][]byte) error
}

// Activities returns all that a planning does besides calling agents.
func (d Deps) Activities() []flow.Activity {
	f, c, r := d.files(), d.checkout(), d.record()
	return []flow.Activity{survey.With(surveyor{f, c, d.Config, d.Choose}.survey), reject.With(r.reject), digest.With(d.researcher().digest),
		settle.With(specifier{r}.settle), draft.With(d.drafter().draft), write.With(writer{f, c, d.Store, d.Config}.write),
		check.With(checker{f, c, d.Store, d.Final, d.Config}.check), finish.With(r.finish), giveUp.With(r.giveUp)}
}

// Equip prepares calls of agents for a planning: it sets their prompts, the checks of their answers, and a watch over the main
// checkout.
func (d Deps) Equip(calls *agentcall.Caller) {
	p := d.prompts()
	calls.Slots, calls.Check, calls.Mend = p.slots, p.check, p.mend
	main := &agentcall.Checkout{Repo: d.Repo}
	calls.Watch = func(ctx context.Context, _ flow.Call, _ agentcall.Request) (agentcall.Recheck, error) {
		before, err := main.Before(ctx, false)
		return agentcall.NoteChanges(before, main.Now), err
	}
}

func (d Deps) files() files           { return files{d.Dir, d.Disk} }
func (d Deps) checkout() checkout     { return checkout{d.Repo, d.LookPath} }
func (d Deps) record() record         { return record{d.files(), d.Repo, d.Store, d.Final, d.Now} }
func (d Deps) researcher() researcher { return researcher{d.files(), d.checkout(), d.Config} }
func (d Deps) drafter() drafter       { return drafter{d.files(), d.checkout(), d.Config} }
func (d Deps) prompts() prompts       { return prompts{d.drafter(), d.record(), d.Trusted} }

// Env returns the environment of planning agents, beyond that of every agent.
func (d Deps) Env(in Input) []string {
	env := []string{"PLAN_TASK_NAME=" + in.Name, "PLAN_DEV_TYPE=" + in.DevType, "PLAN_TASK_DIR=" + d.Dir,
		"PLAN_REQUIREMENT_FILE=" + filepath.Join(d.Dir, taskdir.Requirement)}
	if data, err := taskdir.ReadFile(d.Dir, taskdir.Requirement); err == nil && len(data) <= 64<<10 && !strings.ContainsRune(string(data), 0) {
		env = append(env, "PLAN_REQUIREMENT="+string(data))
	}
	return env
}
