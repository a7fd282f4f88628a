package agents_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const play = `
roles:
  evaluate:
    - when: blockchain
      answer: {decision: reject, score: 1}
    - answer: {decision: accept}
  implement:
    - files: {a/b.txt: "one\n"}
      run: ["cat a/b.txt > c.txt; echo $TRELLIS_ROUND >> c.txt"]
      answer: first
    - {files: {a/b.txt: two}, answer: second}
  check:
    - {files: {x: y}, exit: 3}
  debug:
    - run: ["echo no >&2; exit 4"]
  heal:
    - {files: {../out.txt: y}}
  accept:
    - fail: {code: rate_limited, detail: slow down, resume_at: 2040-01-02T15:04:05Z}
  grade:
    - {sleep: 1h, answer: late}
  research:
    - files: {x: y}
  prd:
    - {}
`

// stage is a rehearsal of a script, with a task folder and a working directory.
type stage struct {
	agents.Agent
	task, dir string
}

func newStage(t *testing.T, script string) stage {
	t.Helper()
	s := stage{task: t.TempDir(), dir: t.TempDir()}
	file := filepath.Join(t.TempDir(), "rehearsal.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := agents.New(agents.Rehearsal, agents.Options{Script: file, Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	s.Agent = a
	return s
}

// request returns a request for a new entry of an activity, as a run of the task makes it.
func (s stage) request(t *testing.T, role trellis.Role, activity string) agents.Request {
	t.Helper()
	dir := filepath.Join(s.task, "run", "1", activity)
	entries, _ := filepath.Glob(filepath.Join(dir, "*"))
	dir = filepath.Join(dir, string(rune('1'+len(entries))))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return agents.Request{Role: role, Prompt: "do it", Dir: s.dir, Permission: role.Permission(), RunDir: dir,
		Env: []string{"TRELLIS_TASK_DIR=" + s.task, "TRELLIS_ROUND=2"}}
}

func (s stage) text(t *testing.T, r agents.Request) string {
	t.Helper()
	res, err := s.Run(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res.Text
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRehearsalPlaysTheNthCall(t *testing.T) {
	s := newStage(t, play)
	var events []string
	res, err := s.Run(t.Context(), s.request(t, trellis.Implement, "implement#1"), func(e agents.Event) {
		events = append(events, strings.TrimSpace(string(e.Kind)+" "+e.Input+e.Text))
	})
	if err != nil || res.Text != "first" || res.ToolCalls != 2 {
		t.Fatalf("got %+v, %v", res, err)
	}
	if got, want := read(t, filepath.Join(s.dir, "c.txt")), "one\n2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.Contains(events[0], "no model is involved") || events[len(events)-1] != "result first" {
		t.Errorf("got events %q", events)
	}
	for i, want := range []string{"second", "second"} {
		if got := s.text(t, s.request(t, trellis.Implement, "implement#"+string(rune('2'+i)))); got != want {
			t.Errorf("call %d: got %q, want %q", i+2, got, want)
		}
	}
}

func TestRehearsalEnteredAgainPlaysTheSame(t *testing.T) {
	s := newStage(t, play)
	for range 3 {
		if got := s.text(t, s.request(t, trellis.Implement, "round-1/implement#1")); got != "first" {
			t.Errorf("got %q, want first", got)
		}
	}
	if got := s.text(t, s.request(t, trellis.Implement, "round-2/implement#1")); got != "second" {
		t.Errorf("got %q, want second", got)
	}
	if got := s.text(t, s.request(t, trellis.Evaluate, "evaluate#1")); got != `{"decision":"accept"}` {
		t.Errorf("another role: got %q", got)
	}
	if got := s.text(t, s.request(t, trellis.Implement, "round-1/implement#1")); got != "first" {
		t.Errorf("an old call: got %q, want first", got)
	}
}

func TestRehearsalPicksByPrompt(t *testing.T) {
	s := newStage(t, play)
	for range 2 {
		r := s.request(t, trellis.Evaluate, "evaluate#1")
		r.Prompt = "a blockchain, please"
		res, err := s.Run(t.Context(), r, nil)
		if want := `{"decision":"reject","score":1}`; err != nil || string(res.Answer) != want || res.Text != want {
			t.Errorf("got %+v, %v, want %s", res, err, want)
		}
	}
}

func TestRehearsalFails(t *testing.T) {
	s := newStage(t, play)
	for _, c := range []struct {
		role trellis.Role
		code trellis.Code
		says string
	}{
		{trellis.Check, trellis.AgentExit, "exit 3"},
		{trellis.Debug, trellis.AgentExit, "exit 4: no"},
		{trellis.Accept, trellis.RateLimited, "slow down"},
		{trellis.PRD, trellis.EmptyOutput, "said nothing"},
		{trellis.Grade, trellis.TimeoutWall, "longer than"},
		{trellis.Heal, "", "leads elsewhere"},
		{trellis.Research, "", "permission"},
		{trellis.Plan, trellis.AgentExit, "no call of role plan fits the prompt: add one below roles"},
	} {
		r := s.request(t, c.role, string(c.role)+"#1")
		r.Limits.Wall = time.Second
		_, err := s.Run(t.Context(), r, nil)
		var f *flow.Failure
		if err == nil || errors.As(err, &f) != (c.code != "") || f != nil && f.Code != string(c.code) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %s with %q", c.role, err, c.code, c.says)
		}
		if c.code == trellis.RateLimited && !f.ResumeAt.Equal(time.Date(2040, 1, 2, 15, 4, 5, 0, time.UTC)) {
			t.Errorf("got resume at %s", f.ResumeAt)
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "../out.txt")); err == nil {
		t.Error("a file was written outside of the working directory")
	}
}

func TestRehearsalRefusesWhatItDoesNotKnow(t *testing.T) {
	for script, says := range map[string]string{
		"roles: {implement: [{anwser: x}]}": "anwser",
		"roles: [":                          "rehearsal.yaml:1: ",
	} {
		s := newStage(t, script)
		if _, err := s.Run(t.Context(), s.request(t, trellis.Implement, "implement#1"), nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want an error with %q", script, err, says)
		}
	}
}

func TestRehearsalKeepsItsStream(t *testing.T) {
	s := newStage(t, play)
	r := s.request(t, trellis.Implement, "implement#1")
	s.text(t, r)
	kinds := []string{}
	for line := range strings.Lines(read(t, filepath.Join(r.RunDir, "stream.jsonl"))) {
		kind, _, _ := strings.Cut(strings.TrimPrefix(line, `{"type":"`), `"`)
		kinds = append(kinds, kind)
	}
	if want := []string{"notice", "tool", "tool", "text", "result"}; !slices.Equal(kinds, want) {
		t.Errorf("got %q, want %q", kinds, want)
	}
}
