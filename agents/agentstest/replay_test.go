package agentstest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// fake is a program that plays a part: shell commands, a stream, shell commands, an exit code.
type fake struct {
	before, stream, after string
	exit                  int
}

// install writes the program and returns the folder in which it records what it was given: argv, env, stdin.
func (f fake) install(t *testing.T, path string) string {
	t.Helper()
	seen := t.TempDir()
	put(t, filepath.Join(seen, "stream"), f.stream, 0o600)
	put(t, path, fmt.Sprintf(`#!/bin/sh
seen='%s'
printf '%%s\n' "$@" >"$seen/argv"
env >"$seen/env"
cat >"$seen/stdin"
%s
cat "$seen/stream"
%s
exit %d
`, seen, f.before, f.after, f.exit), 0o700)
	return seen
}

func put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// part returns a program with a behaviour. stream returns the output that it prints for one.
func part(b agentstest.Behaviour, stream func(agentstest.Behaviour) string) fake {
	const wait = "sleep 3000"
	switch b {
	case agentstest.NotUTF8:
		return fake{stream: strings.ReplaceAll(stream(agentstest.Answers), agentstest.Text, "\xff"+agentstest.Text+"\xc3\x28")}
	case agentstest.Garbage:
		return fake{stream: "\x00\xff{\"type\": nothing\n[1]\n\"x\"\nnull\n" + strings.Repeat("z", 1<<20)}
	case agentstest.Silent:
		return fake{after: wait}
	case agentstest.Hangs:
		return fake{stream: stream(agentstest.Answers), after: wait}
	case agentstest.Works:
		return fake{before: "sh work.sh"}
	case agentstest.Crashes:
		whole := stream(agentstest.Answers)
		return fake{stream: whole[:len(whole)/2], after: "kill -SEGV $$"}
	case agentstest.Exits:
		return fake{before: `echo "no luck with $SUITE_API_KEY" >&2`, exit: 3}
	case agentstest.Spends:
		return fake{stream: stream(b), after: wait}
	case agentstest.RateLimited, agentstest.Unauthorized, agentstest.Overflow, agentstest.Down, agentstest.Exhausted, agentstest.Invalid:
		return fake{stream: stream(b), exit: 1}
	case agentstest.Mute:
		return fake{}
	}
	if before, ok := excesses(stream)[b]; ok {
		return fake{before: before, stream: stream(agentstest.Answers)}
	}
	return fake{stream: stream(b)}
}

// excesses are the shell commands of what a program does before it answers, if it ever does.
func excesses(stream func(agentstest.Behaviour) string) map[agentstest.Behaviour]string {
	event, _, _ := strings.Cut(stream(agentstest.Answers), "\n")
	return map[agentstest.Behaviour]string{
		agentstest.Babbles:    `while :; do printf '\377{"type": garbage'; sleep 0.1; done`,
		agentstest.Plods:      "for i in 1 2 3 4 5 6 7 8 9 10; do head -n 1 \"$seen/stream\"; sleep 0.3; done",
		agentstest.Deaf:       "trap '' INT TERM; while :; do sleep 0.1; done",
		agentstest.Escapes:    "sh escape.sh",
		agentstest.Asks:       "read word; read word </dev/tty 2>/dev/null",
		agentstest.Floods:     "yes \"$(printf '%1000s' '\377')\"",
		agentstest.Complains:  "yes \"$(printf '%1000s' '\377')\" >&2",
		agentstest.LongLine:   longLine(),
		agentstest.ManyEvents: fmt.Sprintf("yes '%s' | head -n %d", event, manyEvents()),
	}
}

var anyReset = regexp.MustCompile(`"(resetsAt|resets_at)":\d+`)

// recorded returns a stream from testdata, whose rate limits end in an hour.
func recorded(t *testing.T, cli, name string) string {
	t.Helper()
	return anyReset.ReplaceAllString(get(t, "testdata", cli, name+".jsonl"), `"$1":`+strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10))
}

// replay returns an adapter with a program that prints what the real one printed.
func replay(cli string) agentstest.Subject {
	return agentstest.Subject{Parallel: true, Stage: func(t *testing.T, b agentstest.Behaviour) agentstest.Stage {
		bin, home, dir := t.TempDir(), t.TempDir(), workplace(t)
		f := part(b, func(b agentstest.Behaviour) string { return recorded(t, cli, string(b)) })
		if complaints, err := filepath.Abs(filepath.Join("testdata", cli, string(b)+".stderr.log")); err == nil && there(complaints) {
			f.before = "cat '" + complaints + "' >&2"
		}
		if there(filepath.Join("testdata", cli, string(b)+".record.jsonl")) {
			f.before = leaveRecord(t, home, recorded(t, cli, string(b)+".record"), f.stream)
		}
		seen := f.install(t, filepath.Join(bin, cli))
		a, err := agents.New(cli, agents.Options{
			Environ: []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + home, "UNRELATED=1"}, Grace: 300 * time.Millisecond, Output: most(b),
		})
		if err != nil {
			t.Fatal(err)
		}
		return agentstest.Stage{
			Agent: a, Dir: dir,
			Heard:   func() (string, bool) { return get(t, seen, "stdin"), true },
			Resumed: func(session string) bool { return strings.Contains(get(t, seen, "argv"), session) },
		}
	}}
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// most returns the output limit in bytes for behaviours that test it, and 0 for all others.
func most(b agentstest.Behaviour) int64 {
	if b == agentstest.Floods || b == agentstest.Complains {
		return 1 << 20
	}
	return 0
}

// longLine returns a command that prints a line too long to be read, with TRELLIS_SOAK longer than what is kept of all lines.
func longLine() string {
	bytes := 9_000_000
	if soak.Asked() {
		bytes = 100_000_000
	}
	return fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; echo", bytes)
}

// manyEvents returns the number of events that come at once: with TRELLIS_SOAK so many that reading them takes seconds.
func manyEvents() int {
	if soak.Asked() {
		return 50_000
	}
	return 5_000
}

// leaveRecord returns the shell command by which a program writes codex's record of the stream's session.
func leaveRecord(t *testing.T, home, record, stream string) string {
	t.Helper()
	id := regexp.MustCompile(`"thread_id":"([^"]+)"`).FindStringSubmatch(stream)
	file := filepath.Join(t.TempDir(), "record")
	put(t, file, record, 0o600)
	dir := filepath.Join(home, ".codex/sessions/2026/01/01")
	return fmt.Sprintf("mkdir -p '%s' && cp '%s' '%s/rollout-2026-01-01T00-00-00-%s.jsonl'", dir, file, dir, id[1])
}

func TestRecordedClaude(t *testing.T) { agentstest.Run(t, replay(agents.Claude)) }

func TestRecordedCodex(t *testing.T) {
	t.Parallel()
	s := replay(agents.Codex)
	s.Untold = []string{"cost"}
	agentstest.Run(t, s)
}

func TestRecordedOpenCode(t *testing.T) {
	t.Parallel()
	s := replay(agents.OpenCode)
	s.Skip = map[agentstest.Behaviour]string{agentstest.RateLimited: "opencode does not say how long it waits; see TestOpenCodeWaits"}
	agentstest.Run(t, s)
}

// inAnHour is a placeholder for a time in the output of a program; [dated] replaces it when the program is set up. The behaviours
// take turns, and on a busy machine the last one begins minutes after the test did.
const inAnHour = "IN-AN-HOUR"

func dated(said string) string {
	return strings.ReplaceAll(said, inAnHour, time.Now().Add(time.Hour).Format(time.RFC3339))
}

func TestCommandWithEvents(t *testing.T) {
	t.Parallel()
	streams := map[agentstest.Behaviour]string{
		agentstest.Answers: `{"type": "session", "session": "s-1"}
{"type": "tool", "tool": "shell", "input": {"command": "make"}}
{"type": "usage", "usage": {"input_tokens": 1000, "output_tokens": 20, "cached_tokens": 3, "cost_usd": 0.5}}
{"type": "text", "text": "` + agentstest.Text + `"}
{"type": "result", "stop": "end"}
`,
		agentstest.AnswersJSON:  `{"type": "result", "text": "here it is", "answer": ` + agentstest.JSON + "}\n",
		agentstest.Empty:        `{"type": "result", "text": ""}` + "\n",
		agentstest.Refused:      `{"type": "notice", "text": "may not"}` + "\n" + `{"type": "text", "text": "` + agentstest.Text + `"}` + "\n",
		agentstest.RateLimited:  `{"type": "error", "code": "rate_limited", "text": "slow down", "resume_at": "` + inAnHour + `"}` + "\n",
		agentstest.Unauthorized: `{"type": "error", "code": "agent_auth", "text": "bad key"}` + "\n",
		agentstest.Down:         `{"type": "error", "code": "provider_unavailable", "text": "502"}` + "\n",
		agentstest.Exhausted:    `{"type": "error", "code": "quota_exhausted", "text": "no credit"}` + "\n",
		agentstest.Overflow:     `{"type": "error", "code": "context_overflow", "text": "too long"}` + "\n",
		agentstest.Spends:       `{"type": "usage", "usage": {"input_tokens": 5000}}` + "\n",
	}
	s := command("events", func(b agentstest.Behaviour) string { return dated(streams[b]) })
	s.Skip = map[agentstest.Behaviour]string{agentstest.Garbage: "lines that are not events mean nothing", agentstest.Invalid: "it has no word for it"}
	agentstest.Run(t, s)
}

func TestCommandWithText(t *testing.T) {
	t.Parallel()
	streams := map[agentstest.Behaviour]string{
		agentstest.Answers: agentstest.Text + "\n", agentstest.AnswersJSON: agentstest.JSON, agentstest.Refused: agentstest.Text,
	}
	s := command("text", func(b agentstest.Behaviour) string { return streams[b] })
	s.Untold = []string{"usage", "session", "cost", "tools"}
	s.Skip = map[agentstest.Behaviour]string{}
	for _, b := range []agentstest.Behaviour{agentstest.Garbage, agentstest.Hangs, agentstest.RateLimited, agentstest.Unauthorized, agentstest.Overflow, agentstest.Spends,
		agentstest.Down, agentstest.Exhausted, agentstest.Invalid} {
		s.Skip[b] = "a program that prints text has only its exit code to tell that by"
	}
	s.Skip[agentstest.LongLine] = "the answer is then longer than anybody reads: agent_protocol"
	agentstest.Run(t, s)
}

// session has the arguments by which a program resumes a session, for the kind of output that can name one.
var session = map[string][]string{"events": {"--resume", "{{session}}"}}

// told reports whether the last arguments were yes, and fails if they were neither yes nor no.
func told(t *testing.T, seen, yes, no string) bool {
	t.Helper()
	got := get(t, seen, "argv")
	if got != yes && got != no {
		t.Errorf("the arguments were %q, want %q or %q", got, yes, no)
	}
	return got == yes
}

// A program that can't resume a session reports none: a caller with a session sends only the rest of a prompt (edge A15).
func TestCommandWithoutSessions(t *testing.T) {
	root, said := t.TempDir(), false
	seen := fake{stream: `{"type": "session", "session": "s-1"}` + "\n" + `{"type": "result", "text": "done", "session": "s-1"}` + "\n"}.install(t, filepath.Join(root, "agent.sh"))
	a, err := agents.New("mine", agents.Options{Environ: []string{"PATH=/usr/bin:/bin"}, Root: root,
		Commands: map[string]agents.Command{"mine": {Argv: []string{"./agent.sh", "go"}, Output: "events"}}})
	if err != nil {
		t.Fatal(err)
	}
	r := agents.Request{Role: trellis.Implement, Prompt: "p", Dir: root, RunDir: t.TempDir(), Permission: trellis.PermitEdit, Session: "s-1"}
	res, err := a.Run(t.Context(), r, func(e agents.Event) { said = said || e.Kind == agents.EventSession })
	if err != nil || res.Session != "" || said || get(t, seen, "argv") != "go\n" {
		t.Errorf("got %+v, %v, a session was told: %v, arguments %q", res, err, said, get(t, seen, "argv"))
	}
	if !strings.Contains(get(t, r.RunDir, "stream.jsonl"), "s-1") {
		t.Error("what it said is not kept")
	}
}

// A field of another type hides nothing else of its event, and is reported once.
func TestCommandWithOddFields(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream, want string
		code         trellis.Code
	}{
		"a time": {`{"type": "error", "code": "rate_limited", "text": "slow", "resume_at": "in 5m"}`,
			`slow; its event of type error: resume_at "in 5m" can't be read, and is ignored`, trellis.RateLimited},
		"a time as a number": {`{"type": "error", "resume_at": 5, "code": "rate_limited", "text": "slow"}`,
			`slow; its event of type error: resume_at 5 can't be read, and is ignored`, trellis.RateLimited},
		"a code": {`{"type": "error", "code": 429, "text": "slow"}`,
			"slow; its event of type error: code 429 can't be read, and is ignored", trellis.AgentExit},
		"a use, again and again": {`{"type": "usage", "usage": {"input_tokens": "many", "output_tokens": 7}}
{"type": "usage", "model": {}, "usage": {"input_tokens": "more", "output_tokens": 8}}
{"type": "error", "code": "agent_auth", "text": "no"}`,
			`no; its event of type usage: usage.input_tokens "many" can't be read, and is ignored; its event of type usage: model {} can't be read, and is ignored`, trellis.AgentAuth},
		"what is nothing here": {`{"type": "error", "code": "agent_auth", "text": "no", "stop": 3, "resume_at": null}`, "no", trellis.AgentAuth},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			fake{stream: c.stream + "\n", exit: 1}.install(t, filepath.Join(root, "agent.sh"))
			a, err := agents.New("mine", agents.Options{Environ: []string{"PATH=/usr/bin:/bin"}, Root: root,
				Commands: map[string]agents.Command{"mine": {Argv: []string{"./agent.sh"}, Output: "events"}}})
			if err != nil {
				t.Fatal(err)
			}
			var notices []string
			_, err = a.Run(t.Context(), agents.Request{Role: trellis.Implement, Prompt: "p", Dir: root, RunDir: t.TempDir(), Permission: trellis.PermitEdit},
				func(e agents.Event) {
					if e.Kind == agents.EventNotice {
						notices = append(notices, e.Text)
					}
				})
			var f *flow.Failure
			if !errors.As(err, &f) || f.Code != string(c.code) {
				t.Fatalf("got %v, want %s", err, c.code)
			}
			if got := strings.Join(append([]string{f.Detail}, notices...), "; "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// command returns a configured program that prints the streams.
func command(output string, stream func(agentstest.Behaviour) string) agentstest.Subject {
	return agentstest.Subject{Parallel: true, Stage: func(t *testing.T, b agentstest.Behaviour) agentstest.Stage {
		root := t.TempDir()
		seen := part(b, stream).install(t, filepath.Join(root, "agent.sh"))
		a, err := agents.New("mine", agents.Options{
			Environ: []string{"PATH=/usr/bin:/bin", "UNRELATED=1"}, Root: root, Grace: 300 * time.Millisecond, Output: most(b),
			Commands: map[string]agents.Command{"mine": {Argv: []string{"./agent.sh", "a b", "$HOME"}, Env: map[string]string{"MINE": "x y"}, Output: output,
				Read: []string{"--mode", "plan"}, Edit: []string{"--yolo"}, Session: session[output]}},
		})
		if err != nil {
			t.Fatal(err)
		}
		st := agentstest.Stage{Agent: a, Dir: workplace(t), Heard: func() (string, bool) { return get(t, seen, "stdin"), true }}
		st.Edits = func() bool { return told(t, seen, "a b\n$HOME\n--yolo\n", "a b\n$HOME\n--mode\nplan\n") }
		if output == "events" {
			st.Resumed = func(id string) bool { return strings.HasSuffix(get(t, seen, "argv"), "\n--resume\n"+id+"\n") }
		}
		return st
	}}
}

func TestRehearsal(t *testing.T) {
	t.Parallel()
	calls := map[agentstest.Behaviour]string{
		agentstest.Answers:      "{run: [cat suite.env; echo $SUITE_API_KEY >&2], answer: '" + agentstest.Text + "'}",
		agentstest.AnswersJSON:  "{answer: {decision: accept, score: 7}}",
		agentstest.NotUTF8:      "{answer: '" + agentstest.Text + "'}",
		agentstest.Empty:        "{answer: ''}",
		agentstest.Refused:      "{answer: '" + agentstest.Text + "'}",
		agentstest.Silent:       "{sleep: 5m}",
		agentstest.Works:        "{run: [sh work.sh]}",
		agentstest.Exits:        "{run: ['echo no luck with $SUITE_API_KEY >&2; exit 3']}",
		agentstest.RateLimited:  "{fail: {code: rate_limited, resume_at: " + inAnHour + "}}",
		agentstest.Unauthorized: "{fail: {code: agent_auth}}",
		agentstest.Overflow:     "{fail: {code: context_overflow}}",
		agentstest.Down:         "{fail: {code: provider_unavailable, detail: 502}}",
		agentstest.Exhausted:    "{fail: {code: quota_exhausted, detail: no credit}}",
		agentstest.Deaf:         `{run: ["trap '' INT TERM; while :; do sleep 0.1; done"]}`,
		agentstest.Escapes:      "{run: [sh escape.sh], answer: '" + agentstest.Text + "'}",
		agentstest.Asks:         "{run: ['read word; read word </dev/tty 2>/dev/null; true'], answer: '" + agentstest.Text + "'}",
		agentstest.LongLine:     fmt.Sprintf("{run: [%q], answer: '%s'}", longLine(), agentstest.Text),
		agentstest.Mute:         "{}",
	}
	s := agentstest.Subject{Parallel: true, Untold: []string{"usage", "session", "cost"}, Skip: map[agentstest.Behaviour]string{}}
	for _, b := range []agentstest.Behaviour{agentstest.Garbage, agentstest.Hangs, agentstest.Crashes, agentstest.Spends, agentstest.Babbles,
		agentstest.Plods, agentstest.Floods, agentstest.Complains, agentstest.ManyEvents, agentstest.Invalid} {
		s.Skip[b] = "a script has no word for it"
	}
	s.Stage = func(t *testing.T, b agentstest.Behaviour) agentstest.Stage {
		file := filepath.Join(t.TempDir(), "rehearsal.yaml")
		call := dated(calls[b])
		put(t, file, "roles: {implement: ["+call+"], evaluate: ["+call+"], research: ["+call+"], judge: ["+call+"]}", 0o600)
		a, err := agents.New(agents.Rehearsal, agents.Options{Script: file, Environ: []string{"PATH=/usr/bin:/bin"}, Grace: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return agentstest.Stage{Agent: a, Dir: workplace(t)}
	}
	agentstest.Run(t, s)
}
