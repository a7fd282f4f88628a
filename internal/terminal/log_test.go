package terminal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// decode decodes streams of agents that write their events as JSON.
func decode(string) func(string) []agents.Event {
	return func(line string) []agents.Event {
		var e agents.Event
		if json.Unmarshal([]byte(line), &e) != nil {
			return nil
		}
		return []agents.Event{e}
	}
}

const implement flow.Act[agentcall.Request, agentcall.Reply] = "implement"

// task is a task directory for runs.
type task struct {
	dir  string
	now  time.Time
	step func(stream string) error // what happens while the agent works, in the middle of a line of its stream
}

func newTask(t *testing.T) *task {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "02-01-auth")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return &task{dir: dir, now: noon}
}

// run executes one run, in which an agent writes text and uses a tool and a command fails.
func (k *task) run(t *testing.T, number int, fail *flow.Failure) {
	t.Helper()
	work := func(_ context.Context, c flow.Call, _ agentcall.Request) (agentcall.Reply, error) {
		dir := filepath.Join(k.dir, "run", agentcall.Folder(c), strconv.Itoa(c.Attempt))
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return agentcall.Reply{}, err
		}
		stream := filepath.Join(dir, "stream.jsonl")
		if err := os.WriteFile(stream, []byte(`{"type":"text","text":"I begin\nnow"}`+"\n"+`{"type":"tool","tool":"edit",`), 0o666); err != nil {
			return agentcall.Reply{}, err
		}
		if k.step != nil {
			if err := k.step(stream); err != nil {
				return agentcall.Reply{}, err
			}
		}
		f, err := os.OpenFile(stream, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return agentcall.Reply{}, err
		}
		_, err = f.WriteString(`"input":"main.go"}` + "\n" + `{"type":"usage","usage":{"input_tokens":1}}`)
		k.now = k.now.Add(90 * time.Second)
		return agentcall.Reply{Usage: trellis.Usage{InputTokens: 1200, Seconds: 90}}, errors.Join(err, f.Close())
	}
	verify := flow.Activity{Name: "verify", Run: func(context.Context, flow.Call, json.RawMessage) (any, error) {
		return json.RawMessage(`{"results":[{"command":"go test","code":1,"seconds":2,"tail":"FAIL x"},{"command":"go vet","code":0,"seconds":1}]}`), nil
	}}
	run, err := journal.Open(journal.Options{Dir: filepath.Join(k.dir, "run"), Activities: []flow.Activity{implement.With(work), verify}, Now: func() time.Time { return k.now }})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if err := run.Begin(journal.Spec{Run: "02-01-auth/" + strconv.Itoa(number), Flow: "pipeline", Code: 1, Input: json.RawMessage("{}")}); err != nil {
		t.Fatal(err)
	}
	_, err = journal.Execute(t.Context(), run, func(f flow.Flow, _ struct{}) (map[string]string, error) {
		if _, err := implement.Do(f, agentcall.Request{Role: trellis.Implement, Agent: "mine"}); err != nil {
			return nil, err
		}
		if err := f.In("round-1").Do("verify", nil, nil); err != nil {
			return nil, err
		}
		if fail != nil {
			return nil, fail
		}
		return map[string]string{"outcome": "delivered", "commit": "0123456789abcdef"}, nil
	})
	if fail == nil && err != nil || fail != nil && !errors.Is(err, fail) {
		t.Fatal(err)
	}
}

// text returns a log as it is printed.
func text(t *testing.T, lines []status.Line) string {
	t.Helper()
	var b bytes.Buffer
	show := terminal.LogPrinter{W: &b}
	for _, l := range lines {
		if err := show.Print(l); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestLog(t *testing.T) {
	k := newTask(t)
	log := &status.Log{Dir: k.dir, Decode: decode}
	if lines, ended, err := log.Next(); len(lines) > 0 || ended || err != nil {
		t.Errorf("before any run: got %v, %v, %v, want nothing", lines, ended, err)
	}
	k.run(t, 1, flow.Fail("verify_failed", "go test exited with 1"))
	k.now = k.now.Add(time.Hour)
	k.run(t, 2, nil)
	lines, ended, err := (&status.Log{Dir: k.dir, Decode: decode}).Next()
	if err != nil || !ended {
		t.Fatalf("got %v, %v, want an ended log", ended, err)
	}
	one := `  implement: mine works
            │ I begin
            │ now
            → edit main.go
`
	for _, want := range []string{
		"run 02-01-auth/1 (pipeline) of 2026-02-03\n", one, "  implement: done in 1m30s\n            1.2k tokens, cost unknown, 1m30s\n",
		"  round-1/verify: done in 0s\n            go test: exit 1 (2s)\n              FAIL x\n            go vet: passed (1s)\n",
		"  ended after 1m30s: verify_failed: go test exited with 1\n",
		"run 02-01-auth/2 (pipeline) of 2026-02-03\n",
		"  ended after 1m30s: delivered, commit 0123456789ab\n",
	} {
		if got := text(t, lines); !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant in it\n%s", got, want)
		}
	}
	only, _, err := (&status.Log{Dir: k.dir, Decode: decode, Phase: "verify"}).Next()
	if got := text(t, only); err != nil || strings.Contains(got, "implement") || strings.Count(got, "go test: exit 1") != 2 {
		t.Errorf("one phase: got %v\n%s", err, got)
	}
}

// A log that is followed shows an agent's events while the agent works, as soon as their lines are complete, and each once.
func TestLogFollows(t *testing.T) {
	k := newTask(t)
	log := &status.Log{Dir: k.dir, Decode: decode}
	var during, again []status.Line
	k.step = func(string) (err error) {
		if during, _, err = log.Next(); err != nil {
			return err
		}
		again, _, err = log.Next()
		return err
	}
	k.run(t, 1, nil)
	if got := text(t, during); !strings.Contains(got, "│ I begin") || strings.Contains(got, "edit") {
		t.Errorf("while it works: got\n%s", got)
	}
	if len(again) != 0 {
		t.Errorf("again: got %v, want nothing", again)
	}
	after, ended, err := log.Next()
	if got := text(t, after); err != nil || !ended || strings.Contains(got, "I begin") || !strings.Contains(got, "→ edit main.go") {
		t.Errorf("after it: got %v, %v\n%s", ended, err, got)
	}
}

// A log of the last run leaves out earlier runs. If another run begins while the log is followed, the end of the followed run comes first.
func TestLogGoesOnIntoTheNextRun(t *testing.T) {
	k := newTask(t)
	k.run(t, 1, nil)
	log := &status.Log{Dir: k.dir, Run: status.LastRun, Decode: decode}
	k.step = func(string) error {
		_, ended, err := log.Next()
		if ended {
			t.Error("a run at work has ended")
		}
		return err
	}
	k.run(t, 2, flow.Fail("verify_failed", "no"))
	if log.Earlier() != 1 {
		t.Errorf("got %d earlier runs, want 1", log.Earlier())
	}
	k.step = nil
	k.run(t, 3, nil)
	lines, ended, err := log.Next()
	if err != nil || !ended {
		t.Fatalf("got %v, %v", ended, err)
	}
	got := text(t, lines)
	end, next := strings.Index(got, "verify_failed: no"), strings.Index(got, "run 02-01-auth/3 ")
	if end < 0 || next < end || strings.Contains(got, "run 02-01-auth/2 ") || strings.Contains(got, "run 02-01-auth/1 ") {
		t.Errorf("got\n%s\nwant the end of the second run, then the third", got)
	}
	for run, want := range map[int]string{1: "1", 3: "3"} {
		lines, ended, err := (&status.Log{Dir: k.dir, Run: run, Decode: decode}).Next()
		if got := text(t, lines); err != nil || !ended || strings.Count(got, "run 02-01-auth/") != 1 || !strings.Contains(got, "run 02-01-auth/"+want) {
			t.Errorf("run %d: got %v, %v\n%s", run, ended, err, got)
		}
	}
	var none *status.NoRunError
	if _, _, err := (&status.Log{Dir: k.dir, Run: 4, Decode: decode}).Next(); !errors.As(err, &none) || none.Last != 3 {
		t.Errorf("got %v, want that there is no run 4 of 3", err)
	}
}

// Agents' texts are wrapped at the terminal's width, shown once if they are repeated, and shortened if they are long.
func TestLogOfManyWords(t *testing.T) {
	say := func(words string) status.Line {
		return status.Line{Kind: status.KindAgent, Run: "02-01-auth/1", ID: "implement", Activity: "implement", Event: &agents.Event{Kind: agents.EventText, Text: words}}
	}
	shown := func(p terminal.LogPrinter, lines ...status.Line) string {
		var b bytes.Buffer
		p.W = &b
		for _, l := range lines {
			if err := p.Print(l); err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	}
	const lead = "            │ "
	if got, want := shown(terminal.LogPrinter{}, say("done\nat last"), say("done\nat last\n")), lead+"done\n"+lead+"at last\n"; got != want {
		t.Errorf("said twice: got\n%s\nwant\n%s", got, want)
	}
	if got, want := shown(terminal.LogPrinter{Style: terminal.Style{Width: 30}}, say("words that are broken 登录页面")), lead+"words that are\n"+lead+"broken 登录页面\n"; got != want {
		t.Errorf("at 30 columns: got\n%s\nwant\n%s", got, want)
	}
	long := say(strings.TrimSpace(strings.Repeat("word\n", 31)))
	got := shown(terminal.LogPrinter{Whole: "trellis logs auth --full"}, long)
	if n := strings.Count(got, "word\n"); n != 20 || !strings.HasSuffix(got, lead+"… 11 more lines; next: trellis logs auth --full\n") {
		t.Errorf("31 lines: got %d\n%s", n, got)
	}
	if got := shown(terminal.LogPrinter{Full: true}, long); strings.Count(got, "word\n") != 31 || strings.Contains(got, "more") {
		t.Errorf("in full: got\n%s", got)
	}
	if got := shown(terminal.LogPrinter{}, say(strings.TrimSpace(strings.Repeat("word\n", 30)))); strings.Count(got, "word\n") != 30 {
		t.Errorf("30 lines: got\n%s", got)
	}
}
