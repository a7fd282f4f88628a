package outcome

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Scripts rely on the fields of plan --json, and on a value of the right type even if there is nothing to report.
func TestPlanDocument(t *testing.T) {
	var got bytes.Buffer
	if err := terminal.JSON(&got, Planning{Seconds: 2}.Document(".trellis/tasks/02-01-auth")); err != nil {
		t.Fatal(err)
	}
	want := `{"dir":".trellis/tasks/02-01-auth","id":"02-01-auth","status":"","decision":"","category":"","details":"","suggestions":[],` +
		`"size":"","confidence":null,"title":"","goals":0,"steps":0,"taskspec":null,"judge":null,"why":[],"retries":[],"calls":0,"seconds":2,` +
		`"usage":{"input_tokens":0,"output_tokens":0,"cached_tokens":0,"cost_usd":null,"seconds":0},"estimate":null,"files":[],"contexts":{},` +
		`"commands":[],"warnings":[],"skipped":[],"failure":null,"source":null}`
	var flat bytes.Buffer
	if err := json.Compact(&flat, got.Bytes()); err != nil || flat.String() != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, &flat, want)
	}
	end := Planning{PlanResult: runner.PlanResult{Interrupted: true, Report: planner.Report{
		TaskSpec: &planner.Spec{Valid: true, Repaired: true, Goals: 2}, Judge: &planner.Judgement{Pass: true, Rounds: 1}}}}
	d := end.Document(".trellis/tasks/.new-02-01-auth")
	if d.ID != "02-01-auth" || d.Status != trellis.Planning || d.Failure.Code != trellis.Interrupted || d.Goals != 2 ||
		*d.TaskSpec != (planSpec{Valid: true, Repaired: true}) || *d.Judge != (planJudge{Pass: true, Rounds: 1}) {
		t.Errorf("interrupted: got %+v", d)
	}
	end.Interrupted, end.Waits = false, []string{"time"}
	if d := end.Document(".trellis/tasks/.new-02-01-auth"); d.Status != trellis.Planning || d.Failure.Code != trellis.RateLimited {
		t.Errorf("rate limited: got %+v", d)
	}
	end.Waits, end.Failure = nil, flow.Fail("agent_protocol", "prose")
	if d := end.Document(".trellis/tasks/02-01-auth"); d.Failure.Code != trellis.AgentProtocol || d.Failure.Detail != "prose" {
		t.Errorf("failed: got %+v", d)
	}
}

// A cost that no agent reported is unknown, not zero.
func TestSpent(t *testing.T) {
	cost := 0.126
	end := Planning{Seconds: 61.04}
	end.Report.Calls, end.Report.Usage = 1, trellis.Usage{InputTokens: 1200, Seconds: 90}
	if got, want := usageWords(end), "1 call in 61.0s, agents' time 90.0s, 1.2k tokens, cost unknown"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	end.Report.Usage.CostUSD = &cost
	if got := usageWords(end); !strings.HasSuffix(got, ", $0.13") {
		t.Errorf("got %q", got)
	}
	earlier := 0.1
	end.Before = trellis.Usage{InputTokens: 1000, Seconds: 80, CostUSD: &earlier}
	if got, want := usageWords(end), "1 call in 61.0s, agents' time 10.0s, 200 tokens, $0.03; the task in all: 1.2k tokens, $0.13, 1m30s"; got != want {
		t.Errorf("planned again: got %q, want %q", got, want)
	}
}

// A planning that used up a limit would use it up again: the next step is to raise the limit.
func TestPlanningOverItsBudget(t *testing.T) {
	for code, want := range map[trellis.Code]string{
		trellis.BudgetCost:    "raise the limit that it names in .trellis/config.yaml; then trellis plan --retry x",
		trellis.BudgetTime:    "raise the limit that it names in .trellis/config.yaml; then trellis plan --retry x",
		trellis.AgentProtocol: "trellis logs .new-x, trellis plan --retry x",
	} {
		end := Planning{PlanResult: runner.PlanResult{Dir: ".trellis/tasks/.new-x", Failure: flow.Fail(string(code), "it ended")}}
		if got := strings.Join(app.HintsOf(end.ExitError("trellis plan --retry x")), ", "); got != want {
			t.Errorf("after %s: %s, want %s", code, got, want)
		}
	}
}
