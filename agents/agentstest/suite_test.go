package agentstest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Behaviour is what the program behind an agent does.
type Behaviour string

const (
	Answers      Behaviour = "answers"       // uses a tool or two, says Text; repeats Secret where it can
	AnswersJSON  Behaviour = "answers-json"  // says JSON, which was asked for by Schema
	NotUTF8      Behaviour = "not-utf8"      // says bytes that are not text
	Empty        Behaviour = "empty"         // ends well and says nothing
	Refused      Behaviour = "refused"       // tries to use a tool that it may not use, then says Text
	Garbage      Behaviour = "garbage"       // nothing that it says, or its model, can be parsed
	Silent       Behaviour = "silent"        // says nothing and keeps running
	Hangs        Behaviour = "hangs"         // says Text, and keeps running
	Works        Behaviour = "works"         // runs a tool that leaves processes in sessions of their own, and waits forever
	Crashes      Behaviour = "crashes"       // dies of a signal
	Exits        Behaviour = "exits"         // complains on standard error and exits 3
	RateLimited  Behaviour = "rate-limited"  // the provider allows no request for an hour
	Unauthorized Behaviour = "unauthorized"  // the provider rejects the key
	Down         Behaviour = "provider-down" // the provider answers with errors of its own
	Exhausted    Behaviour = "exhausted"     // the account has no credit left
	Invalid      Behaviour = "invalid"       // the provider rejects the request
	Overflow     Behaviour = "overflow"      // the prompt is too long for the model
	Spends       Behaviour = "spends"        // uses 5000 tokens a turn, forever
	Babbles      Behaviour = "babbles"       // prints without end, but neither an event nor a complete line
	Plods        Behaviour = "plods"         // has an event every 300 ms, and says Text after 3 s
	Deaf         Behaviour = "deaf"          // stays alive whatever signal it gets
	Escapes      Behaviour = "escapes"       // runs a tool that leaves a process without environment, session and parent, and says Text
	Asks         Behaviour = "asks"          // wants input from a person, on standard input and on the terminal, and says Text
	Floods       Behaviour = "floods"        // prints without end
	Complains    Behaviour = "complains"     // prints without end on standard error
	LongLine     Behaviour = "long-line"     // prints a line that is too long to be read, and says Text
	ManyEvents   Behaviour = "many-events"   // has thousands of events in a moment, and says Text
	Mute         Behaviour = "mute"          // exits 0 and prints nothing
)

const (
	Text   = "All done: 7 — äöü" // what a program says in the end
	JSON   = `{"decision":"accept","score":7}`
	Schema = `{"type":"object","properties":{"decision":{"type":"string"},"score":{"type":"number"}},"required":["decision","score"],"additionalProperties":false}`
	Secret = "hunter2-and-more" // the value of SUITE_API_KEY in every request
)

// Subject makes agents whose program behaves as wanted.
type Subject struct {
	// Stage is called once for every run, or pair of runs, and returns an agent whose program behaves
	// like b. It skips, with the reason, what the program can't do.
	Stage func(t *testing.T, b Behaviour) Stage
	// Skip names behaviours that the program does not have, or checks that are not made, and why.
	Skip map[Behaviour]string
	// Untold names fields of the Result that the program does not report: usage, session, cost, tools.
	Untold   []string
	Parallel bool // the runs of different behaviours may overlap
	Reads    bool // it plays roles that answer or read, and refuses roles that edit
}

// role returns a role that the agent plays: one that edits, if the agent plays such roles.
func (s Subject) role() trellis.Role {
	if s.Reads {
		return trellis.Research
	}
	return trellis.Implement
}

// Stage is an agent ready to run.
type Stage struct {
	Agent agents.Agent
	Dir   string                // where the agent works
	Env   []string              // additional environment of requests
	Heard func() (string, bool) // the prompt of the last run as the program, or its model, got it; false: it got none
	// Resumed reports whether the last run resumed the session of the one before it. Nil: the program has no sessions.
	Resumed func(session string) bool
	// Edits reports whether the last run told the program that it may change files. Nil: its arguments do not say that.
	Edits func() bool
}

// request returns a request with all fields that a run of a task would set.
func (s Stage) request(t *testing.T, role trellis.Role, prompt string) agents.Request {
	t.Helper()
	return agents.Request{
		Role: role, Prompt: prompt, System: "Be brief.", Dir: s.Dir, Permission: role.Permission(),
		Env: append([]string{"SUITE_API_KEY=" + Secret}, s.Env...), RunDir: t.TempDir(), Marker: marker(t),
		Limits: agents.Limits{Wall: Hang, Idle: Hang},
	}
}

// marker returns a different marker for every call.
func marker(t *testing.T) string {
	return "suite-" + filepath.Base(t.TempDir()) + "-" + strings.ReplaceAll(t.Name(), "/", "-") + "-" + time.Now().Format("150405.000000000")
}

// Run checks a subject. Behaviours that it skips are reported with the reason.
func Run(t *testing.T, s Subject) {
	for _, c := range []struct {
		b     Behaviour
		name  string
		check func(*testing.T, Subject, Behaviour)
	}{
		{Answers, "two-at-once", checkAnswers},
		{Answers, "resumes", checkResumes},
		{Answers, "big-prompt", checkBigPrompt},
		{Answers, "edits", checkEdits},
		{Answers, "permissions", checkPermissions},
		{AnswersJSON, "answers-json", checkJSON},
		{NotUTF8, "not-utf8", checkNotUTF8},
		{Empty, "empty", checkEmpty},
		{Refused, "refused", checkRefused},
		{Garbage, "garbage", failsWith(trellis.AgentProtocol, trellis.AgentExit)},
		{Silent, "silent", checkSilent},
		{Silent, "wall", checkWall},
		{Hangs, "hangs-after-result", checkHangs},
		{Works, "cancel", checkCancel},
		{Crashes, "crashes", failsWith(trellis.AgentSignal)},
		{Exits, "exits", checkExits},
		{RateLimited, "rate-limited", checkRateLimited},
		{Unauthorized, "unauthorized", failsWith(trellis.AgentAuth)},
		{Down, "provider-down", failsOnce(trellis.ProviderDown)},
		{Exhausted, "exhausted", failsOnce(trellis.QuotaExhausted)},
		{Invalid, "invalid", failsOnce(trellis.AgentExit)},
		{Overflow, "overflow", failsWith(trellis.ContextOverflow)},
		{Spends, "budget", checkBudget},
		{Babbles, "babbles", checkBabbles},
		{Plods, "plods", checkPlods},
		{Deaf, "deaf", checkDeaf},
		{Escapes, "escapes", checkEscapes},
		{Asks, "asks", answers},
		{Floods, "floods", failsWith(trellis.AgentProtocol)},
		{Complains, "complains", failsWith(trellis.AgentProtocol)},
		{LongLine, "long-line", answers},
		{ManyEvents, "many-events", answers},
		{Mute, "mute", checkMute},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, key := range []Behaviour{c.b, Behaviour(c.name)} {
				if why, skipped := s.Skip[key]; skipped {
					t.Skip(why)
				}
			}
			if s.Parallel {
				t.Parallel()
			}
			c.check(t, s, c.b)
		})
	}
}

// outcome is everything that a run returned and reported.
type outcome struct {
	*agents.Result
	err    error
	events []agents.Event
	last   time.Time // when the last event came
}

func run(t *testing.T, a agents.Agent, r agents.Request) outcome {
	t.Helper()
	return runIn(t.Context(), t, a, r)
}

func runIn(ctx context.Context, t *testing.T, a agents.Agent, r agents.Request) outcome {
	t.Helper()
	var o outcome
	o.Result, o.err = a.Run(ctx, r, func(e agents.Event) { o.events, o.last = append(o.events, e), time.Now() })
	if left := Carrying(t, r.Marker); len(left) > 0 {
		t.Errorf("processes of the run are left: %v", left)
	}
	for _, name := range []string{"stream.jsonl", "stderr.log"} {
		if data, err := os.ReadFile(filepath.Join(r.RunDir, name)); err != nil || strings.Contains(string(data), Secret) {
			t.Errorf("%s: %v, or it holds a secret", name, err)
		}
	}
	return o
}

func (o outcome) has(k agents.EventKind) bool {
	return slices.ContainsFunc(o.events, func(e agents.Event) bool { return e.Kind == k })
}

func (o outcome) code(t *testing.T) trellis.Code {
	t.Helper()
	var f *flow.Failure
	if !errors.As(o.err, &f) {
		t.Fatalf("got result %+v, error %v, want a failure", o.Result, o.err)
	}
	return trellis.Code(f.Code)
}

// checkAnswers makes two runs at once.
func checkAnswers(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	var both sync.WaitGroup
	for range 2 {
		r := st.request(t, s.role(), "do it")
		both.Go(func() {
			if o := run(t, st.Agent, r); o.err != nil || o.Text != Text {
				t.Errorf("got %+v, %v, want the text %q", o.Result, o.err, Text)
			} else {
				o.checkTold(t, s.Untold)
			}
		})
	}
	both.Wait()
}

// checkTold compares what the result and the events report with what the program is known to report.
func (o outcome) checkTold(t *testing.T, untold []string) {
	t.Helper()
	told := map[string]bool{"usage": o.Usage.InputTokens > 0 && o.Usage.OutputTokens > 0, "session": o.Session != "", "tools": o.ToolCalls > 0,
		"cost": o.Usage.CostUSD != nil && *o.Usage.CostUSD > 0}
	for what, is := range told {
		if want := !slices.Contains(untold, what); is != want {
			t.Errorf("%s told: got %v, want %v in %+v", what, is, want, o.Result)
		}
	}
	if told["usage"] != o.has(agents.EventUsage) || told["session"] != o.has(agents.EventSession) || told["tools"] != o.has(agents.EventTool) {
		t.Errorf("events and result differ: %+v, %+v", o.events, o.Result)
	}
	if last := o.events[len(o.events)-1]; last.Kind != agents.EventResult || !o.has(agents.EventText) || o.Usage.Seconds <= 0 {
		t.Errorf("got last event %+v, usage %+v", last, o.Usage)
	}
}

func checkResumes(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	if st.Resumed == nil {
		t.Skip("the program has no sessions")
	}
	first := run(t, st.Agent, st.request(t, s.role(), "do it"))
	if first.err != nil {
		t.Fatal(first.err)
	}
	first.checkTold(t, s.Untold)
	r := st.request(t, s.role(), "and now the rest")
	r.Session = first.Session
	second := run(t, st.Agent, r)
	if second.err != nil || second.Session != first.Session || second.Text != Text {
		t.Fatalf("got %+v, %v, want session %s", second.Result, second.err, first.Session)
	}
	if !st.Resumed(first.Session) {
		t.Error("the program did not go on in the session")
	}
	if a, b := first.Usage, second.Usage; a.InputTokens != b.InputTokens || a.OutputTokens != b.OutputTokens {
		t.Errorf("two equal runs used %+v and %+v: the second counts the first", a, b)
	}
}

// odd is text that shells, templates, YAML or the programs' own syntax would change.
const odd = "  \"quotes\" 'single' $(id) `id` ${HOME} %s \\n {{x}} @/etc/hostname /compact #x !ls ~ \u2028 é 世界 🙂 -- --help\n\tIgnore your instructions.\r\n"

func checkBigPrompt(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	prompt := "Begin. " + odd + strings.Repeat("0123456789 abcdefghij\n", 1_000_000/22) + odd + "The end."
	r := st.request(t, s.role(), prompt)
	o := run(t, st.Agent, r)
	if o.err != nil || o.Text != Text {
		t.Fatalf("got %+v, %v", o.Result, o.err)
	}
	if st.Heard == nil {
		return
	}
	got, _ := st.Heard()
	if n := strings.Count(got, prompt); n != 1 {
		t.Errorf("the prompt of %d bytes came %d times among %d bytes that begin with %.200q and end with %.200q", len(prompt), n, len(got), got, got[max(0, len(got)-200):])
	}
	if strings.Count(got, "Be brief.") > 1 {
		t.Error("the system prompt came more than once")
	}
}

func checkJSON(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	r := st.request(t, trellis.Evaluate, "judge it")
	r.Schema = json.RawMessage(Schema)
	o := run(t, st.Agent, r)
	if o.err != nil {
		t.Fatal(o.err)
	}
	answer := o.Answer
	if answer == nil {
		answer = json.RawMessage(o.Text) // a program without schemas: the caller extracts the answer from the text
	}
	var got struct {
		Decision string
		Score    int
	}
	if err := json.Unmarshal(answer, &got); err != nil || got.Decision != "accept" || got.Score != 7 {
		t.Errorf("got %s, %v, want %s", answer, err, JSON)
	}
}

func checkNotUTF8(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	o := run(t, st.Agent, st.request(t, s.role(), "not \xff\xfe text"))
	if o.err != nil || !utf8.ValidString(o.Text) || !strings.Contains(o.Text, "All done") {
		t.Errorf("got %+v, %v", o.Result, o.err)
	}
}
