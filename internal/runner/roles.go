package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/templates"
)

// Roles say which agent plays a role, and whether it can.
type Roles struct {
	config     *config.Config
	instruct   func(trellis.Role) (Instructions, error)
	fallback   func() (string, error) // the agent to take when nobody chose one
	check      func(ctx context.Context, agent string) error
	open       func(agent string) (agents.Agent, error)
	author     git.Author
	identified *atomic.Bool // git knows who commits
}

// Instructions are a project's own words for a role.
type Instructions struct {
	Agent, Model string
	Permission   trellis.Permission // "" is the role's own; it can only be narrower
	Override     templates.Override
}

// cast says who plays which role, and what they are told. A run sleeps where that is not trusted, or can't be used.
func (rs Roles) cast(nonce string) agentcall.Agents {
	return agentcall.Agents{Choose: rs.chooseOrSleep, Open: rs.open, Render: func(name string, slots map[string]string) (p templates.Prompt, err error) {
		in, err := rs.instruct(trellis.Role(name))
		if err == nil {
			p, err = templates.Render(name, slots, nonce, in.Override)
		}
		return p, sleeps(err)
	}}
}

func (rs Roles) chooseOrSleep(role trellis.Role, taskAgent, flag string) (agentcall.Choice, error) {
	c, err := rs.Choose(role, taskAgent, flag)
	return c, sleeps(err)
}

// wordsError is a mistake in what a project says of its roles: a run sleeps until it is mended. It matches [flow.ErrSuspended].
type wordsError struct{ *trellis.Problem }

func (e wordsError) Unwrap() []error { return []error{flow.ErrSuspended, e.Problem} }

// sleeps has a run sleep until what a project says of its roles is trusted, and free of mistakes.
func sleeps(err error) error {
	if p, ok := errors.AsType[*trellis.Problem](err); ok {
		return wordsError{p}
	}
	return suspended(err)
}

// mistaken is the mistake in a project's words that a run sleeps for, with next as what goes on once it is mended, or err as it is.
func mistaken(err error, next string) error {
	var words wordsError
	if !errors.As(err, &words) {
		return err
	}
	p := *words.Problem
	p.Hint = cmp.Or(p.Hint, "mend it") + "; then " + next
	return &p
}

// Choose says who plays a role, by the flag, the task, the role's own file and the settings.
func (rs Roles) Choose(role trellis.Role, taskAgent, flag string) (c agentcall.Choice, err error) {
	in, err := rs.instruct(role)
	if err != nil {
		return c, err
	}
	c.Permission = rs.config.PermissionFor(role, in.Permission)
	c.Agent, c.Model = rs.config.AgentFor(role, taskAgent, flag, in.Agent, in.Model)
	if c.Agent == "" {
		c.Agent, err = rs.fallback()
		err = rs.unnamed(role, err)
	}
	return c, err
}

// unnamed is why no agent was found for a role, and how one is named for it where there are agents of the project's own.
func (rs Roles) unnamed(role trellis.Role, err error) error {
	f, ok := errors.AsType[*flow.Failure](err)
	if !ok || len(rs.config.Agents.Commands) == 0 && len(rs.Named()) == 0 {
		return err
	}
	said := *f
	said.Detail += fmt.Sprintf(", and no agent is named for the role %s; agents.default in .trellis/config.yaml is for all that have none", role)
	return &said
}

// Named are the agents that settings, or the roles' own files, name for a role, each once.
func (rs Roles) Named() []string {
	names := map[string]bool{}
	for _, role := range trellis.Roles {
		in, err := rs.instruct(role)
		if err != nil {
			continue // which is said elsewhere
		}
		agent, _ := rs.config.AgentFor(role, "", "", in.Agent, in.Model)
		names[agent] = true
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// Unplayed are the roles of planning and of running that nobody plays, since no agent is named for them and none was found.
func (rs Roles) Unplayed() (planning, running []trellis.Role) {
	if _, err := rs.fallback(); err == nil {
		return nil, nil
	}
	return rs.unchosen(planner.Roles()), rs.unchosen(pipeline.Roles())
}

// unchosen are those of these roles that no agent is named for.
func (rs Roles) unchosen(roles []trellis.Role) (list []trellis.Role) {
	for _, role := range roles {
		in, err := rs.instruct(role)
		if agent, _ := rs.config.AgentFor(role, "", "", in.Agent, in.Model); err == nil && agent == "" {
			list = append(list, role)
		}
	}
	return list
}

// able makes sure, before anything is claimed, that these roles can be played, and that git knows who commits.
func (rs Roles) able(ctx context.Context, roles []trellis.Role, taskAgent, flag string) error {
	if err := rs.available(ctx, roles, taskAgent, flag); err != nil {
		return err
	}
	if rs.identified.Load() {
		return nil
	}
	_, err := rs.author.Identity(ctx)
	rs.identified.Store(err == nil)
	return err
}

// CheckTemp says what keeps temporary files from being made: a TMPDIR that is gone, say. A run finds that before agents are asked.
func CheckTemp() error {
	dir, err := os.MkdirTemp("", "trellis-")
	if err == nil {
		err = os.Remove(dir)
	}
	if err == nil || durable.Unfit(err) {
		return err
	}
	return &trellis.Problem{File: os.TempDir(), Message: "no temporary files can be made here: " + err.Error(), Hint: "have TMPDIR name a folder that you can write to"}
}

// CanPlan says what keeps a task from being planned with this agent, "" for the one that is configured.
func (rs Roles) CanPlan(ctx context.Context, agent string) error {
	return rs.able(ctx, planner.Roles(), "", agent)
}

// CanRun says what keeps tasks with this agent, "" for the one that is configured, from being run on this machine: a
// *flow.Failure agent_missing or agent_auth, agents.ErrUnknown, or what is wrong with the project's words for a role.
func (rs Roles) CanRun(ctx context.Context, agent string) error {
	return rs.available(ctx, pipeline.Roles(), agent, "")
}

// available makes sure, before anything is claimed, that the agents of these roles can work, and be told what to do.
func (rs Roles) available(ctx context.Context, roles []trellis.Role, taskAgent, flag string) error {
	if err := rs.usable(roles); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, role := range roles {
		c, err := rs.Choose(role, taskAgent, flag)
		if err != nil {
			return err
		}
		if seen[c.Agent] {
			continue
		}
		seen[c.Agent] = true
		if err := rs.check(ctx, c.Agent); err != nil {
			return err
		}
	}
	return nil
}

// usable looks whether a project's words for roles can be used, also for what agents are asked by other templates than their role's.
func (rs Roles) usable(roles []trellis.Role) error {
	return cmp.Or(rs.mistakes(roles)...)
}

// Mistakes are what is wrong with the project's words for all roles: while it is, tasks that need them are refused.
func (rs Roles) Mistakes() []error { return rs.mistakes(trellis.Roles) }

func (rs Roles) mistakes(roles []trellis.Role) (list []error) {
	asks := append(trellis.Strings(roles), "repair")
	if slices.Contains(roles, trellis.Implement) {
		asks = append(asks, "step")
	}
	for _, name := range asks {
		in, err := rs.instruct(trellis.Role(name))
		if err == nil && slices.Contains(templates.Names(), name) {
			err = templates.Check(name, in.Override)
		}
		if err != nil {
			list = append(list, err)
		}
	}
	return list
}
