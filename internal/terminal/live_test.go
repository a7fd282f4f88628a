package terminal_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// screen is a terminal that understands what Live sends: move the cursor up, and clear everything below.
type screen struct {
	mu    sync.Mutex
	lines []string
}

func (s *screen) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := string(data)
	if up := 0; strings.HasPrefix(text, "\r\x1b[") {
		if _, err := fmt.Sscanf(text, "\r\x1b[%dA\x1b[J", &up); err != nil {
			return 0, err
		}
		s.lines = s.lines[:len(s.lines)-up]
		_, text, _ = strings.Cut(text, "\x1b[J")
	}
	if text != "" {
		s.lines = append(s.lines, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
	}
	return len(data), nil
}

func (s *screen) want(t *testing.T, lines ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got, want := strings.Join(s.lines, "\n"), strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// telling sends events to a Live.
type telling struct{ *terminal.Live }

func show(w io.Writer, style terminal.Style, isTerminal bool) telling {
	return telling{terminal.NewLive(w, style, isTerminal, time.Now)}
}

func (t telling) phase(task, phase string, round int, used trellis.Usage) {
	t.ShowRunnerEvent(runner.Event{Task: task, State: &pipeline.TaskState{Status: trellis.InProgress, Phase: phase, Round: round, Usage: used}})
}

func (t telling) agent(task, id string, e agents.Event) {
	t.ShowRunnerEvent(runner.Event{Task: task, Call: id, Agent: e})
}

func (t telling) step(task string, e workflow.Event) {
	t.ShowRunnerEvent(runner.Event{Task: task, Step: &e})
}

func (t telling) asked(task, id string, r agentcall.Request) {
	t.ShowRunnerEvent(runner.Event{Task: task, Call: id, Asked: &r})
}

func (t telling) replied(task, id string, r agentcall.Reply) {
	t.ShowRunnerEvent(runner.Event{Task: task, Call: id, Reply: &r})
}

func TestProgressOnTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		p := show(s, terminal.Style{Width: 76}, true)
		cost := 0.25
		p.phase("02-01-auth", "implement", 1, trellis.Usage{InputTokens: 400})
		p.agent("02-01-auth", "implement#1", agents.Event{Kind: agents.EventUsage, Usage: &trellis.Usage{InputTokens: 600}})
		p.phase("02-01-auth", "check", 2, trellis.Usage{InputTokens: 1000, CostUSD: &cost})
		s.want(t, "02-01-auth  ▰▰▰▱▱▱▱ check 2 · 0s · 1.0k · $0.25")
		p.agent("02-01-auth", "check#1", agents.Event{Kind: agents.EventTool, Tool: "edit", Input: "internal/pages/list.go"})
		p.agent("02-01-auth", "check#1", agents.Event{Kind: agents.EventUsage, Usage: &trellis.Usage{InputTokens: 500}})
		s.want(t, "02-01-auth  ▰▰▰▱▱▱▱ check 2 · 0s · 1.0k · $0.25") // not drawn yet, since drawing is limited in frequency
		time.Sleep(61*time.Second + time.Millisecond)
		synctest.Wait()
		s.want(t, "02-01-auth  ▰▰▰▱▱▱▱ check 2 · 1m1s · 1.5k · ≥ $0.25 · → edit internal/page…")
		p.phase("02-02-b", "implement", 0, trellis.Usage{})
		p.agent("02-02-b", "implement#1", agents.Event{Kind: agents.EventNotice, Text: "tries \x1b[2Jagain"})
		s.want(t, "trellis: 02-02-b: tries ␛[2Jagain", "02-01-auth  ▰▰▰▱▱▱▱ check 2 · 1m1s · 1.5k · ≥ $0.25 · → edit internal/page…", "02-02-b     ▰▰▱▱▱▱▱ implement · 0s")
		p.End("02-01-auth")
		p.Say("02-01-auth is done")
		s.want(t, "trellis: 02-02-b: tries ␛[2Jagain", "trellis: 02-01-auth is done", "02-02-b  ▰▰▱▱▱▱▱ implement · 0s")
		p.Close()
		p.Close()
		p.Say("too late")
		s.want(t, "trellis: 02-02-b: tries ␛[2Jagain", "trellis: 02-01-auth is done")
	})
}

func TestProgressElsewhere(t *testing.T) {
	var out bytes.Buffer
	p := show(&out, terminal.Style{}, false)
	p.phase("02-01-auth", "check", 1, trellis.Usage{})
	p.phase("02-01-auth", "check", 1, trellis.Usage{InputTokens: 3})
	p.agent("02-01-auth", "check#1", agents.Event{Kind: agents.EventText, Text: "hello"})
	p.phase("02-01-auth", "debug", 2, trellis.Usage{})
	p.End("02-01-auth")
	p.Say("done\nand gone")
	p.Close()
	want := "trellis: 02-01-auth: check, round 1\ntrellis: 02-01-auth: debug, round 2\ntrellis: done\ntrellis: and gone\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Steps of a plan are shown like phases.
func TestProgressOfSteps(t *testing.T) {
	var out bytes.Buffer
	p := show(&out, terminal.Style{}, false)
	p.step("02-01-auth", workflow.Event{Type: workflow.StepStarted, Step: "add"})
	p.step("02-01-auth", workflow.Event{Type: workflow.StepOutput, Step: "add", Stream: "stdout", Text: "x"})
	p.step("02-01-auth", workflow.Event{Type: workflow.StepOutput, Step: "note", Stream: "log", Text: "half way"})
	p.step("02-01-auth", workflow.Event{Type: workflow.StepFinished, Step: "add", State: workflow.Failed, Text: "its command exited with 2"})
	p.Close()
	if got, want := out.String(), "trellis: 02-01-auth: step add\ntrellis: 02-01-auth: half way\ntrellis: 02-01-auth: step add failed: its command exited with 2\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		p := show(s, terminal.Style{Width: 70}, true)
		p.phase("02-01-auth", "implement", 1, trellis.Usage{})
		p.step("02-01-auth", workflow.Event{Type: workflow.StepIteration, Step: "each.2"})
		s.want(t, "02-01-auth  ▰▰▱▱▱▱▱ implement 1 · 0s · step each.2")
		p.step("02-01-auth", workflow.Event{Type: workflow.StepOutput, Step: "each.2", Stream: "stderr", Text: "one\ntwo"})
		pass(100 * time.Millisecond)
		s.want(t, "02-01-auth  ▰▰▱▱▱▱▱ implement 1 · 0s · each.2: two")
		p.Close()
	})
}
