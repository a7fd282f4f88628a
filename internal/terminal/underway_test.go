package terminal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	files "github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// stepping is a task whose run executes the steps of a plan.
type stepping struct {
	*testing.T
	status.Reader
	dir    string
	bundle *files.Bundle
	during func() // called while an agent works
}

const steppingPlan = `{"schema_version": 1, "title": "Log in", "vars": {"who": "Ada"}, "steps": [
 {"id": "form", "title": "Make the form", "prompt": "Make the form\nfor {{who}}.", "verify": "test -f form"},
 {"id": "each", "for_each": ["a", "b"], "command": "echo {{item}}; test {{item}} = a", "continue_on_error": true},
 {"id": "ask", "type": "approval", "title": "Shall it go out?"},
 {"id": "publish", "command": "true"},
 {"id": "run_tests", "command": "make test", "proof": {"type": "test"}}],
 "acceptance": [{"criterion": "it is there"}]}`

func newStepping(t *testing.T) *stepping {
	t.Helper()
	s := &stepping{T: t, Reader: reader(t, map[string]string{"02-01-auth": `{"title": "Log in", "status": "in_progress", "pipeline": {"phase": "implement", "round": 1}}`})}
	s.dir = filepath.Join(s.Store.Tasks(), "02-01-auth")
	var problems []trellis.Problem
	s.bundle, problems = files.Load(files.LoadOptions{File: "plan.json", Task: true, Read: func(string) ([]byte, error) { return []byte(steppingPlan), nil }})
	if s.bundle == nil {
		t.Fatal(problems)
	}
	if err := s.bundle.Save(filepath.Join(s.dir, "run", "inputs", s.bundle.Hash), nil); err != nil {
		t.Fatal(err)
	}
	return s
}

type noProver struct{}

func (noProver) Prove(context.Context, string, workflow.Evidence) (string, error) {
	return "sha256:1", nil
}

// run begins the run, or resumes it, until it ends or waits.
func (s *stepping) run() {
	s.Helper()
	work := s.T.TempDir()
	acts := &workflow.Effects{Dir: work, RunDir: filepath.Join(s.dir, "run"), Env: []string{"PATH=" + os.Getenv("PATH")}, Prover: noProver{},
		Bundle: func(string) (*files.Bundle, error) { return s.bundle, nil },
		Decide: func(q workflow.Request) (workflow.Answer, error) {
			return workflow.FindDecision(nil, s.dir, q, nil, noon)
		}}
	agent := func(_ context.Context, c flow.Call, _ agentcall.Request) (agentcall.Reply, error) {
		if s.during != nil {
			s.during()
		}
		return agentcall.Reply{Usage: trellis.Usage{Seconds: 2}}, os.WriteFile(filepath.Join(work, "form"), nil, 0o666)
	}
	j, err := journal.Open(journal.Options{Dir: acts.RunDir, Now: func() time.Time { return noon }, Activities: append(acts.Activities(), implement.With(agent)),
		Mailbox: func() []journal.Message {
			if _, err := os.Stat(filepath.Join(s.dir, "approvals.jsonl")); err != nil {
				return nil
			}
			return []journal.Message{{ID: "1", Signal: workflow.Signal("ask")}}
		}})
	if err != nil {
		s.Fatal(err)
	}
	defer j.Close()
	if j.History().Empty() {
		if err := j.Begin(journal.Spec{Run: "02-01-auth/1", Flow: pipeline.Flow, Code: pipeline.Code, Input: json.RawMessage("{}")}); err != nil {
			s.Fatal(err)
		}
	}
	host := workflow.Host{
		Ask: func(f flow.Flow, q workflow.Question) (agentcall.Reply, error) {
			data, err := agentcall.Encode(q.Data)
			if err != nil {
				return agentcall.Reply{}, err
			}
			return implement.Do(f, agentcall.Request{Role: q.Role, Agent: "mine", Data: data})
		},
		Wait: func(f flow.Flow, q workflow.Request) error { return workflow.AwaitApproval(f, q, nil, nil) }}
	_, err = journal.Execute(s.Context(), j, func(f flow.Flow, _ struct{}) (workflow.Report, error) {
		return workflow.Run(f.In("steps"), s.bundle, host, workflow.Options{Serial: true, Verified: true})
	})
	if err != nil && !errors.As(err, new(*journal.Parked)) {
		s.Fatal(err)
	}
}

// shows checks that the status of the task contains these lines, and returns the task.
func (s *stepping) shows(when string, want ...string) status.Task {
	s.Helper()
	task, err := s.Task(s.dir)
	if err != nil {
		s.Fatal(err)
	}
	var b bytes.Buffer
	if err := terminal.Show(&b, task, terminal.Style{}); err != nil {
		s.Fatal(err)
	}
	for _, line := range want {
		if !strings.Contains(b.String(), line) {
			s.Errorf("%s: got\n%s\nwant %q", when, b.String(), line)
		}
	}
	return task
}

func (s *stepping) status(status string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "task.json"), []byte(`{"title": "Log in", "status": "`+status+`", "pipeline": {"phase": "implement"}}`), 0o666); err != nil {
		s.Fatal(err)
	}
}

// The status shows how many steps are done and which one is at work, or which step the run waits for.
func TestStepsAreShown(t *testing.T) {
	s := newStepping(t)
	s.during = func() {
		if got := s.shows("at work", "  steps     0 of 4 done, now form\n").Steps; got != (status.StepProgress{At: "form", Of: 4}) {
			t.Errorf("at work: %+v", got)
		}
	}
	s.shows("before", "  status    in_progress (implement, round 1)\n  since     2026-02-03T12:00:00Z\n  branch")
	s.run()
	s.status("waiting")
	waiting := s.shows("waiting", "  steps     1 of 4 done, ask waits for people\n", "  waits for approval of step ask: Shall it go out?\n")
	if waiting.Steps != (status.StepProgress{At: "ask", Waits: true, Done: 1, Of: 4}) {
		t.Errorf("waiting: %+v", waiting.Steps)
	}
	if list, err := s.Tasks(status.Filter{}); err != nil || len(list) != 1 || list[0].WaitingFor != "approval of step ask: Shall it go out?" {
		t.Errorf("listed: %+v, %v", list, err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "approvals.jsonl"), []byte(`{"step": "ask", "decision": "approve", "by": "ann"}`+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if task := s.shows("decided", "  waits for start\n"); task.Steps.Waits {
		t.Errorf("decided: %+v", task.Steps)
	}
	s.run()
	s.status("review")
	if task := s.shows("over"); task.Steps != (status.StepProgress{}) {
		t.Errorf("over: %+v", task.Steps)
	}
}

// The log of a run shows for each step what the agent was asked, which commands ran, and what people are asked.
func TestLogOfSteps(t *testing.T) {
	s := newStepping(t)
	s.run()
	lines, _, err := (&status.Log{Dir: s.dir, Decode: decode}).Next()
	if err != nil {
		t.Fatal(err)
	}
	got := text(t, lines)
	for _, want := range []string{
		"  step form, prompt: Make the form\n",
		"    form/implement: mine works: Make the form for Ada.\n",
		"    form/implement: done in 0s\n              0 tokens, cost unknown, 2s\n",
		"    form/script: done in 0s\n              test -f form: passed (0s)\n",
		"  step form: done (0s)\n",
		"  step each, script\n",
		"  step each.2, script, 2 of 2\n",
		"    each.2/script: done in 0s\n              echo b; test b = a: exit 1 (0s)\n                b\n",
		"  step each.2: failed: its command exited with 1 (0s)\n",
		"    ask waits for people: Shall it go out?\n",
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("got\n%s\nwant once\n%s", got, want)
		}
	}
	if strings.Contains(got, "/begin") || strings.Contains(got, "/end") || strings.Contains(got, "proof") {
		t.Errorf("it tells of the books:\n%s", got)
	}
	only, _, err := (&status.Log{Dir: s.dir, Decode: decode, Phase: "implement"}).Next()
	if got := text(t, only); err != nil || !strings.Contains(got, "form/implement: mine works") || strings.Contains(got, "step ") {
		t.Errorf("one phase: %v\n%s", err, got)
	}
	for _, l := range lines {
		if l.ID == "steps/step-each/item-2/script#1" && l.Step != "each.2" {
			t.Errorf("it belongs to %q", l.Step)
		}
	}
}
