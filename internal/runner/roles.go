package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
	"github.com/trellis-tasks/trellis/templates"
)

// Roles say which agent plays a role, and whether it can.
type Roles struct{ *Site }

// Roles works on s.
func (s *Site) Roles() Roles { return Roles{s} }

// Instructions are a project's own words for a role.
type Instructions struct {
	Agent, Model string
	Permission   trellis.Permission // "" is the role's own; it can only be narrower
	Override     templates.Override
}

// crew are the agents' calls for a task directory.
func (s Roles) crew(dir, marker string) *agentcall.Caller {
	return &agentcall.Caller{RunDir: filepath.Join(dir, taskdir.Run), Disk: s.Disk, Marker: marker, Redact: s.Redact, Now: s.Clock,
		Env: func(c flow.Call, r agentcall.Request) []string { return s.env(dir, c, r) },
		Spend: func(c flow.Call, more trellis.Usage) (agentcall.Budget, error) {
			return s.Budgets().spend(dir, c, more)
		},
		Event: func(c flow.Call, r agentcall.Request, e agents.Event) {
			s.Tell(Event{Task: filepath.Base(dir), Role: r.Role, Round: r.Round, Call: c.ID, Agent: e})
		}}
}

// telling are calls that tell when they begin and what they came to.
func (s Roles) telling(dir string, calls []flow.Activity) []flow.Activity {
	for i, call := range calls {
		calls[i].Run = func(ctx context.Context, c flow.Call, in json.RawMessage) (any, error) {
			e := Event{Task: filepath.Base(dir), Role: trellis.Role(call.Name), Call: c.ID}
			begun, ended := e, e
			begun.Asked = new(agentcall.Request)
			if err := json.Unmarshal(in, begun.Asked); err != nil {
				return nil, fmt.Errorf("decoding input of %s: %w", call.Name, err)
			}
			s.Tell(begun)
			out, err := call.Run(ctx, c, in)
			if r, ok := out.(agentcall.Reply); ok && err == nil {
				ended.Reply = &r
				s.Tell(ended)
			}
			return out, err
		}
	}
	return calls
}

// env is what every agent finds in its environment about its task.
func (s Roles) env(dir string, c flow.Call, r agentcall.Request) []string {
	return []string{pipeline.ReflogVariable + "=" + pipeline.ReflogAction(filepath.Base(dir)), "TRELLIS_ROLE=" + string(r.Role), "TRELLIS_TASK_ID=" + filepath.Base(dir), "TRELLIS_TASK_DIR=" + dir, "TRELLIS_REPO=" + s.Repo.Main,
		"TRELLIS_RUN_DIR=" + filepath.Join(dir, taskdir.Run, agentcall.Folder(c)), "TRELLIS_ATTEMPT=" + strconv.Itoa(max(1, r.Attempt)),
		"TRELLIS_ROUND=" + strconv.Itoa(max(1, r.Round))}
}

// cast says who plays which role, and what they are told. A run sleeps where that is not trusted.
func (s Roles) cast(nonce string) agentcall.Agents {
	return agentcall.Agents{Choose: s.chooseTrusted, Open: s.guard().trustedAgent, Render: func(name string, slots map[string]string) (templates.Prompt, error) {
		in, err := s.Instruct(trellis.Role(name))
		if err != nil {
			return templates.Prompt{}, suspended(err)
		}
		return templates.Render(name, slots, nonce, in.Override)
	}}
}

// chooseTrusted is choose for a run.
func (s Roles) chooseTrusted(role trellis.Role, taskAgent, flag string) (agentcall.Choice, error) {
	c, err := s.Choose(role, taskAgent, flag)
	return c, suspended(err)
}

func (s Roles) Choose(role trellis.Role, taskAgent, flag string) (agentcall.Choice, error) {
	in, err := s.Instruct(role)
	if err != nil {
		return agentcall.Choice{}, err
	}
	c := agentcall.Choice{Permission: s.Config.PermissionFor(role, in.Permission)}
	c.Agent, c.Model = s.Config.AgentFor(role, taskAgent, flag, in.Agent, in.Model)
	if c.Agent == "" {
		if c.Agent, err = s.Default(); err != nil {
			return c, err
		}
	}
	return c, nil
}

// able makes sure, before anything is claimed, that these roles can be played, and that git knows who commits.
func (s Roles) able(ctx context.Context, roles []trellis.Role, taskAgent, flag string) error {
	if err := s.available(ctx, roles, taskAgent, flag); err != nil {
		return err
	}
	if s.shared().identity.Load() {
		return nil
	}
	_, err := s.Repo.Author().Identity(ctx)
	s.shared().identity.Store(err == nil)
	return err
}

// CanPlan says what keeps a task from being planned with this agent, "" for the one that is configured.
func (s Roles) CanPlan(ctx context.Context, agent string) error {
	return s.able(ctx, planner.Roles(), "", agent)
}

// CanRun says what keeps tasks with this agent, "" for the one that is configured, from being run on this machine: a
// *flow.Failure agent_missing or agent_auth, or agents.ErrUnknown.
func (s Roles) CanRun(ctx context.Context, agent string) error {
	return s.available(ctx, pipeline.Roles(), agent, "")
}

// available makes sure, before anything is claimed, that the agents of these roles can work.
func (s Roles) available(ctx context.Context, roles []trellis.Role, taskAgent, flag string) error {
	seen := map[string]bool{}
	for _, role := range roles {
		c, err := s.Choose(role, taskAgent, flag)
		if err != nil {
			return err
		}
		if seen[c.Agent] {
			continue
		}
		seen[c.Agent] = true
		if err := s.Available(ctx, c.Agent); err != nil {
			return err
		}
	}
	return nil
}
