package pipeline

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// reported returns the report.md of a run whose plan has a prompt step and a step that verifies it.
func reported(r Report, code int, calls ...journal.Entry) string {
	if r.Outcome == "" {
		r.Outcome = trellis.OutcomeFailed
	}
	p := &plan.Plan{Steps: []plan.Step{{ID: "add_flag", Prompt: "Add it."}, {ID: "run_tests", Command: "make test", Proof: &plan.Proof{Type: "test"}}}}
	return page(concludeIn{Task: "02-01-bye", Job: Job{Verify: []string{"make test"}}, Report: r}, &journal.History{Code: code, Calls: calls}, p, "")
}

// The report counts steps by state, lists those that did not end well with their causes, and says what is proven.
func TestReportOfSteps(t *testing.T) {
	steps := workflow.Report{Steps: 6, Done: 2, Skipped: 1, Failed: 1, Blocked: 1, Tolerate: 1, Worst: []workflow.Outcome{
		{Path: "lint", State: workflow.Failed, Code: 3, Detail: "its command exited with 3", Tolerated: true},
		{Path: "each.2.build", State: workflow.Failed, Code: 124, Detail: "its check | took longer\nthan its time limit"},
		{Path: "publish", State: workflow.Blocked, Detail: "blocked by each, which failed"}}}
	for name, c := range map[string]struct {
		report Report
		code   int
		want   []string // texts in the report; "!" marks a text that must not be in it
	}{
		"failed": {Report{Steps: steps}, 2, []string{
			"## Steps\n\n| Done | Failed | Blocked | Let pass | Skipped |\n| --- | --- | --- | --- | --- |\n| 2 | 1 | 1 | 1 | 0 |\n",
			"| lint | failed, let pass | 3 | its command exited with 3 |\n", "| each.2.build | failed | 124 | its check \\| took longer than its time limit |\n",
			"| publish | blocked |  | blocked by each, which failed |\n", "`trellis verify 02-01-bye` names what is proven", "!Nothing was executed", "!more |"}},
		"delivered": {Report{Outcome: trellis.Delivered, Steps: workflow.Report{Steps: 2, Done: 1, Skipped: 1}, Proofs: "sha256:abc"}, 2, []string{
			"| 1 | 0 | 0 | 0 | 0 |\n\nAll that has a check is proven. The head of proofs.jsonl is `sha256:abc`; `trellis verify 02-01-bye` checks", "!| Step |"}},
		"many failed":         {Report{Steps: workflow.Report{Steps: 9, Failed: 9, Worst: steps.Worst[1:2]}}, 2, []string{"| and 8 more | | | |\n"}},
		"loops without items": {Report{Steps: workflow.Report{Steps: 2, Done: 2, Empty: []string{"each", "o.1.i"}}}, 2, []string{"Loops without items, for which nothing was done: each, o.1.i.\n"}}, // edge C11
		"none left":           {Report{Implemented: "x"}, 2, []string{"An earlier run did the steps of the plan.", "!| Done |"}},
		"never reached":       {Report{}, 2, []string{"!## Steps"}},
		"of an older binary":  {Report{Implemented: "x"}, 1, []string{"!## Steps"}},
	} {
		got := reported(c.report, c.code)
		for _, want := range c.want {
			if bare, not := strings.CutPrefix(want, "!"); strings.Contains(got, bare) == not {
				t.Errorf("%s: holds %q: %v\n%s", name, bare, not, got)
			}
		}
	}
}

// The table of phases has a row for each agent call of a step, and for each command of a step that failed.
func TestReportedPhases(t *testing.T) {
	entry := func(id, activity, out string) journal.Entry {
		return journal.Entry{ID: id, Activity: activity, Done: true, Out: json.RawMessage(out)}
	}
	got := reported(Report{}, 2, entry("steps/step-a/begin#1", "begin", `{}`), entry("steps/step-a/implement#1", "implement", `{}`), entry("steps/step-a/script#1", "script", `{"command": "x", "code": 7}`),
		entry("steps/step-a/script#2", "script", `{"command": "x", "code": 0}`), entry("steps/step-a/proof#1", "proof", `{"hash": "h"}`), entry("steps/step-a/end#1", "end", `{}`), entry("round-1/verify#1", "verify", `{}`))
	_, table, _ := strings.Cut(got, "## Phases\n")
	for _, want := range []string{"| steps/step-a/implement#1 |", "| steps/step-a/script#1 | 0001-01-01 00:00:00 | 0.0 | exit 7: `x` |", "| round-1/verify#1 |"} {
		if !strings.Contains(table, want) {
			t.Errorf("lacks %q\n%s", want, table)
		}
	}
	if n := strings.Count(table, "\n| "); n != 5 {
		t.Errorf("%d lines\n%s", n, table)
	}
}

// "Nothing was executed" is not reported if there are commands that decide, but the run ended before them.
func TestReportOfNothingExecuted(t *testing.T) {
	for want, in := range map[bool]concludeIn{
		true:  {Job: Job{}},
		false: {Job: Job{Verify: []string{"make"}}},
	} {
		in.Report.Outcome = trellis.OutcomeFailed
		if got := strings.Contains(page(in, &journal.History{}, nil, ""), "Nothing was executed"); got != want {
			t.Errorf("%+v: %v", in.Job.Verify, got)
		}
	}
}

// "Nothing was executed" is not reported if all commands ran but are forgiven.
func TestReportOfForgivenChecks(t *testing.T) {
	in := concludeIn{Job: Job{Verify: []string{"make"}}, Report: Report{Outcome: trellis.Delivered, Checks: Checks{Results: []CommandResult{{Command: "make", Code: 2, Forgiven: true}}}}}
	got := page(in, &journal.History{}, nil, "")
	if want := "**No command decided**: all that check it failed before the work too, and are forgiven. The verdict is the agents' own.\n"; !strings.Contains(got, want) || strings.Contains(got, "Nothing was executed") {
		t.Errorf("got no %q in\n%s", want, got)
	}
}

// The report says how many calls of agents and commands ran in the sandbox.
func TestReportedSandbox(t *testing.T) {
	entry := func(activity, out string) journal.Entry {
		return journal.Entry{ID: activity + "#1", Activity: activity, Done: true, Out: json.RawMessage(out)}
	}
	calls := []journal.Entry{entry("implement", `{"sandbox": "bubblewrap 1.0"}`), entry("verify", `{"results": [{"command": "a", "sandbox": "bubblewrap 1.0"}, {"command": "b"}]}`),
		entry("script", `{"command": "x", "sandbox": "bubblewrap 1.0"}`), entry("begin", `{}`)}
	if got, want := reported(Report{}, 2, calls...), "- Sandbox: bubblewrap 1.0, 3 of 4 calls of agents and commands\n"; !strings.Contains(got, want) {
		t.Errorf("got no %q in\n%s", want, got)
	}
	if got := reported(Report{}, 2, entry("implement", `{}`)); strings.Contains(got, "Sandbox") {
		t.Errorf("got a sandbox:\n%s", got)
	}
}

// Edge C5: a run that was never claimed has no title, so its report is headed by the task's name.
func TestReportWithoutATitle(t *testing.T) {
	for title, want := range map[string]string{"": "# Report: 02-01-bye\n", "Say bye": "# Report: Say bye\n"} {
		if got := page(concludeIn{Task: "02-01-bye", Job: Job{Title: title}, Report: Report{Outcome: trellis.OutcomeFailed}}, &journal.History{}, nil, ""); !strings.HasPrefix(got, want) {
			t.Errorf("got %.40q", got)
		}
	}
}

// The usage in the rows of calls adds up to the usage of the run: failed calls show theirs too, as do calls that report only a cost.
func TestReportedUse(t *testing.T) {
	entry := func(id, out string) journal.Entry {
		return journal.Entry{ID: id, Activity: "implement", Done: true, Out: json.RawMessage(out)}
	}
	got := reported(Report{}, 2, entry("implement#1", `{"failure": {"code": "agent_exit"}, "usage": {"input_tokens": 900, "cost_usd": 0.5}}`),
		entry("implement#2", `{"problems": ["/x: is missing"], "usage": {"input_tokens": 10}}`), entry("implement#3", `{"usage": {"cost_usd": 0.25}}`), entry("implement#4", `{"failure": {"code": "budget_tokens"}}`))
	for _, want := range []string{"| agent_exit, 900 tokens, $0.50 |", "| invalid answer: /x: is missing, 10 tokens, cost unknown |", "| done, 0 tokens, $0.25 |", "| budget_tokens |"} {
		if !strings.Contains(got, want) {
			t.Errorf("got no %q in\n%s", want, got)
		}
	}
}
