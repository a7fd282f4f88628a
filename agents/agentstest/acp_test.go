package agentstest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/agents/modelserver"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// gemini returns Gemini CLI, which speaks the Agent Client Protocol, and the server of its model.
func gemini(t *testing.T, script modelserver.Script) (agentstest.Stage, *modelserver.Server) {
	t.Helper()
	server, err := modelserver.New(script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	a, err := agents.New(agentstest.Gemini, agents.Options{
		Environ:  agentstest.RealEnv(t, agentstest.Gemini, server.URL),
		Commands: map[string]agents.Command{agentstest.Gemini: agentstest.GeminiCommand()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s := server.Strange(); len(s) > 0 {
			t.Errorf("the program asked for %q", s)
		}
	})
	return agentstest.Stage{Agent: a, Dir: workplace(t), Heard: func() (string, bool) { return heard(server) }}, server
}

func TestGemini(t *testing.T) {
	t.Parallel()
	s := agentstest.Subject{
		Parallel: true, Skip: noModel(), Untold: []string{"session"},
		Stage: func(t *testing.T, b agentstest.Behaviour) agentstest.Stage {
			st, _ := gemini(t, model(agentstest.Gemini, b))
			return st
		},
	}
	s = seldom(s, append(slices.Clone(alike), agentstest.AnswersJSON, agentstest.Refused, "big-prompt")...)
	s.Skip[agentstest.Spends] = "gemini tells what it used when it is done"
	s.Skip[agentstest.RateLimited] = "gemini does not say for how long; see TestACPFailures"
	s.Skip[agentstest.Garbage] = "gemini says 500 of what it does not understand, as of a provider's failure"
	agentstest.Run(t, s)
}

// Gemini reports the tokens that its model's server counted, and does what it is allowed to and no more.
func TestGeminiTellsWhatItUsed(t *testing.T) {
	t.Parallel()
	st, server := gemini(t, models[agentstest.Answers])
	var events []agents.Event
	r := agents.Request{Role: trellis.Implement, Prompt: "do it", System: "Be brief.", Dir: st.Dir, Permission: trellis.PermitEdit, RunDir: t.TempDir(), Limits: agents.Limits{Wall: agentstest.Hang}}
	res, err := st.Agent.Run(t.Context(), r, func(e agents.Event) { events = append(events, e) })
	if err != nil {
		t.Fatal(err)
	}
	counted := server.Used()
	if got := res.Usage; got.InputTokens != int64(counted.Input+counted.Cached) || got.OutputTokens != int64(counted.Output) || res.Model != "gemini-2.5-pro" {
		t.Errorf("got %+v of %s, and the server counted %+v", got, res.Model, counted)
	}
	if got := get(t, st.Dir, "written by tool.txt"); got != "it's 'quoted'\n" {
		t.Errorf("the file has %q", got)
	}
	if res.ToolCalls != 2 || res.Stop != "end_turn" {
		t.Errorf("got %d tools, stop %s", res.ToolCalls, res.Stop)
	}
	// A reader of the stream that the run left sees the same events.
	var seen []agents.Event
	read := agents.Decoder(agentstest.Gemini)
	for line := range strings.Lines(get(t, r.RunDir, "stream.jsonl")) {
		seen = append(seen, read(strings.TrimSuffix(line, "\n"))...)
	}
	if a, b := wordsAndTools(events), wordsAndTools(seen); a != b {
		t.Errorf("who looks on sees\n%s\nwant\n%s", b, a)
	}
	for _, e := range seen {
		if e.Kind == agents.EventNotice && strings.HasPrefix(e.Text, "refused: ") {
			t.Errorf("who looks on is told %q of what was allowed", e.Text)
		}
	}
}

// wordsAndTools returns the text and tool events, one line each.
func wordsAndTools(events []agents.Event) string {
	var b strings.Builder
	for _, e := range events {
		if e.Kind == agents.EventText || e.Kind == agents.EventTool {
			fmt.Fprintf(&b, "%s %s %s %s\n", e.Kind, e.Text, e.Tool, e.Input)
		}
	}
	return b.String()
}

// acpStage returns an agent that plays a part, and the folder in which the agent records what it was told.
func acpStage(t *testing.T, part string, environ ...string) (st agentstest.Stage, seen string) {
	t.Helper()
	seen = t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a, err := agents.New("mine", agents.Options{
		Environ: append([]string{"PATH=/usr/bin:/bin"}, environ...), Grace: 300 * time.Millisecond, Output: most(agentstest.Behaviour(part)),
		Commands: map[string]agents.Command{"mine": {Type: agents.ACP, Argv: []string{self}, Env: map[string]string{acpPart: part, acpSeen: seen}, EnvPass: []string{"MOCK_API_KEY"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return agentstest.Stage{Agent: a, Dir: workplace(t), Heard: func() (string, bool) { return get(t, seen, "prompt"), true }}, seen
}

func TestACP(t *testing.T) {
	t.Parallel()
	agentstest.Run(t, agentstest.Subject{
		Parallel: true, Untold: []string{"session", "cost"},
		Skip: map[agentstest.Behaviour]string{
			agentstest.Spends:      "tokens are told at the end of a turn",
			agentstest.RateLimited: "the protocol has no word for how long; see TestACPFailures",
		},
		Stage: func(t *testing.T, b agentstest.Behaviour) agentstest.Stage {
			st, _ := acpStage(t, string(b))
			return st
		},
	})
}

// acpRun is the result of one run of an agent that plays a part.
type acpRun struct {
	*agents.Result
	err     error
	seen    string
	events  []agents.Event
	failure flow.Failure
}

func playPart(t *testing.T, part string, change func(*agents.Request), environ ...string) acpRun {
	t.Helper()
	st, seen := acpStage(t, part, environ...)
	r := agents.Request{Role: trellis.Implement, Prompt: "do it", Dir: st.Dir, Permission: trellis.PermitEdit, RunDir: t.TempDir(), Marker: "acp-" + filepath.Base(seen) + time.Now().Format("150405.000000"),
		Limits: agents.Limits{Wall: agentstest.Hang, Idle: agentstest.Hang}}
	if change != nil {
		change(&r)
	}
	got := acpRun{seen: seen}
	got.Result, got.err = st.Agent.Run(t.Context(), r, func(e agents.Event) { got.events = append(got.events, e) })
	var f *flow.Failure
	if errors.As(got.err, &f) {
		got.failure = *f
	}
	if left := agentstest.Carrying(t, r.Marker); len(left) > 0 {
		t.Errorf("%s: processes are left: %v", part, left)
	}
	return got
}

// told returns what the agent was told under this name, or "" if it was told nothing.
func (r acpRun) told(name string) string {
	data, _ := os.ReadFile(filepath.Join(r.seen, name))
	return string(data)
}

func (r acpRun) notices() (all string) {
	for _, e := range r.events {
		if e.Kind == agents.EventNotice {
			all += e.Text + "\n"
		}
	}
	return all
}

func permitted(p trellis.Permission) func(*agents.Request) {
	return func(r *agents.Request) { r.Permission = p }
}

// The permission of the role decides whether a tool may be used, and the kinds of the options decide which one answers that.
func TestACPPermissions(t *testing.T) {
	t.Parallel()
	const all = " reject_always allow_always reject_once allow_once"
	const once, no, always, never = "id of allow_once", "id of reject_once", "id of allow_always", "id of reject_always"
	for _, c := range []struct {
		permission trellis.Permission
		asked      string // the kind of the tool, a path, and the kinds of the options
		want       string // id of the option that must be chosen
	}{
		{trellis.PermitNone, "read x" + all, no},
		{trellis.PermitRead, "read x" + all, once},
		{trellis.PermitRead, "search x" + all, once},
		{trellis.PermitRead, "think x" + all, once},
		{trellis.PermitRead, "edit x" + all, no},
		{trellis.PermitRead, "delete x" + all, no},
		{trellis.PermitRead, "move x" + all, no},
		{trellis.PermitRead, "execute x" + all, no},
		{trellis.PermitRead, "fetch x" + all, no},
		{trellis.PermitRead, "other x" + all, no},
		{trellis.PermitRead, "unheard-of x" + all, no},
		{trellis.PermitRead, "read /etc/passwd" + all, no},
		{trellis.PermitRead, "read a/../../x" + all, no},
		{trellis.PermitRead, "read ~/.netrc" + all, no},
		{trellis.PermitRead, "read ~root/.netrc" + all, no},
		{trellis.PermitRead, "read file:///etc/passwd" + all, no},
		{trellis.PermitRead, "read file://localhost/etc/passwd" + all, no},
		{trellis.PermitRead, "read File:/etc/passwd" + all, no},
		{trellis.PermitRead, "read file://x" + all, no}, // on the host x
		{trellis.PermitRead, `read+"rawInput":{"uri":"file:///etc/passwd"} x` + all, no},
		{trellis.PermitEdit, "read x" + all, once},
		{trellis.PermitEdit, "edit new/folder/x" + all, once},
		{trellis.PermitEdit, "edit away/x" + all, no}, // a link that leads out of the folder
		{trellis.PermitEdit, "edit /etc/x" + all, no},
		{trellis.PermitEdit, `edit+"locations":[{"path":"/etc/x"}] x` + all, no}, // what an earlier update said counts as well
		{trellis.PermitEdit, `edit+"rawInput":{"file_path":"/etc/x"} x` + all, no},
		{trellis.PermitRead, `read+"rawInput":{"paths":["a","../../x"]} x` + all, no},
		{trellis.PermitEdit, `edit+"rawInput":{"file_path":"y","content":"/etc/x"} x` + all, once},
		{trellis.PermitEdit, `edit+"content":[{"type":"diff","path":"/etc/x"}] x` + all, no},
		{trellis.PermitEdit, "delete x" + all, once},
		{trellis.PermitEdit, "move x" + all, once},
		{trellis.PermitEdit, "execute x" + all, once},
		{trellis.PermitEdit, "other x" + all, once},
		{trellis.PermitEdit, "fetch x" + all, no},
		{trellis.PermitEdit, "switch_mode x" + all, no},
		{trellis.PermitEdit, "edit x reject_always allow_always", never}, // allow_always would also allow all later calls
		{trellis.PermitFull, "edit /etc/x" + all, once},
		{trellis.PermitFull, "fetch x" + all, once},
		{trellis.PermitFull, "edit x reject_once allow_always", always},
		{trellis.PermitFull, "edit x reject_once", no},
	} {
		t.Run(string(c.permission)+" "+c.asked, func(t *testing.T) {
			t.Parallel()
			got := playPart(t, "permission "+c.asked, func(r *agents.Request) {
				r.Permission = c.permission
				if err := os.Symlink("/etc", filepath.Join(r.Dir, "away")); err != nil {
					t.Fatal(err)
				}
			})
			if got.err != nil || !strings.Contains(got.told("permission"), `"selected"`) || !strings.Contains(got.told("permission"), `"`+c.want+`"`) {
				t.Errorf("the answer is %s, %v, want %s", got.told("permission"), got.err, c.want)
			}
			if refused := strings.Contains(got.notices(), "refused: "); refused != (c.want == no || c.want == never) {
				t.Errorf("people were told %q", got.notices())
			}
		})
	}
}

// An agent that accepts no refusal is stopped, and the failure says why.
func TestACPWithoutRefusal(t *testing.T) {
	for part, want := range map[string]string{
		"permission edit x allow_once allow_always": "edit a tool, which it may not, and takes no refusal",
		"permission edit x":                         "takes no refusal",
		"permission edit x ask_again":               "takes no refusal",
	} {
		got := playPart(t, part, permitted(trellis.PermitRead))
		if got.failure.Code != string(trellis.AgentExit) || got.failure.Retryable || !strings.Contains(got.failure.Detail, want) {
			t.Errorf("%s: got %+v, want %q", part, got.failure, want)
		}
		if !strings.Contains(got.told("permission"), `"cancelled"`) || got.told("cancel") != "session/cancel" {
			t.Errorf("%s: it was told %s and %s", part, got.told("permission"), got.told("cancel"))
		}
	}
	got := playPart(t, "permission edit x allow_always", permitted(trellis.PermitEdit))
	if got.failure.Code != string(trellis.AgentExit) || !strings.Contains(got.failure.Detail, "neither that it may this once nor a refusal") {
		t.Errorf("got %+v", got.failure)
	}
}

func TestACPStops(t *testing.T) {
	t.Parallel()
	for stop, want := range map[string]struct {
		code    trellis.Code
		retried bool
	}{
		"end_turn": {}, "max_tokens": {trellis.ContextOverflow, false}, "max_turn_requests": {trellis.AgentExit, true},
		"refusal": {trellis.AgentExit, false}, "cancelled": {trellis.AgentExit, true}, "unheard_of": {trellis.AgentProtocol, false},
	} {
		got := playPart(t, "stop "+stop, nil)
		if got.failure.Code != string(want.code) || got.failure.Retryable != want.retried || got.Stop != stop {
			t.Errorf("%s: got %+v, stop %s, want %+v", stop, got.failure, got.Stop, want)
		}
	}
}

func TestACPFailures(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]trellis.Code{
		"error 429 Rate limit exceeded": trellis.RateLimited, "error 401 no": trellis.AgentAuth, "error -32000 sign in": trellis.AgentAuth,
		"error 500 boom": trellis.ProviderDown, "error -32603 a bug": trellis.AgentExit, "error -32602 bad": trellis.AgentExit,
		"error -32603 the prompt is too long": trellis.ContextOverflow, "version": trellis.AgentExit,
	} {
		began := time.Now()
		got := playPart(t, said, nil)
		if got.failure.Code != string(want) {
			t.Errorf("%s: got %v, want %s", said, got.err, want)
		}
		if at := got.failure.ResumeAt; want == trellis.RateLimited && (at.Before(began.Add(4*time.Minute)) || time.Until(at) > 6*time.Minute) {
			t.Errorf("a limit without an end: resume in %s, want in five minutes", time.Until(at))
		}
	}
}

// Usage that the agent does not report is unknown; what it reports is read in each of its spellings.
func TestACPUsage(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]trellis.Usage{
		`{"stopReason":"end_turn"}`: {},
		`{"stopReason":"end_turn","_meta":{"quota":{"token_count":{"input_tokens":0,"output_tokens":0}}}}`:                                                                    {},
		`{"stopReason":"end_turn","_meta":{"quota":{"token_count":{"input_tokens":70,"output_tokens":8},"model_usage":[{"model":"m-1","token_count":{"input_tokens":70}}]}}}`: {InputTokens: 70, OutputTokens: 8},
		`{"stopReason":"end_turn","usage":{"totalTokens":118,"inputTokens":10,"outputTokens":5,"thoughtTokens":3,"cachedReadTokens":60,"cachedWriteTokens":40}}`:              {InputTokens: 50, OutputTokens: 8, CachedTokens: 60},
		`{"stopReason":"end_turn","usage":{"totalTokens":115,"inputTokens":110,"outputTokens":5,"thoughtTokens":3,"cachedReadTokens":60}}`:                                    {InputTokens: 50, OutputTokens: 5, CachedTokens: 60},
	} {
		got := playPart(t, "answer "+said, nil)
		told := slices.ContainsFunc(got.events, func(e agents.Event) bool { return e.Kind == agents.EventUsage })
		if got.err != nil || got.Text != agentstest.Text || got.Usage.InputTokens != want.InputTokens || got.Usage.OutputTokens != want.OutputTokens || got.Usage.CachedTokens != want.CachedTokens ||
			got.Usage.CostUSD != nil || told != (want.Tokens() > 0) {
			t.Errorf("%s: got %+v, %v, told %v, want %+v", said, got.Result, got.err, told, want)
		}
	}
}

// Input that is not a message, or not of this version, does no harm, and the agent is offered no capabilities of ours.
func TestACPOddities(t *testing.T) {
	got := playPart(t, "odd", nil)
	if got.err != nil || !strings.HasSuffix(got.Text, agentstest.Text) || strings.Contains(got.Text, "it was given") {
		t.Errorf("got %+v, %v", got.Result, got.err)
	}
	if !strings.Contains(got.notices(), "plan: 1 of 2 done") {
		t.Errorf("people were told %q", got.notices())
	}
	want := `{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false}}`
	if got.told("initialize") != want {
		t.Errorf("it was offered %s", got.told("initialize"))
	}
}

func TestACPSignsIn(t *testing.T) {
	t.Parallel()
	got := playPart(t, "auth", nil, "MOCK_API_KEY=dummy")
	if got.err != nil || got.told("authenticate") != `{"methodId":"mock-api-key"}` {
		t.Errorf("with a key: got %v, told %s", got.err, got.told("authenticate"))
	}
	got = playPart(t, "auth", nil)
	if got.failure.Code != string(trellis.AgentAuth) || got.told("authenticate") != "" || !strings.Contains(got.failure.Detail, "login, mock-api-key") {
		t.Errorf("without one: got %v, told %s", got.err, got.told("authenticate"))
	}
	if got = playPart(t, "answers", nil, "MOCK_API_KEY=dummy"); got.err != nil || got.told("authenticate") != "" {
		t.Errorf("where nobody asks for it: got %v, told %s", got.err, got.told("authenticate"))
	}
}

func TestACPModel(t *testing.T) {
	t.Parallel()
	for part, want := range map[string]string{
		"answers": `session/set_model {"sessionId":"s-1","modelId":"m-7"}`,
		"option":  `session/set_config_option {"sessionId":"s-1","configId":"which","value":"m-7"}`,
	} {
		got := playPart(t, part, func(r *agents.Request) { r.Model = "m-7" })
		if got.err != nil || got.told("model") != want || got.Model != "m-7" {
			t.Errorf("%s: got %+v, %v, told %s", part, got.Result, got.err, got.told("model"))
		}
		if got = playPart(t, part, nil); got.err != nil || got.told("model") != "" || got.Model != "m-0" {
			t.Errorf("%s without one: got %+v, %v, told %s", part, got.Result, got.err, got.told("model"))
		}
	}
	got := playPart(t, "no-model", func(r *agents.Request) { r.Model = "m-7" })
	if got.failure.Code != string(trellis.AgentExit) || got.failure.Retryable || !strings.Contains(got.failure.Detail, "m-7") || got.told("prompt") != "" {
		t.Errorf("no choice: got %v", got.err)
	}
}

// A session is never resumed, and a prompt is never taken for a command.
func TestACPBeginsAnew(t *testing.T) {
	got := playPart(t, "answers", func(r *agents.Request) { r.Session, r.Prompt = "s-0", " /memory show" })
	if got.err != nil || got.Session != "" || !strings.Contains(got.told("session"), `"cwd":"/`) || got.told("prompt") != "The request:\n\n /memory show" {
		t.Errorf("got %+v, %v, told %s and %s", got.Result, got.err, got.told("session"), got.told("prompt"))
	}
}

// A run that is cancelled is ended by the agent itself if it can: the usage that it reports then counts.
func TestACPIsCalledOff(t *testing.T) {
	st, _ := acpStage(t, "late")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	r := agents.Request{Role: trellis.Implement, Prompt: "do it", Dir: st.Dir, Permission: trellis.PermitEdit, RunDir: t.TempDir()}
	res, err := st.Agent.Run(ctx, r, func(e agents.Event) {
		if e.Kind == agents.EventTool {
			cancel(enough)
		}
	})
	if !errors.Is(err, enough) || res.Usage.InputTokens != 7 || res.Usage.OutputTokens != 5 {
		t.Errorf("got %+v, %v", res, err)
	}
}

// How an agent exits after its answer says nothing about its work, and no process of it is left.
func TestACPLeaves(t *testing.T) {
	if got := playPart(t, "leaves", nil); got.err != nil || got.Text != agentstest.Text {
		t.Errorf("got %+v, %v", got.Result, got.err)
	}
}
