package terminal_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const (
	plan  flow.Act[agentcall.Request, agentcall.Reply] = "plan"
	judge flow.Act[agentcall.Request, agentcall.Reply] = "judge"
)

// While a planning works, its status shows which agent is asked for which plan, and why it is asked again; afterwards it shows no phase.
// The log shows the reasons too.
func TestPlanningIsShown(t *testing.T) {
	r := reader(t, map[string]string{".new-02-01-auth": `{"title": "Log in", "status": "planning"}`})
	dir := filepath.Join(r.Store.Tasks(), ".new-02-01-auth")
	var during status.Task
	followed := &status.Log{Dir: dir, Decode: decode}
	say := func(text string) func(context.Context, flow.Call, agentcall.Request) (agentcall.Reply, error) {
		return func(_ context.Context, _ flow.Call, q agentcall.Request) (agentcall.Reply, error) {
			v, err := r.Task(dir)
			during = v
			if err == nil {
				_, _, err = followed.Next()
			}
			return agentcall.Reply{Answer: json.RawMessage(text), Usage: trellis.Usage{Seconds: 2}}, err
		}
	}
	run, err := journal.Open(journal.Options{Dir: filepath.Join(dir, "run"), Now: func() time.Time { return noon },
		Activities: []flow.Activity{plan.With(say(`{}`)), judge.With(say(`{"pass": false, "feedback": "step b\nis two"}`))}})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if err := run.Begin(journal.Spec{Run: "02-01-auth/1", Flow: planner.Flow, Code: 1, Input: json.RawMessage("{}")}); err != nil {
		t.Fatal(err)
	}
	_, err = journal.Execute(t.Context(), run, func(f flow.Flow, _ struct{}) (map[string]string, error) {
		for _, q := range []agentcall.Request{request(trellis.Plan, 1, ""), request(trellis.Judge, 1, ""), request(trellis.Plan, 2, "judge, 1 of 2: step b\nis two"), request(trellis.Judge, 2, "")} {
			if _, err := flow.Act[agentcall.Request, agentcall.Reply](q.Role).Do(f, q); err != nil {
				return nil, err
			}
		}
		return map[string]string{"status": "waiting"}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if during.Phase != "judge" || during.Round != 2 {
		t.Errorf("while it planned: got %s, round %d; want judge, round 2", during.Phase, during.Round)
	}
	var shown strings.Builder
	if err := terminal.Show(&shown, during, terminal.Style{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"status    planning (judge, round 2)\n", "last      judge said no (1 of 2): step b is two\n"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("got\n%s\nwant in it\n%s", &shown, want)
		}
	}
	if after, err := r.Task(dir); err != nil || after.Phase != "" {
		t.Errorf("after it: got %s, %v, want no phase", after.Phase, err)
	}
	lines, _, err := (&status.Log{Dir: dir, Decode: decode}).Next()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  plan: mine works\n", "  plan#2: mine works: judge said no (1 of 2): step b is two\n",
		"  judge: done in 0s\n            the plan does not pass: step b is two\n", "  ended after 0s: waiting\n"} {
		if got := text(t, lines); !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant in it\n%s", got, want)
		}
	}

	// A log that is followed continues when the task is published under its final name.
	if err := os.Rename(dir, filepath.Join(r.Store.Tasks(), "02-01-auth")); err != nil {
		t.Fatal(err)
	}
	lines, ended, err := followed.Next()
	if got := text(t, lines); err != nil || !ended || !strings.Contains(got, "ended after") || strings.Contains(got, "plan: mine works") {
		t.Errorf("followed: got %v, %v\n%s", ended, err, got)
	}
}
