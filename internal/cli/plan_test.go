package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/terminal"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Scripts rely on the fields of plan --json, and on a value of every type also when there is nothing to say.
func TestPlanDocument(t *testing.T) {
	var got bytes.Buffer
	if err := terminal.JSON(&got, document(".trellis/tasks/02-01-auth", planEnd{seconds: 2})); err != nil {
		t.Fatal(err)
	}
	want := `{"dir":".trellis/tasks/02-01-auth","id":"02-01-auth","status":"","decision":"","category":"","details":"","suggestions":[],` +
		`"size":"","confidence":null,"title":"","goals":0,"steps":0,"taskspec":null,"judge":null,"why":[],"retries":[],"calls":0,"seconds":2,` +
		`"usage":{"input_tokens":0,"output_tokens":0,"cached_tokens":0,"cost_usd":null,"seconds":0},"files":[],"contexts":{},` +
		`"commands":[],"warnings":[],"skipped":[],"failure":null}`
	var flat bytes.Buffer
	if err := json.Compact(&flat, got.Bytes()); err != nil || flat.String() != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, &flat, want)
	}
	end := planEnd{PlanResult: runner.PlanResult{Interrupted: true, Report: planner.Report{
		TaskSpec: &planner.Spec{Valid: true, Repaired: true, Goals: 2}, Judge: &planner.Judgement{Pass: true, Rounds: 1}}}}
	d := document(".trellis/tasks/.new-02-01-auth", end)
	if d.ID != "02-01-auth" || d.Status != trellis.Planning || d.Failure.Code != trellis.Interrupted || d.Goals != 2 ||
		*d.TaskSpec != (planSpec{Valid: true, Repaired: true}) || *d.Judge != (planJudge{Pass: true, Rounds: 1}) {
		t.Errorf("interrupted: got %+v", d)
	}
	end.Interrupted, end.Waits = false, []string{"time"}
	if d := document(".trellis/tasks/.new-02-01-auth", end); d.Status != trellis.Planning || d.Failure.Code != trellis.RateLimited {
		t.Errorf("rate limited: got %+v", d)
	}
	end.Waits, end.Failure = nil, flow.Fail("agent_protocol", "prose")
	if d := document(".trellis/tasks/02-01-auth", end); d.Failure.Code != trellis.AgentProtocol || d.Failure.Detail != "prose" {
		t.Errorf("failed: got %+v", d)
	}
}

// A cost that nobody told is unknown, not free.
func TestSpent(t *testing.T) {
	cost := 0.126
	end := planEnd{seconds: 61.04}
	end.Report.Calls, end.Report.Usage = 1, trellis.Usage{InputTokens: 1200, Seconds: 90}
	if got, want := spent(end), "1 call in 61.0s, agents' time 90.0s, 1.2k tokens, cost unknown"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	end.Report.Usage.CostUSD = &cost
	if got := spent(end); !strings.HasSuffix(got, ", $0.13") {
		t.Errorf("got %q", got)
	}
	earlier := 0.1
	end.Before = trellis.Usage{InputTokens: 1000, Seconds: 80, CostUSD: &earlier}
	if got, want := spent(end), "1 call in 61.0s, agents' time 10.0s, 200 tokens, $0.03; the task in all: 1.2k tokens, $0.13, 1m30s"; got != want {
		t.Errorf("planned again: got %q, want %q", got, want)
	}
}

// A planning is told of by its calls, under the name that the task has in the end.
func TestPlanningInFile(t *testing.T) {
	var out bytes.Buffer
	a := &console{Console: command.Console{Stderr: &out, Now: func() time.Time { return time.Unix(0, 0) }}}
	s := &runner.Site{Config: &config.Config{}}
	p := showProgress(&a.Console, s, false)
	event := runner.Event{Task: ".new-02-01-auth", Role: trellis.Evaluate, Call: "evaluate#1"}
	for _, change := range []func(*runner.Event){
		func(e *runner.Event) { e.Asked = &agentcall.Request{Role: trellis.Evaluate} },
		func(e *runner.Event) { e.Agent = agents.Event{Kind: agents.EventTool, Tool: "read", Input: "x"} },
		func(e *runner.Event) {
			e.Reply = &agentcall.Reply{Answer: json.RawMessage(`{"decision": "accept", "size": "tiny"}`)}
		},
	} {
		e := event
		change(&e)
		s.Event(e)
	}
	p.close()
	want := "trellis: 02-01-auth: evaluate\ntrellis: 02-01-auth: evaluate done in 0.0s · accept, tiny · 1 tool call\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The stages ahead are those that flags and settings leave.
func TestStages(t *testing.T) {
	for want, c := range map[string]struct {
		taskspec, judge bool
		o               runner.PlanOptions
	}{
		"evaluate|research taskspec|plan|judge": {true, true, runner.PlanOptions{}},
		"evaluate|research|plan|judge":          {true, true, runner.PlanOptions{NoTaskSpec: true}},
		"evaluate|research|plan":                {false, false, runner.PlanOptions{}},
		"evaluate|research|prd":                 {true, true, runner.PlanOptions{Quick: true}},
	} {
		var list []string
		for _, stage := range stages(config.Planning{TaskSpec: c.taskspec, Judge: c.judge}, c.o) {
			var names []string
			for _, role := range stage {
				names = append(names, string(role))
			}
			list = append(list, strings.Join(names, " "))
		}
		if got := strings.Join(list, "|"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
