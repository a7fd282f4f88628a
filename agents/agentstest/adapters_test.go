package agentstest_test

import (
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
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// given is what a program was given in one run, and the result.
type given struct {
	argv       []string
	env, stdin string
	dir        string // RunDir
	seen       string // folder in which the program records what it was given
	result     *agents.Result
	err        error
}

// try runs the adapter of cli with the program f.
func try(t *testing.T, cli string, f fake, change func(*agents.Request), environ ...string) given {
	t.Helper()
	bin := t.TempDir()
	seen := f.install(t, filepath.Join(bin, cli))
	environ = append([]string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=/nowhere", "UNRELATED=1", "LC_ALL=C", "AWS_REGION=x"}, environ...)
	a, err := agents.New(cli, agents.Options{Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	r := agents.Request{Role: trellis.Implement, Prompt: "the prompt", System: "the system", Dir: t.TempDir(), Permission: trellis.PermitEdit,
		RunDir: t.TempDir(), Marker: "adapters-" + filepath.Base(seen), Env: []string{"TRELLIS_ROLE=implement"}}
	change(&r)
	g := given{dir: r.RunDir, seen: seen}
	g.result, g.err = a.Run(t.Context(), r, func(e agents.Event) {
		if e.Kind != agents.EventNotice {
			return
		}
		if err := os.WriteFile(filepath.Join(seen, "noticed"), nil, 0o600); err != nil {
			t.Error(err)
		}
	})
	if !there(filepath.Join(seen, "stdin")) {
		return g // a limit struck before the program began
	}
	g.argv = strings.Split(strings.TrimSuffix(get(t, seen, "argv"), "\n"), "\n")
	g.env, g.stdin = get(t, seen, "env"), get(t, seen, "stdin")
	return g
}

func nothing(*agents.Request) {}

// untilNoticed is the shell command of a program that waits until its output was noticed.
const untilNoticed = `while [ ! -e "$seen/noticed" ]; do sleep 0.01; done`

func idle(l *agents.Limits, d time.Duration) { l.Idle = d }
func wall(l *agents.Limits, d time.Duration) { l.Wall = d }

// struck runs a program that prints its output and stays until a limit ends it. On a busy machine the limit may strike
// before the output is there: then the limit is raised (edge A16).
func struck(t *testing.T, cli string, f fake, limit func(*agents.Limits, time.Duration), environ ...string) (g given) {
	t.Helper()
	f.after += "\n: >\"$seen/spoke\"; sleep 3000 & wait"
	for d := time.Second; d < agentstest.Hang; d *= 3 {
		g = try(t, cli, f, func(r *agents.Request) { limit(&r.Limits, d) }, environ...)
		spoke, err := os.Stat(filepath.Join(g.seen, "spoke"))
		if err == nil && (f.stream == "" || time.Since(spoke.ModTime()) >= d) { // otherwise its output may not have been read
			return g
		}
	}
	t.Fatalf("%s did not come to say what it has to: %v", cli, g.err)
	return g
}

func answering(t *testing.T, cli string) fake { return fake{stream: recorded(t, cli, "answers")} }

var clis = []string{agents.Claude, agents.Codex, agents.OpenCode}

func TestEnvironmentIsAList(t *testing.T) {
	for _, cli := range clis {
		g := try(t, cli, answering(t, cli), nothing, "OPENAI_API_KEY=key-0123456789", "TRELLIS_ROLE=other", "CLAUDECODE=1")
		for _, want := range []string{"\nHOME=/nowhere\n", "\nLC_ALL=C\n", "\nTRELLIS_ROLE=implement\n", "\nAWS_REGION=x\n", "\nTRELLIS_RUN_MARKER=adapters-"} {
			if !strings.Contains("\n"+g.env, want) {
				t.Errorf("%s: the environment has no %q", cli, want)
			}
		}
		for _, no := range []string{"UNRELATED=", "TRELLIS_ROLE=other", "CLAUDECODE="} {
			if strings.Contains(g.env, no) {
				t.Errorf("%s: the environment has %s", cli, no)
			}
		}
		if got, want := strings.Contains(g.env, "OPENAI_API_KEY=key"), cli != agents.Claude; got != want {
			t.Errorf("%s: gets the other provider's key: %v, want %v", cli, got, want)
		}
	}
}

// The credentials of a cloud are only for the agent whose model is there (edges S7 and A8).
func TestAccountsOfClouds(t *testing.T) {
	all := []string{"AWS_SECRET_ACCESS_KEY=aws", "GOOGLE_APPLICATION_CREDENTIALS=google", "AZURE_CLIENT_SECRET=azure"}
	for _, c := range []struct {
		cli, model, variable string
		want                 []string
	}{
		{cli: agents.Claude}, {cli: agents.Codex}, {cli: agents.OpenCode},
		{cli: agents.Claude, variable: "CLAUDE_CODE_USE_BEDROCK=1", want: []string{"aws"}},
		{cli: agents.Claude, variable: "CLAUDE_CODE_USE_VERTEX=1", want: []string{"google"}},
		{cli: agents.OpenCode, model: "amazon-bedrock/x", want: []string{"aws"}},
		{cli: agents.OpenCode, model: "google-vertex-anthropic/x", want: []string{"google"}},
	} {
		g := try(t, c.cli, answering(t, c.cli), func(r *agents.Request) { r.Model = c.model }, append(slices.Clone(all), c.variable)...)
		for _, kv := range all {
			_, cloud, _ := strings.Cut(kv, "=")
			if got, want := strings.Contains("\n"+g.env, "\n"+kv+"\n"), slices.Contains(c.want, cloud); got != want {
				t.Errorf("%s %s %s: gets the account of %s: %v, want %v", c.cli, c.model, c.variable, cloud, got, want)
			}
		}
	}
}

func TestPromptGoesToStandardInputAlone(t *testing.T) {
	for _, cli := range clis {
		g := try(t, cli, answering(t, cli), func(r *agents.Request) { r.Session = "ses-1"; r.Model = "m/1" })
		if g.stdin != "the prompt" || slices.Contains(g.argv, "the prompt") {
			t.Errorf("%s: got stdin %q, argv %q", cli, g.stdin, g.argv)
		}
		if !slices.Contains(g.argv, "ses-1") || !slices.Contains(g.argv, "m/1") {
			t.Errorf("%s: argv lacks session or model: %q", cli, g.argv)
		}
	}
}

// TestPermissions holds the permissions of each adapter.
func TestPermissions(t *testing.T) {
	const any = `"*": allow`
	for _, c := range []struct {
		cli  string
		p    trellis.Permission
		want []string // in this order, in argv or the agent definition
		no   []string
	}{
		{agents.Claude, trellis.PermitNone, []string{"--tools\n\n"}, []string{"Read", "dangerously", "allowedTools"}},
		{agents.Claude, trellis.PermitRead, []string{"--tools\nRead,Glob,Grep\n"}, []string{"Bash", "Write", "dangerously", "acceptEdits"}},
		{agents.Claude, trellis.PermitEdit, []string{"Bash", "--permission-mode\nacceptEdits\n", "--allowedTools\nBash\n"}, []string{"dangerously", "Web"}},
		{agents.Claude, trellis.PermitFull, []string{"--dangerously-skip-permissions\n"}, []string{"--tools"}},
		{agents.Codex, trellis.PermitNone, []string{"-s\nread-only\n", "features.shell_tool=false\n"}, []string{"workspace", "bypass"}},
		{agents.Codex, trellis.PermitRead, []string{"-s\nread-only\n"}, []string{"workspace", "bypass"}},
		{agents.Codex, trellis.PermitEdit, []string{"-s\nworkspace-write\n"}, []string{"bypass", "read-only"}},
		{agents.Codex, trellis.PermitFull, []string{"--dangerously-bypass-approvals-and-sandbox\n"}, []string{"-s\n"}},
		{agents.OpenCode, trellis.PermitNone, []string{`{"*": deny}`}, []string{"allow", "--auto"}},
		{agents.OpenCode, trellis.PermitRead, []string{`"*": deny`, "read: allow"}, []string{any, "bash", "edit", "--auto"}},
		{agents.OpenCode, trellis.PermitEdit, []string{any, "external_directory: deny", "task: deny", "webfetch: deny"}, []string{"--auto"}},
		{agents.OpenCode, trellis.PermitFull, []string{any}, []string{"external_directory", "--auto"}},
	} {
		g := try(t, c.cli, answering(t, c.cli), func(r *agents.Request) { r.Permission = c.p })
		said := strings.Join(g.argv, "\n") + "\n"
		if c.cli == agents.OpenCode {
			said += get(t, g.dir, "opencode", "agents", "trellis.md")
		}
		rest := said
		for _, want := range c.want {
			_, after, ok := strings.Cut(rest, want)
			if rest = after; !ok {
				t.Errorf("%s %s: no %q, or not in that place, in %q", c.cli, c.p, want, said)
			}
		}
		for _, no := range c.no {
			if strings.Contains(said, no) {
				t.Errorf("%s %s: there is %q in %q", c.cli, c.p, no, said)
			}
		}
		if got, want := strings.Contains(g.env, "IS_SANDBOX=1"), c.cli == agents.Claude && c.p == trellis.PermitFull && os.Geteuid() == 0; got != want {
			t.Errorf("%s %s: IS_SANDBOX %v, want %v", c.cli, c.p, got, want)
		}
	}
}

func TestSystemPrompt(t *testing.T) {
	if g := try(t, agents.Claude, answering(t, agents.Claude), nothing); get(t, g.dir, "system.md") != "the system" || !slices.Contains(g.argv, filepath.Join(g.dir, "system.md")) {
		t.Errorf("claude: got %q", g.argv)
	}
	odd := func(r *agents.Request) { r.System = "a \"b\"\n\tc\\d" }
	if g := try(t, agents.Codex, answering(t, agents.Codex), odd); !strings.Contains(strings.Join(g.argv, "\n"), `developer_instructions="a \"b\"\n\tc\\d\n\nThe sandbox`) {
		t.Errorf("codex: got %q", g.argv)
	}
	if g := try(t, agents.OpenCode, answering(t, agents.OpenCode), nothing); !strings.HasSuffix(get(t, g.dir, "opencode", "agents", "trellis.md"), "---\nthe system\n") {
		t.Error("opencode: the agent definition does not end with the system prompt")
	}
}

func TestClaudeKeepsPromptsFromBeingCommands(t *testing.T) {
	g := try(t, agents.Claude, answering(t, agents.Claude), func(r *agents.Request) { r.Prompt = " /compact @/etc/passwd" })
	if strings.HasPrefix(strings.TrimSpace(g.stdin), "/") || !strings.HasSuffix(g.stdin, "\n\n /compact @/etc/passwd") {
		t.Errorf("got %q", g.stdin)
	}
	if !strings.Contains(g.env, "CLAUDE_CODE_DISABLE_ATTACHMENTS=1\n") {
		t.Error("attachments are on")
	}
}

// A claude that is interrupted may report at its end that it used nothing: what it reported before counts.
func TestClaudeInterruptedUsedWhatItTold(t *testing.T) {
	stream := `{"type":"assistant","message":{"id":"msg_1","content":[{"type":"text","text":"I begin."}],"usage":{"input_tokens":5000,"output_tokens":1}}}
{"type":"result","subtype":"error_during_execution","is_error":true,"total_cost_usd":0,"usage":{"input_tokens":0,"output_tokens":0}}
`
	if g := try(t, agents.Claude, fake{stream: stream}, nothing); g.err == nil || g.result.Usage.Tokens() != 5001 {
		t.Errorf("got %+v, %v, want a failure that used 5001 tokens", g.result, g.err)
	}
}

func TestClaudeRetriesAreBounded(t *testing.T) {
	if g := try(t, agents.Claude, answering(t, agents.Claude), nothing); !strings.Contains(g.env, "CLAUDE_CODE_MAX_RETRIES=2\n") {
		t.Error("retries have no bound")
	}
	if g := try(t, agents.Claude, answering(t, agents.Claude), nothing, "CLAUDE_CODE_MAX_RETRIES=5"); !strings.Contains(g.env, "CLAUDE_CODE_MAX_RETRIES=5\n") {
		t.Error("the user's own bound is lost")
	}
}

func TestOpenCodeEndsThatExitZero(t *testing.T) {
	cut := strings.ReplaceAll(recorded(t, agents.OpenCode, "answers"), `"reason":"stop"`, `"reason":"length"`)
	for name, c := range map[string]struct {
		f    fake
		code trellis.Code
		says string
	}{
		"cut":         {fake{stream: cut}, trellis.AgentProtocol, "length"},
		"other agent": {fake{before: `echo 'agent "trellis" not found. Falling back to default agent' >&2`, stream: recorded(t, agents.OpenCode, "answers")}, trellis.AgentExit, "definition"},
		"silent exit": {fake{}, trellis.EmptyOutput, "printed nothing"},
	} {
		g := try(t, agents.OpenCode, c.f, nothing)
		var f *flow.Failure
		if !errors.As(g.err, &f) || f.Code != string(c.code) || !strings.Contains(f.Detail, c.says) {
			t.Errorf("%s: got %v, want %s with %q", name, g.err, c.code, c.says)
		}
	}
}

func TestCodexCountsOneRunOfAThread(t *testing.T) {
	home := t.TempDir()
	stream := recorded(t, agents.Codex, "answers") // its thread has used 1250 in (50 cached), 40 out
	f := fake{stream: stream, before: ":"}
	leave := leaveRecord(t, home, `{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":1000,"cached_input_tokens":40,"output_tokens":30}}}}`+"\n", stream)
	if g := try(t, agents.Codex, fake{stream: stream, before: leave}, nothing, "CODEX_HOME="+home+"/.codex"); g.err != nil || g.result.Usage.InputTokens != 1200 {
		t.Errorf("a new thread: got %+v, %v", g.result, g.err)
	}
	session := func(r *agents.Request) { r.Session = strings.Split(stream, `"`)[7] }
	g := try(t, agents.Codex, f, session, "CODEX_HOME="+home+"/.codex")
	if u := g.result.Usage; g.err != nil || u.InputTokens != 240 || u.CachedTokens != 10 || u.OutputTokens != 10 {
		t.Errorf("a thread that goes on: got %+v, %v, want 240 in, 10 cached, 10 out", g.result, g.err)
	}
}

// Codex sometimes omits all its commands from the stream. Its record has them, and also those of earlier runs.
func TestCodexLeavesOutCommands(t *testing.T) {
	home := t.TempDir()
	var stream strings.Builder
	for line := range strings.Lines(recorded(t, agents.Codex, "answers")) {
		if !strings.Contains(line, "command_execution") {
			stream.WriteString(line)
		}
	}
	const call = `{"type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{}"}}` + "\n" +
		`{"type":"response_item","payload":{"type":"function_call_output","output":"function_call"}}` + "\n"
	leave := leaveRecord(t, home, call, stream.String())
	again := fmt.Sprintf("echo '%s' | tee -a '%s'/.codex/sessions/*/*/*/*.jsonl > /dev/null", strings.TrimSpace(call+call), home)
	session := func(r *agents.Request) { r.Session = strings.Split(stream.String(), `"`)[7] }
	for _, c := range []struct {
		before string
		change func(*agents.Request)
		calls  int
	}{{leave, nothing, 1}, {again, session, 2}} {
		g := try(t, agents.Codex, fake{stream: stream.String(), before: c.before}, c.change, "CODEX_HOME="+home+"/.codex")
		if g.err != nil || g.result.ToolCalls != c.calls {
			t.Errorf("got %+v, %v, want %d calls", g.result, g.err, c.calls)
		}
	}
}

func TestCodexRunsTheNativeProgram(t *testing.T) {
	npm := t.TempDir()
	native := filepath.Join(npm, "@openai", "codex-linux-x64", "vendor", "x86_64-unknown-linux-musl", "bin")
	wrapper := filepath.Join(npm, "@openai", "codex", "bin", "codex.js")
	for _, dir := range []string{native, filepath.Dir(wrapper), filepath.Join(npm, ".bin")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	put(t, wrapper, "#!/bin/sh\nexit 9\n", 0o700)
	if err := os.Symlink(wrapper, filepath.Join(npm, ".bin", "codex")); err != nil {
		t.Fatal(err)
	}
	answering(t, agents.Codex).install(t, filepath.Join(native, "codex"))
	a, err := agents.New(agents.Codex, agents.Options{Environ: []string{"PATH=" + filepath.Join(npm, ".bin") + ":/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	r := agents.Request{Role: trellis.Check, Prompt: "p", Dir: t.TempDir(), RunDir: t.TempDir(), Permission: trellis.PermitEdit}
	if res, err := a.Run(t.Context(), r, nil); err != nil || res.Text != agentstest.Text {
		t.Errorf("got %+v, %v: the wrapper ran", res, err)
	}
}

func TestMissingProgram(t *testing.T) {
	o := agents.Options{Environ: []string{"PATH=" + t.TempDir()}, Commands: map[string]agents.Command{"mine": {Argv: []string{"./none"}}}, Root: t.TempDir()}
	for _, name := range append([]string{"mine"}, clis...) {
		a, err := agents.New(name, o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Run(t.Context(), agents.Request{Dir: t.TempDir(), RunDir: t.TempDir()}, nil)
		check := agents.Check(t.Context(), name, o)
		for _, err := range []error{err, check} {
			if !errors.Is(err, &flow.Failure{Code: string(trellis.AgentMissing)}) {
				t.Errorf("%s: got %v, want %s", name, err, trellis.AgentMissing)
			}
		}
	}
	if _, err := agents.New("nobody", o); !errors.Is(err, agents.ErrUnknown) || !strings.Contains(err.Error(), "claude, codex, mine, opencode, rehearsal") {
		t.Errorf("got %v", err)
	}
}

func TestProgramThatCannotRun(t *testing.T) {
	bin := t.TempDir()
	put(t, filepath.Join(bin, "claude"), "#!/nowhere/interpreter\n", 0o700)
	a, err := agents.New(agents.Claude, agents.Options{Environ: []string{"PATH=" + bin}})
	if err != nil {
		t.Fatal(err)
	}
	r := agents.Request{Dir: t.TempDir(), RunDir: t.TempDir()}
	if _, err := a.Run(t.Context(), r, nil); !errors.Is(err, &flow.Failure{Code: string(trellis.AgentMissing)}) {
		t.Errorf("no interpreter: got %v, want %s", err, trellis.AgentMissing)
	}
	r.Dir = filepath.Join(r.Dir, "gone")
	var f *flow.Failure
	if _, err := a.Run(t.Context(), r, nil); err == nil || errors.As(err, &f) {
		t.Errorf("no directory: got %v, want an error that blames no agent", err)
	}
}

// TestSilenceAfterALimit: a program that says why it waits is not idle.
func TestSilenceAfterALimit(t *testing.T) {
	t.Parallel()
	for cli, line := range map[string]string{
		agents.Claude: `{"type":"system","subtype":"api_retry","attempt":1,"max_retries":2,"retry_delay_ms":120000,"error_status":429,"error":"rate_limit"}`,
		agents.Codex:  `{"type":"error","message":"Reconnecting... 1/5 (exceeded retry limit, last status: 429 Too Many Requests)"}`,
	} {
		began := time.Now()
		g := struck(t, cli, fake{stream: line + "\n"}, idle)
		var f *flow.Failure
		if !errors.As(g.err, &f) || f.Code != string(trellis.RateLimited) {
			t.Fatalf("%s: got %v, want %s", cli, g.err, trellis.RateLimited)
		}
		if f.ResumeAt.Before(began.Add(time.Minute)) || time.Until(f.ResumeAt) > 6*time.Minute {
			t.Errorf("%s: got resume in %s, want in minutes", cli, time.Until(f.ResumeAt))
		}
		again := `{"type":"assistant","message":{"content":[]}}`
		if cli == agents.Codex {
			again = `{"type":"item.started","item":{"type":"command_execution","command":"make"}}`
		}
		g = struck(t, cli, fake{stream: line + "\n" + again + "\n"}, idle)
		if !errors.As(g.err, &f) || f.Code != string(trellis.TimeoutIdle) {
			t.Errorf("%s went on after the limit: got %v, want %s", cli, g.err, trellis.TimeoutIdle)
		}
	}
}

func TestCostIsBounded(t *testing.T) {
	cheap := func(r *agents.Request) { r.Limits.CostUSD = 0.001; r.Limits.Idle = agentstest.Hang }
	g := try(t, agents.OpenCode, fake{stream: recorded(t, agents.OpenCode, "spends"), after: "sleep 3000"}, cheap)
	if !errors.Is(g.err, &flow.Failure{Code: string(trellis.BudgetCost)}) || g.result.Usage.CostUSD == nil {
		t.Errorf("opencode: got %+v, %v, want %s", g.result, g.err, trellis.BudgetCost)
	}
	for _, cli := range clis {
		g := try(t, cli, answering(t, cli), func(r *agents.Request) { r.Limits.CostUSD = 0.0001; r.Limits.Tokens = 100_000 })
		if cli != agents.OpenCode && (g.err != nil || g.result.Text != agentstest.Text) { // opencode reports its cost before the end
			t.Errorf("%s: a run that ends with its budget spent: got %+v, %v, want its result", cli, g.result, g.err)
		}
	}
	over := strings.ReplaceAll(recorded(t, agents.Claude, "answers"), `"subtype":"success"`, `"subtype":"error_max_budget_usd"`)
	g = try(t, agents.Claude, fake{stream: over, exit: 1}, cheap)
	if !errors.Is(g.err, &flow.Failure{Code: string(trellis.BudgetCost)}) || !strings.Contains(strings.Join(g.argv, " "), "--max-budget-usd 0.001") {
		t.Errorf("claude: got %q, %v, want %s", g.argv, g.err, trellis.BudgetCost)
	}
}

// TestLogsAreCapped: the log of a program that prints without limit is cut at a limit, and says so. The run
// continues.
func TestLogsAreCapped(t *testing.T) {
	t.Parallel()
	const most = 64 << 20
	lots := `yes "$(printf '%100000s' x)" | head -n 700`
	for name, before := range map[string]string{"stream.jsonl": lots, "stderr.log": lots + " >&2"} {
		g := try(t, agents.Claude, fake{before: before, stream: recorded(t, agents.Claude, "answers")}, nothing)
		if g.err != nil || g.result.Text != agentstest.Text {
			t.Errorf("%s: got %+v, %v", name, g.result, g.err)
		}
		log := get(t, g.dir, name)
		if len(log) < most || len(log) > most+100 || !strings.HasSuffix(log, " more bytes are not kept ...]\n") {
			t.Errorf("%s has %d bytes and ends with %q", name, len(log), log[max(0, len(log)-100):])
		}
	}
}

// TestLastWordsAfterAStop: what a program prints because it was interrupted is not the reason why the run failed, but
// its usage counts.
func TestLastWordsAfterAStop(t *testing.T) {
	t.Parallel()
	words := `{"type":"result","subtype":"error_during_execution","is_error":true,"result":"aborted","total_cost_usd":0.5,"usage":{"input_tokens":7,"output_tokens":8}}`
	g := struck(t, agents.Claude, fake{before: "trap 'echo '\\''" + words + "'\\''; exit 1' INT"}, wall)
	if !errors.Is(g.err, &flow.Failure{Code: string(trellis.TimeoutWall)}) || g.result.Usage.OutputTokens != 8 {
		t.Errorf("got %+v, %v, want %s and the usage", g.result, g.err, trellis.TimeoutWall)
	}
}
