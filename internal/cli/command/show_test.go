package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// work sends a site the events of a short run.
func work(s *runner.Site) {
	s.Event(runner.Event{Task: "02-01-auth", State: &pipeline.TaskState{Status: trellis.InProgress, Phase: "check", Round: 2, Usage: trellis.Usage{InputTokens: 1000}}})
	s.Event(runner.Event{Task: "02-01-auth", Role: trellis.Check, Call: "round-2/check#1", Agent: agents.Event{Kind: agents.EventUsage, Usage: &trellis.Usage{InputTokens: 500}}})
	s.Event(runner.Event{Task: "02-01-auth", Role: trellis.Check, Call: "round-2/check#1", Agent: agents.Event{Kind: agents.EventTool, Tool: "edit", Input: "main.go"}})
	s.Event(runner.Event{Task: "02-01-auth", State: &pipeline.TaskState{Status: trellis.Review}})
	s.Event(runner.Event{Task: "02-01-auth", Told: &events.Event{Kind: events.Ended, Outcome: &events.Outcome{Status: trellis.Review, Seconds: 63, Rounds: 2, Usage: trellis.Usage{InputTokens: 1500}, Stat: "M main.go +3 -1\n", Met: 1, Criteria: 1}}})
}

// On a terminal one line shows phase, time and tokens, and is overwritten.
func TestProgressInTerminal(t *testing.T) {
	screen, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 10, Cols: 72}); err != nil {
		t.Fatal(err)
	}
	shown := make(chan string)
	go func() {
		var all bytes.Buffer
		for in := bufio.NewReader(screen); ; {
			line, err := in.ReadString('\n')
			all.WriteString(line)
			if err != nil || strings.Contains(line, "over") {
				shown <- all.String()
				return
			}
		}
	}()
	began := time.Now()
	a := &Console{Stderr: tty, Env: []string{"TERM=xterm"}, Now: func() time.Time { return began }}
	s := &runner.Site{}
	p := a.Show(s, false)
	work(s)
	p.Close()
	a.Say("over")
	tty.Close()
	const over = "trellis: 02-01-auth: review in 1m3s · 2 rounds · 1.5k tokens · 1 file +3 -1 · 1 of 1 criteria met\n"
	got := strings.ReplaceAll(<-shown, "\r\n", "\n")
	for _, want := range []string{
		"02-01-auth  ▰▰▰▱▱▱▱ check 2 · 0s · 1.0k\n",
		"\r\x1b[1A\x1b[J" + over,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want in it %q", got, want)
		}
	}
	if !strings.HasSuffix(got, over+"trellis: over\n") {
		t.Errorf("got %q, want nothing of ours left at the end", got)
	}
}

// Without a terminal each event is a line. With quiet only messages of the run are printed.
func TestProgressInFile(t *testing.T) {
	for quiet, want := range map[bool]string{
		false: "trellis: 02-01-auth: check, round 2\ntrellis: 02-01-auth: review in 1m3s · 2 rounds · 1.5k tokens · 1 file +3 -1 · 1 of 1 criteria met\ntrellis: queued\n",
		true:  "trellis: queued\n",
	} {
		var out bytes.Buffer
		a := &Console{Stderr: &out, Env: os.Environ(), Now: time.Now}
		s := &runner.Site{}
		p := a.Show(s, quiet)
		work(s)
		s.Event(runner.Event{Message: "queued"})
		p.Close()
		if got := out.String(); got != want {
			t.Errorf("quiet %v: got %q, want %q", quiet, got, want)
		}
	}
}

func TestColour(t *testing.T) {
	screen, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	defer tty.Close()
	for env, want := range map[string]bool{"TERM=xterm": true, "TERM=dumb": false, "NO_COLOR=1": false} {
		if got := (&Console{Env: []string{env}}).Colour(tty); got != want {
			t.Errorf("%s: got %v, want %v", env, got, want)
		}
	}
	if (&Console{}).Colour(&bytes.Buffer{}) {
		t.Error("a file got colours")
	}
}

// Edge A11: a run or planning that waits says until when, even if the provider named no time.
func TestProgressSaysUntilWhen(t *testing.T) {
	now := time.Date(2026, 2, 3, 10, 0, 0, 0, time.Local)
	limit := &flow.Failure{Code: string(trellis.RateLimited), Detail: "slow down", ResumeAt: now.Add(5 * time.Minute)}
	var out bytes.Buffer
	a := &Console{Stderr: &out, Now: func() time.Time { return now }}
	s := &runner.Site{}
	p := a.Show(s, false)
	call := func(f *flow.Failure) {
		s.Event(runner.Event{Task: "02-01-auth", Call: "plan#1", Asked: &agentcall.Request{Role: trellis.Plan, Agent: "mine"}})
		s.Event(runner.Event{Task: "02-01-auth", Call: "plan#1", Reply: &agentcall.Reply{Failure: f}})
	}
	s.Event(runner.Event{Task: "02-01-auth", State: &pipeline.TaskState{Status: trellis.Paused, Failure: limit, ResumeAt: limit.ResumeAt}})
	call(limit)
	call(flow.Fail(string(trellis.ProviderDown), "529"))
	p.Close()
	for _, want := range []string{
		"02-01-auth: paused: rate_limited: slow down; continues at 2026-02-03 10:05:00 (in 5m0s)\n",
		"02-01-auth: plan: rate_limited: slow down; continues at 2026-02-03 10:05:00 (in 5m0s)\n",
		"02-01-auth: plan: provider_unavailable: 529; it is asked again within five minutes\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %q, want %q in it", out.String(), want)
		}
	}
}

// The calls of a planning are shown under the name that its task finally gets.
func TestPlanningInFile(t *testing.T) {
	var out bytes.Buffer
	a := &Console{Stderr: &out, Now: func() time.Time { return time.Unix(0, 0) }}
	s := &runner.Site{Config: &config.Config{}}
	p := a.Show(s, false)
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
	p.Close()
	want := "trellis: 02-01-auth: evaluate\ntrellis: 02-01-auth: evaluate done in 0.0s · accept, tiny · 1 tool call\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
