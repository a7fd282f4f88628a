package terminal_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func (t telling) told(task string, e events.Event) {
	e.Task = task
	t.ShowRunnerEvent(runner.Event{Task: task, Told: &e})
}

// crash returns the wait after the first of three attempts.
func crash(d time.Duration) events.Event {
	return events.Event{Kind: events.Waiting, Wait: &events.Wait{For: "backoff", Why: "agent crashed (exit 3)", Until: time.Now().Add(d), Attempt: 2, Of: 3}}
}

// A failed check is shown at once with the last line of its output, a crash with a countdown to the next attempt that does not look like
// work, and the end of a run with its result.
func TestToldOnTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		p := show(s, terminal.Style{Width: 81}, true)
		p.phase("02-01-auth", "verify", 1, trellis.Usage{})
		p.told("02-01-auth", events.Event{Kind: events.Checked, Phase: "verify", Check: &events.Check{Command: "go vet ./...", N: 1, Of: 2}})
		p.told("02-01-auth", events.Event{Kind: events.Checked, Phase: "verify", Check: &events.Check{Command: "go test ./...", N: 2, Of: 2, Code: 1, Last: "FAIL pages 0.1s"}})
		failed := "trellis: 02-01-auth: verify ✗ 2 of 2: go test ./... (exit 1): FAIL pages 0.1s"
		s.want(t, failed, "02-01-auth  ▰▰▰▰▱▱▱ verify 1 · 0s · verify ✗ 2 of 2: go test ./... (exit 1)")
		p.phase("02-01-auth", "debug", 2, trellis.Usage{})
		p.told("02-01-auth", crash(10*time.Second))
		crashed := "trellis: 02-01-auth: agent crashed (exit 3); attempt 2 of 3 in 10 s"
		s.want(t, failed, crashed, "02-01-auth  ▰▰▱▱▱▱▱ ‖ agent crashed (exit 3); attempt 2 of 3 in 10 s")
		pass(3 * time.Second)
		s.want(t, failed, crashed, "02-01-auth  ▰▰▱▱▱▱▱ ‖ agent crashed (exit 3); attempt 2 of 3 in 7 s")
		p.agent("02-01-auth", "round-2/debug#2", agents.Event{Kind: agents.EventText, Text: "once more"})
		pass(time.Second)
		s.want(t, failed, crashed, "02-01-auth  ▰▰▱▱▱▱▱ debug 2 · 4s · once more")
		p.ShowRunnerEvent(runner.Event{Task: "02-01-auth", State: &pipeline.TaskState{Status: trellis.Review}})
		p.told("02-01-auth", events.Event{Kind: events.Ended, Outcome: &events.Outcome{Status: trellis.Review, Seconds: 64, Rounds: 2, Stat: "M a.go +1 -2\nA b c.go +3 -0\n… and 2 more files +10 -20\n", Met: 2, Criteria: 3}})
		s.want(t, failed, crashed, "trellis: 02-01-auth: review in 1m4s · 2 rounds · 4 files +14 -22 · 2 of 3 criteria met")
		p.Close()
	})
}

// Rows of tasks are narrower than the terminal: long names are shortened in the middle, texts at their end, and less important
// parts are left out.
func TestRowsFit(t *testing.T) {
	for width, want := range map[int][2]string{
		60:  {"02-01-a…indeed  ▰▰▱▱▱▱▱ implement 1 · 0s · → edit internal…", "02-02-b         ▰▰▱▱▱▱▱ ‖ attempt 2 of 3 in 10 s"},
		80:  {"02-01-a-l…me-indeed  ▰▰▱▱▱▱▱ implement 1 · 0s · 1.5k · → edit internal/pages/l…", "02-02-b              ▰▰▱▱▱▱▱ ‖ agent crashed (exit 3); attempt 2 of 3 in 10 s"},
		140: {"02-01-a-long-name-indeed  ▰▰▱▱▱▱▱ implement, round 1 · 0s · 1.5k tokens · → edit internal/pages/list.go", "02-02-b                   ▰▰▱▱▱▱▱ ‖ agent crashed (exit 3); attempt 2 of 3 in 10 s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &screen{}
			p := show(s, terminal.Style{Width: width}, true)
			p.phase("02-01-a-long-name-indeed", "implement", 1, trellis.Usage{InputTokens: 1500})
			p.phase("02-02-b", "implement", 1, trellis.Usage{})
			p.agent("02-01-a-long-name-indeed", "implement#1", agents.Event{Kind: agents.EventTool, Tool: "edit", Input: "internal/pages/list.go"})
			p.told("02-02-b", crash(10*time.Second))
			s.want(t, "trellis: 02-02-b: agent crashed (exit 3); attempt 2 of 3 in 10 s", want[0], want[1])
			for _, line := range s.lines[1:] {
				if n := len([]rune(line)); n >= width {
					t.Errorf("%d columns: %q has %d", width, line, n)
				}
			}
			p.Close()
		})
	}
}

// If a row has too little room for the reason of a wait, the reason is cut or left out, and the time is shown whole.
func TestReasonIsCutBeforeTime(t *testing.T) {
	for width, want := range map[int]string{
		60:  "02-02-b  ▰▰▱▱▱▱▱ ‖ attempt 2 of 3 in 10 s",
		80:  "02-02-b  ▰▰▱▱▱▱▱ ‖ agent crashed (exit 2): sh: 0: cann…; attempt 2 of 3 in 10 s",
		140: "02-02-b  ▰▰▱▱▱▱▱ ‖ agent crashed (exit 2): sh: 0: cannot open agent.sh: No such file; attempt 2 of 3 in 10 s",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &screen{}
			p := show(s, terminal.Style{Width: width}, true)
			p.phase("02-02-b", "implement", 1, trellis.Usage{})
			e := crash(10 * time.Second)
			e.Wait.Why = "agent crashed (exit 2): sh: 0: cannot open agent.sh: No such file"
			p.told("02-02-b", e)
			s.want(t, "trellis: 02-02-b: "+e.Wait.Why+"; attempt 2 of 3 in 10 s", want)
			p.Close()
		})
	}
}

// When a terminal gets narrower, it wraps the rows on it. All the lines that these then take are cleared.
func TestRowsAfterResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		width, resized := 100, func() {}
		p := show(&out, terminal.Style{Width: 100}, true)
		p.FollowResizes(func() (int, int) { return width, 20 }, func(do func()) func() { resized = do; return func() {} })
		p.phase("02-01-auth", "implement", 1, trellis.Usage{})
		p.agent("02-01-auth", "implement#1", agents.Event{Kind: agents.EventText, Text: strings.Repeat("word ", 30)})
		pass(time.Second)
		out.Reset()
		width = 40
		resized()
		if got := out.String(); !strings.HasPrefix(got, "\r\x1b[3A\x1b[J02-01-auth ") || len([]rune(strings.TrimSpace(strings.TrimPrefix(got, "\r\x1b[3A\x1b[J")))) > 39 {
			t.Errorf("got %q", got)
		}
		p.Close()
	})
}

// Without a terminal each event has a line with its time and without escape sequences, and repetitions are dropped.
func TestToldPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := show(&out, terminal.Style{}, false)
		p.ShowTimes()
		p.phase("02-01-auth", "verify", 1, trellis.Usage{})
		for range 2 {
			p.told("02-01-auth", events.Event{Kind: events.Checked, Phase: "verify", Check: &events.Check{Command: "make", N: 1, Of: 1, Code: 2, Last: "no \x1b[2Jrule"}})
		}
		time.Sleep(time.Second)
		p.told("02-01-auth", crash(10*time.Second))
		p.ShowRunnerEvent(runner.Event{Watch: &runner.WatchState{Waits: []events.Event{crash(0)}}})
		idle := runner.Event{Watch: &runner.WatchState{Idle: time.Now(), Waits: []events.Event{{Task: "a", Wait: &events.Wait{For: "approval"}}, {Task: "b", Wait: &events.Wait{For: "approval"}}, {Task: "c", Wait: &events.Wait{For: "dependency", Why: "a"}}}}}
		p.ShowRunnerEvent(idle)
		p.Say("else")
		p.ShowRunnerEvent(idle)
		p.Close()
		at := time.Now().Local().Format(time.TimeOnly)
		was := time.Now().Add(-time.Second).Local().Format(time.TimeOnly)
		want := was + " 02-01-auth: verify, round 1\n" + was + " 02-01-auth: verify ✗ 1 of 1: make (exit 2): no ␛[2Jrule\n" +
			at + " 02-01-auth: agent crashed (exit 3); attempt 2 of 3 in 10 s\n" + at + " idle since " + at + ": 2 waiting for approval, 1 waiting for others\n" + at + " else\n"
		if got := out.String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// counted counts writes to a terminal.
type counted struct{ n int }

func (c *counted) Write(data []byte) (int, error) { c.n++; return len(data), nil }

func flood(p telling, n int) {
	for i := range n {
		p.agent("02-01-auth", "implement#1", agents.Event{Kind: agents.EventTool, Tool: "edit", Input: fmt.Sprint(i)})
	}
}

// The terminal is written to at most ten times a second, however many events there are, and not at all while there is nothing to show.
func TestEventsAreDrawnTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &counted{}
		p := show(w, terminal.Style{Width: 80}, true)
		p.phase("02-01-auth", "implement", 1, trellis.Usage{})
		flood(p, 1000)
		pass(100 * time.Millisecond)
		if w.n > 3 {
			t.Errorf("1,000 events are written %d times", w.n)
		}
		p.End("02-01-auth")
		before := w.n
		pass(time.Hour)
		if w.n != before {
			t.Errorf("with nothing to show it is written %d times in an hour", w.n-before)
		}
		p.Close()
	})
}

func BenchmarkThousandEvents(b *testing.B) {
	p := show(&counted{}, terminal.Style{Width: 80}, true)
	p.phase("02-01-auth", "implement", 1, trellis.Usage{})
	for b.Loop() {
		flood(p, 1000)
	}
	p.Close()
}

// A waiting task that was cancelled leaves the watcher's screen. Tasks that still wait, or that wait within a run, stay.
func TestCancelledTaskLeavesTheScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := show(&out, terminal.Style{Width: 80}, true)
		defer p.Close()
		asks := events.Event{Kind: events.Waiting, Wait: &events.Wait{For: "approval"}}
		for _, task := range []string{"02-01-cancelled", "02-02-asks"} {
			p.told(task, asks)
		}
		p.told("02-03-crashed", crash(10*time.Second))
		p.ShowRunnerEvent(runner.Event{Watch: &runner.WatchState{Runs: []string{"02-03-crashed"}, Waits: []events.Event{{Task: "02-01-cancelled", Wait: asks.Wait}, {Task: "02-02-asks", Wait: asks.Wait}}}})
		out.Reset()
		p.ShowRunnerEvent(runner.Event{Watch: &runner.WatchState{Runs: []string{"02-03-crashed"}, Waits: []events.Event{{Task: "02-02-asks", Wait: asks.Wait}}}})
		pass(time.Second)
		got := out.String()
		last := got[strings.LastIndex(got, "\x1b[J")+1:]
		if strings.Contains(last, "02-01-cancelled") || !strings.Contains(last, "02-02-asks") || !strings.Contains(last, "02-03-crashed") {
			t.Errorf("the screen is %q", last)
		}
	})
}
