package pipeline_test

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Debug gets people's feedback on the work once, before the first check, whatever state the run finds the work in.
func TestFlowHeedsFeedback(t *testing.T) {
	t.Parallel()
	reviewed := &pipeline.Report{Content: "h1", Commit: "c0", Checks: pipeline.Checks{Tree: "t2"}}
	for name, c := range map[string]struct {
		in     pipeline.Input
		change map[string][]any
		calls  string
		status trellis.Status
		code   trellis.Code
		commit string
	}{
		"work that was done":    {in: pipeline.Input{Begun: true, Implemented: "h1"}, calls: "baseline observe debug observe " + round + " report", status: trellis.Review, commit: "c1"},
		"work that is not done": {in: pipeline.Input{Begun: true}, calls: "baseline observe debug observe implement " + round + " report", status: trellis.Review, commit: "c1"},
		"no work yet":           {calls: "baseline observe implement observe debug " + round + " report", status: trellis.Review, commit: "c1"},
		"work that is lost": {in: pipeline.Input{Begun: true, Implemented: "h1"}, change: map[string][]any{"prepare": {`{"lost": true}`}},
			calls: "baseline observe implement observe debug " + round + " report", status: trellis.Review, commit: "c1"},
		"work in review, which passes all checks": {in: pipeline.Input{Begun: true, Implemented: "h1", Undelivered: reviewed},
			calls: "baseline observe debug observe " + round + " report", status: trellis.Review, commit: "c1"},
		"work in review, of which nothing comes": {in: pipeline.Input{Begun: true, Implemented: "h1", Undelivered: reviewed}, change: map[string][]any{"verify": {red}},
			calls: "baseline observe debug observe observe check verify observe debug observe check verify report", status: trellis.Review, code: trellis.NoProgress, commit: "c0"},
		"work that failed, of which nothing comes": {in: pipeline.Input{Begun: true, Implemented: "h1"}, change: map[string][]any{"verify": {red}},
			calls: "baseline observe debug observe observe check verify observe debug observe check verify report", status: trellis.Failed, code: trellis.NoProgress},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &scripted{T: t, Results: well()}
			maps.Copy(p.Results, c.change)
			in := c.in
			in.Task, in.Code, in.Feedback = "02-01-bye", pipeline.Code, &pipeline.Feedback{Said: []agentcall.Ref{{Path: "feedback/2.md", SHA256: "5a1d"}}}
			_, err := pipeline.Run(nil)(p.Flow(), in)
			if got, want := strings.Join(p.Names("status"), " "), "claim prepare "+c.calls; got != want {
				t.Errorf("called\n     %s\nwant %s", got, want)
			}
			if fail := (*flow.Failure)(nil); errors.As(err, &fail) != (c.code != "") || fail != nil && fail.Code != string(c.code) {
				t.Errorf("it ended with %v, want %q", err, c.code)
			}
			var told pipeline.TaskState
			if p.Last("status", &told); told.Status != c.status || told.Commit != c.commit {
				t.Errorf("task.json says %s, %q", told.Status, told.Commit)
			}
			if c.code != "" {
				return
			}
			var asked struct {
				Data any `json:"data"`
			}
			if p.Last("debug", &asked); strings.Count(compact(t, asked.Data), `"path":"feedback/2.md"`) != 1 {
				t.Errorf("debug is told %s", compact(t, asked.Data))
			}
			var made struct{ Seen, Why string }
			if p.Last("commit", &made); (made.Seen == "c0") != (c.in.Undelivered != nil) || (made.Why == "changes_requested") != (c.in.Undelivered != nil) {
				t.Errorf("the commit is made of %+v", made)
			}
		})
	}
}

// The next run gets the feedback again unless a debug agent was given it and ended well.
func TestFeedbackIsToldOnce(t *testing.T) {
	t.Parallel()
	said := []agentcall.Ref{{Path: "feedback/2.md", SHA256: "5a1d"}}
	in, err := json.Marshal(pipeline.Input{Code: pipeline.Code, Task: "02-01-bye", Feedback: &pipeline.Feedback{Said: said}})
	if err != nil {
		t.Fatal(err)
	}
	const told, other = `{"data": {"trouble": {"code": "changes_requested", "feedback": [{"path": "feedback/2.md"}]}}}`, `{"data": {"trouble": {"code": "verify_failed"}}}`
	for name, c := range map[string]struct {
		call  journal.Entry
		again bool
	}{
		"told":                     {journal.Entry{Activity: "debug", Done: true, In: json.RawMessage(told), Out: json.RawMessage(`{"text": {"bytes": 4}}`)}, false},
		"the agent failed":         {journal.Entry{Activity: "debug", Done: true, In: json.RawMessage(told), Out: json.RawMessage(`{"failure": {"code": "agent_exit"}}`)}, true},
		"cut off":                  {journal.Entry{Activity: "debug", In: json.RawMessage(told)}, true},
		"told of something else":   {journal.Entry{Activity: "debug", Done: true, In: json.RawMessage(other), Out: json.RawMessage(`{"text": {"bytes": 4}}`)}, true},
		"another role was at work": {journal.Entry{Activity: "implement", Done: true, In: json.RawMessage(`{"data": {}}`), Out: json.RawMessage(`{"text": {"bytes": 4}}`)}, true},
	} {
		p, err := pipeline.ReadProgress(&journal.History{Run: "02-01-bye/2", Flow: pipeline.Flow, Input: in, Calls: []journal.Entry{c.call}})
		if err != nil || (p.Feedback != nil) != c.again {
			t.Errorf("%s: left is %+v, %v", name, p.Feedback, err)
		}
	}
}
