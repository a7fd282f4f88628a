package agentcall_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/templates"
)

// silent is an agent that says nothing but this text.
type silent struct{ says string }

func (s silent) Run(context.Context, agents.Request, func(agents.Event)) (*agents.Result, error) {
	return &agents.Result{Text: s.says}, nil
}

// A request names its template, otherwise the template of its role is used. A repair has a template of its own either way.
func TestTemplateOfARequest(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	var rendered []string
	acts := &agentcall.Caller{RunDir: run, Agents: agentcall.Agents{
		Open: func(string) (agents.Agent, error) { return silent{"done"}, nil },
		Render: func(name string, slots map[string]string) (templates.Prompt, error) {
			rendered = append(rendered, name)
			return templates.Prompt{Text: name}, nil
		},
	}, Slots: func(context.Context, flow.Call, agentcall.Request) (map[string]string, []string, error) {
		return nil, nil, nil
	}}
	call := func(id string, r agentcall.Request) (reply agentcall.Reply) {
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		out, err := acts.Activities(r.Role)[0].Run(t.Context(), flow.Call{Run: "t/1", ID: id, Attempt: 1}, raw)
		if err != nil {
			t.Fatal(err)
		}
		return out.(agentcall.Reply)
	}
	first := call("implement#1", agentcall.Request{Role: trellis.Implement})
	step := agentcall.Request{Role: trellis.Implement, Template: "step"}
	call("implement#2", step)
	step.Repair = &agentcall.Repair{Previous: first.Text}
	call("implement#3", step)
	step.Session = "s"
	call("implement#4", step)
	if want := []string{"implement", "step", "step", "repair", "repair"}; !slices.Equal(rendered, want) {
		t.Errorf("got %q, want %q", rendered, want)
	}
}
