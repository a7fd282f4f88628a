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

// Roles decides which agent plays a role, and whether it can.
type Roles struct {
	config     *config.Config
	instruct   func(trellis.Role) (Instructions, error)
	fallback   func() (string, error) // returns the agent to use if nobody chose one
	check      func(ctx context.Context, agent string) error
	open       func(agent string) (agents.Agent, error)
	author     git.Author
	identified *atomic.Bool // git has an identity to commit with
}

// Instructions are what a project itself says about a role.
type Instructions struct {
	Agent, Model string
	Permission   trellis.Permission // "" means the role's own; it can only be narrower
	Override     templates.Override
}

// agents returns who plays which role, and what they are told. If that is not trusted, or can't be used, the run is suspended.
func (rs Roles) agents(nonce string) agentcall.Agents {
	return agentcall.Agents{Choose: rs.chooseOrSuspend, Open: rs.open, Render: func(name string, slots map[string]string) (p templates.Prompt, err error) {
		in, err := rs.instruct(trellis.Role(name))
		if err == nil {
			p, err = templates.Render(name, slots, nonce, in.Override)
		}
		return p, mistakeAsSuspended(err)
	}}
}

func (rs Roles) chooseOrSuspend(role trellis.Role, taskAgent, flag string) (agentcall.Choice, error) {
	c, err := rs.Choose(role, taskAgent, flag)
	return c, mistakeAsSuspended(err)
}

// instructionsError is a mistake in a project's words for a role. It suspends a run until it is mended: it matches [flow.ErrSuspended].
type instructionsError struct{ *trellis.Problem }

func (e instructionsError) Unwrap() []error { return []error{flow.ErrSuspended, e.Problem} }

// mistakeAsSuspended makes an error suspend the run until a project's instructions for its roles are trusted and free of mistakes.
func mistakeAsSuspended(err error) error {
	if p, ok := errors.AsType[*trellis.Problem](err); ok {
		return instructionsError{p}
	}
	return untrustedAsSuspended(err)
}

// instructionsProblem returns the mistake in a project's instructions that a run is suspended for, with next added to its hint; any other err as is.
func instructionsProblem(err error, next string) error {
	var words instructionsError
	if !errors.As(err, &words) {
		return err
	}
	p := *words.Problem
	p.Hint = cmp.Or(p.Hint, "fix it") + "; then " + next
	return &p
}

// Choose returns who plays a role, according to the flag, the task, the role's own file and the settings.
func (rs Roles) Choose(role trellis.Role, taskAgent, flag string) (c agentcall.Choice, err error) {
	in, err := rs.instruct(role)
	if err != nil {
		return c, err
	}
	c.Permission = rs.config.PermissionFor(role, in.Permission)
	c.Agent, c.Model = rs.config.AgentFor(role, taskAgent, flag, in.Agent, in.Model)
	if c.Agent == "" {
		c.Agent, err = rs.fallback()
		err = rs.addNamingHint(role, err)
	}
	return c, err
}

// addNamingHint adds to the error that no agent was found for a role how to name one, if the project has or names agents.
func (rs Roles) addNamingHint(role trellis.Role, err error) error {
	f, ok := errors.AsType[*flow.Failure](err)
	if !ok || len(rs.config.Agents.Commands) == 0 && len(rs.Named()) == 0 {
		return err
	}
	said := *f
	said.Detail += fmt.Sprintf(", and no agent is named for the role %s; agents.default in .trellis/config.yaml is for all that have none", role)
	return &said
}

// Named returns the agents that the settings, or the roles' own files, name for a role, each once.
func (rs Roles) Named() []string {
	names := map[string]bool{}
	for _, role := range trellis.Roles {
		in, err := rs.instruct(role)
		if err != nil {
			continue // reported elsewhere
		}
		agent, _ := rs.config.AgentFor(role, "", "", in.Agent, in.Model)
		names[agent] = true
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// RolesWithoutAgent returns the roles of planning and of running for which no agent is named, if there is no agent to fall back on either.
func (rs Roles) RolesWithoutAgent() (planning, running []trellis.Role) {
	if _, err := rs.fallback(); err == nil {
		return nil, nil
	}
	return rs.unchosen(planner.Roles()), rs.unchosen(pipeline.Roles())
}

// unchosen returns those of roles for which no agent is named.
func (rs Roles) unchosen(roles []trellis.Role) (list []trellis.Role) {
	for _, role := range roles {
		in, err := rs.instruct(role)
		if agent, _ := rs.config.AgentFor(role, "", "", in.Agent, in.Model); err == nil && agent == "" {
			list = append(list, role)
		}
	}
	return list
}

// checkAgentsAndIdentity returns an error, before anything is claimed, unless these roles can be played and git has an identity to commit with.
func (rs Roles) checkAgentsAndIdentity(ctx context.Context, roles []trellis.Role, taskAgent, flag string) error {
	if err := rs.checkAgents(ctx, roles, taskAgent, flag); err != nil {
		return err
	}
	if rs.identified.Load() {
		return nil
	}
	_, err := rs.author.Identity(ctx)
	rs.identified.Store(err == nil)
	return err
}

// CheckTemp returns an error if no temporary files can be made (TMPDIR is gone, say). A run checks that before it asks agents.
func CheckTemp() error {
	dir, err := os.MkdirTemp("", "trellis-")
	if err == nil {
		err = os.Remove(dir)
	}
	if err == nil || durable.IsDiskError(err) {
		return err
	}
	return &trellis.Problem{File: os.TempDir(), Message: "no temporary files can be made here: " + err.Error(), Hint: "have TMPDIR name a folder that you can write to"}
}

// CheckPlanners returns why tasks can't be planned with this agent, "" for the configured one; nil if they can.
func (rs Roles) CheckPlanners(ctx context.Context, agent string) error {
	return rs.checkAgentsAndIdentity(ctx, planner.Roles(), "", agent)
}

// CheckRunners returns why tasks with this agent, "" for the configured one, can't be run on this machine: a *flow.Failure
// agent_missing or agent_auth, agents.ErrUnknown, or what is wrong with the project's instructions for a role.
func (rs Roles) CheckRunners(ctx context.Context, agent string) error {
	return rs.checkAgents(ctx, pipeline.Roles(), agent, "")
}

// checkAgents returns an error, before anything is claimed, unless the agents of these roles can work and be told what to do.
func (rs Roles) checkAgents(ctx context.Context, roles []trellis.Role, taskAgent, flag string) error {
	if err := rs.checkInstructions(roles); err != nil {
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

// checkInstructions returns an error unless a project's instructions for roles can be used, also in the templates besides those of the roles.
func (rs Roles) checkInstructions(roles []trellis.Role) error {
	return cmp.Or(rs.mistakes(roles)...)
}

// Mistakes returns what is wrong with the project's instructions for any role. Until it is mended, tasks that need them are refused.
func (rs Roles) Mistakes() []error { return rs.mistakes(trellis.Roles) }

func (rs Roles) mistakes(roles []trellis.Role) (list []error) {
	names := append(trellis.Strings(roles), "repair")
	if slices.Contains(roles, trellis.Implement) {
		names = append(names, "step")
	}
	for _, name := range names {
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
