package workflow_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// quoted returns a text as a JSON string.
func quoted(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// worst returns the first step that did not end well, or the zero Outcome.
func worst(rep workflow.Report) workflow.Outcome { return append(rep.Worst, workflow.Outcome{})[0] }

// hears records the events of steps from now on. The function that it returns returns them.
func (b *bench) hears() func() []workflow.Event {
	var mu sync.Mutex
	var list []workflow.Event
	tell := b.acts.Event
	b.acts.Event = func(e workflow.Event) {
		tell(e)
		mu.Lock()
		defer mu.Unlock()
		list = append(list, e)
	}
	return func() []workflow.Event { mu.Lock(); defer mu.Unlock(); return list }
}

// The report tells how a command ended: an exit code, a missing program or one that can't be run, a signal, a time limit.
func TestExitCodesOfScripts(t *testing.T) {
	for command, want := range map[string]workflow.Outcome{
		"exit 3":                   {Code: 3, Detail: "its command exited with 3"},
		"no-such-program-x":        {Code: 127, Detail: "its command exited with 127"},
		"touch f; ./f":             {Code: 126, Detail: "its command exited with 126"},
		"kill -SEGV $$":            {Code: 139, Detail: "its command was ended by SIGSEGV"},
		"exec sh -c 'kill $$'":     {Code: 143, Detail: "its command was ended by SIGTERM"},
		"sh -c 'kill -9 $$'":       {Code: 137, Detail: "its command was ended by SIGKILL"}, // bash replaces itself by the last command that it runs
		"sh -c 'kill -9 $$' | cat": {Code: 137, Detail: "its command exited with 137"},
		"sleep 60":                 {Code: 124, TimedOut: true, Detail: "its command took longer than its time limit"},
	} {
		limit := ""
		if want.TimedOut {
			limit = `, "timeout_seconds": 0.1`
		}
		rep := newBench(t, `{"id": "a", "command": `+quoted(command)+limit+`}, {"id": "b", "command": "true"}`).do(workflow.Options{})
		got := worst(rep)
		if got.Code != want.Code || got.Detail != want.Detail || got.TimedOut != want.TimedOut || rep.TimedOut != want.TimedOut || rep.Failure() == nil || rep.Done != 0 {
			t.Errorf("%s: got %+v, want %+v", command, got, want)
		}
	}
}

// If a time limit ends a step, every step around it and the report are marked as timed out, unless the failure is tolerated.
func TestTimeLimitIsKeptThroughWhatIsAround(t *testing.T) {
	for name, c := range map[string]struct {
		steps string
		timed bool
	}{
		"a group":           {`{"id": "g", "steps": [{"id": "a", "command": "sleep 60", "timeout_seconds": 0.1}]}`, true},
		"a loop":            {`{"id": "a", "repeat": 2, "command": "sleep 60", "timeout_seconds": 0.1}`, true},
		"a pool":            {`{"id": "a", "repeat": 2, "concurrency": 2, "command": "sleep 60", "timeout_seconds": 0.1}`, true},
		"a group in a pool": {`{"id": "l", "repeat": 2, "concurrency": 2, "steps": [{"id": "a", "command": "sleep 60", "timeout_seconds": 0.1}]}`, true},
		"healing":           {`{"id": "a", "command": "sleep 60", "timeout_seconds": 0.1, "self_healing": true, "max_healing_attempts": 2}`, true},
		"healing in a pool": {`{"id": "a", "repeat": 2, "concurrency": 2, "command": "sleep 60", "timeout_seconds": 0.1, "self_healing": true, "max_healing_attempts": 2}`, true},
		"a check":           {`{"id": "a", "command": "true", "verify": "sleep 60", "timeout_seconds": 0.1}`, true},
		"a loop's command":  {`{"id": "a", "for_each": "sleep 60", "command": "true", "timeout_seconds": 0.1}`, true},
		"tolerated":         {`{"id": "g", "continue_on_error": true, "steps": [{"id": "a", "command": "sleep 60", "timeout_seconds": 0.1}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.steps)
			b.script(map[string][]agentcall.Reply{"heal": {{Excerpt: "tried"}}})
			rep := b.do(workflow.Options{})
			if rep.TimedOut != c.timed || (rep.Failure() != nil) != c.timed || c.timed && worst(rep).Code != 124 {
				t.Errorf("got %+v", rep)
			}
		})
	}
}

// A command that ignores SIGTERM is killed together with all processes that it started; its earlier output is kept.
func TestTimeLimitEndsTheGroup(t *testing.T) {
	t.Parallel()
	var b *bench
	said := ""
	for limit := 0.5; !strings.Contains(said, "said") && limit < 100; limit *= 4 { // on a busy machine it may print nothing within its time limit
		b = newBench(t, fmt.Sprintf(`{"id": "a", "timeout_seconds": %v, "command": "trap '' TERM; sleep 3000 & echo $! > pid; echo said; while :; do sleep 0.1; done"}`, limit))
		heard := b.hears()
		began := time.Now()
		rep := b.do(workflow.Options{})
		for _, e := range heard() {
			said += e.Text
		}
		if took := time.Since(began); worst(rep).Code != 124 || strings.Contains(said, "said") && took < 5*time.Second || took > 15*time.Minute {
			t.Errorf("after %v: %+v", took, rep)
		}
	}
	var pid int
	if _, err := fmt.Sscan(b.read("pid"), &pid); err != nil {
		t.Fatal(err)
	}
	if (proc.ID{PID: pid}).Alive() {
		t.Errorf("process %d is still there", pid)
	}
	if !strings.Contains(said, "said") {
		t.Errorf("what it said is lost: %q", said)
	}
}

// Output of any size and any bytes is safe. What is cut says so; a character that comes in two parts is one.
func TestOutputOfAnyKind(t *testing.T) {
	b := newBench(t, `{"id": "big", "command": "printf begin; head -c 12000000 /dev/zero | tr '\\0' x; printf end", "output": "o"},
		{"id": "odd", "command": "printf 'a\\377\\376\\000b'", "output": "p"},
		{"id": "halves", "command": "printf 'x\\n\\303'; sleep 0.2; printf '\\244\\n'; printf '\\342\\202' >&2; sleep 0.1; printf '\\254' >&2", "output": "q"}`, `"vars": {"o": "big", "p": "odd", "q": "halves"}`)
	heard := b.hears()
	if rep := b.do(workflow.Options{}); rep.Done != 3 {
		t.Fatalf("got %+v", rep)
	}
	big := b.read("big")
	if len(big) > 11<<20 || len(big) < 9<<20 || !strings.HasPrefix(big, "begin") || !strings.HasSuffix(big, "end") || strings.Trim(big[5:len(big)-3], "x") == "" {
		t.Errorf("%d bytes, %q … %q, in the middle %q", len(big), big[:9], big[len(big)-9:], strings.Trim(big[5:len(big)-3], "x"))
	}
	if got := b.read("odd"); got != "a\xff\xfe\x00b" {
		t.Errorf("got %q", got)
	}
	if got := b.read("halves"); got != "x\nä\n" {
		t.Errorf("got %q", got)
	}
	var halves []string
	for _, e := range heard() {
		if e.Type == workflow.StepOutput && e.Step == "halves" {
			halves = append(halves, e.Text)
		}
		if raw, err := json.Marshal(e); err != nil || !utf8.Valid(raw) {
			t.Errorf("an event can't be told: %v", err)
		}
	}
	if got := strings.Join(halves, " "); got != "x ä €" {
		t.Errorf("told was %q", got)
	}
}

// A command that creates a pipe in place of its output file does not block the run.
func TestOutputIntoAPipe(t *testing.T) {
	b := newBench(t, `{"id": "a", "command": "mkfifo it; echo x", "output": "o"}`, `"vars": {"o": "it"}`)
	rep := b.do(workflow.Options{})
	if fail := rep.Failure(); fail == nil || !strings.Contains(fail.Error(), "not a file") {
		t.Errorf("got %v, want that it is not a file", fail)
	}
}

// A file that proves a step may be larger than what fits into memory, unless a text is searched for in it.
func TestLargeFileProves(t *testing.T) {
	for proof, want := range map[string]string{
		``:                  "",
		`, "contains": "x"`: "it is larger than the 64 MB that Trellis reads",
		`, "sha256": "` + strings.Repeat("0", 64) + `"`: "big has the SHA-256 ",
	} {
		rep := newBench(t, `{"id": "a", "command": "truncate -s 70M big", "proof": {"type": "file", "path": "big"`+proof+`}}`, `"vars": {}`).do(workflow.Options{})
		if fail := rep.Failure(); (fail != nil) != (want != "") || fail != nil && !strings.Contains(fail.Error(), want) {
			t.Errorf("%s: got %v, want %q", proof, fail, want)
		}
	}
}

// Values reach a command unchanged: literally in its text, and without any quoting in its environment.
func TestValuesReachScripts(t *testing.T) {
	const nasty = "$& $$5 $1 `id` $(id) \"q\" 'p' \\n {{w}} a{{item}}b;|&<>*?\nsecond line é\n "
	b := newBench(t, `{"id": "a", "for_each": [`+quoted(nasty)+`, "--", ""], "as": "it", "command": "printf '%s.' \"$it\" >> log"},
		{"id": "b", "command": "cat <<'END' >> text\n{{v}}\nEND"}`, `"vars": {"v": `+quoted(nasty)+`, "w": "no"}`)
	if rep := b.do(workflow.Options{}); rep.Failure() != nil {
		t.Errorf("got %+v", rep)
	}
	if got := b.read("log"); got != strings.ReplaceAll(nasty, "{{w}}", "no")+".--.." {
		t.Errorf("in the environment: %q", got)
	}
	if got := b.read("text"); got != nasty+"\n" {
		t.Errorf("in the text: %q", got)
	}
}

// A command gets no input, and only the environment that is set for it.
func TestWhatScriptsGet(t *testing.T) {
	t.Setenv("NOT_FOR_SCRIPTS", "x")
	b := newBench(t, `{"id": "a", "repeat": 1, "command": "cat; env | cut -d= -f1 | sort > env; pwd > dir"}`)
	b.acts.Marker = "m4rk"
	if rep := b.do(workflow.Options{}); rep.Done != 1 {
		t.Fatalf("got %+v", rep)
	}
	var more []string
	for _, name := range strings.Fields(b.read("env")) {
		switch name {
		case "PATH", "PWD", "OLDPWD", "SHLVL", "_":
		default:
			more = append(more, name)
		}
	}
	if got, want := strings.Join(more, " "), "TRELLIS_CALL_MARKER "+proc.MarkerVar+" item"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if dir, err := filepath.EvalSymlinks(b.Dir); err != nil || strings.TrimSpace(b.read("dir")) != dir {
		t.Errorf("it ran in %s, want %s", b.read("dir"), dir)
	}
}

// The environment of a step's command marks it as part of a run, so that neither it nor the processes that it starts
// can decide about the run.
func TestScriptsKnowThatTheyAreWithinARun(t *testing.T) {
	b := newBench(t, `{"id": "a", "command": "env > env"}`)
	b.acts.Marker = "m4rk"
	b.do(workflow.Options{})
	env := strings.Split(b.read("env"), "\n")
	if m, _ := proc.Getenv(env, proc.MarkerVar); m != "m4rk" || !proc.StartedByRun(env) {
		t.Errorf("got %q, %t", m, proc.StartedByRun(env))
	}
}

// Warnings in the output of a command that succeeds don't fail its step.
func TestWarningsDoNotFail(t *testing.T) {
	rep := newBench(t, `{"id": "a", "command": "echo '0 error: none'; echo 'DeprecationWarning: x' >&2; echo '5 passed, 1 warning'", "proof": {"type": "test"}}`).do(workflow.Options{})
	if rep.Done != 1 {
		t.Errorf("got %+v", rep)
	}
}

// Secrets are masked in everything that is stored or reported.
func TestSecretsOfScripts(t *testing.T) {
	b := newBench(t, `{"id": "a", "command": "printf s3; sleep 0.1; echo cret; echo s3cret >&2", "verify": "echo s3cret"}`)
	b.acts.Redact = func(s string) string { return strings.ReplaceAll(s, "s3cret", "***") }
	heard := b.hears()
	b.do(workflow.Options{})
	kept := ""
	err := filepath.WalkDir(b.run, func(file string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Base(file) != "journal.jsonl" {
			data, readErr := os.ReadFile(file)
			kept, err = kept+string(data), readErr
		}
		return err
	})
	for _, e := range heard() {
		kept += e.Text
	}
	if err != nil || strings.Contains(kept, "s3cret") || !strings.Contains(kept, "***") || b.proofs[0].Ran.Command != "echo ***" {
		t.Errorf("%v, kept is %q, proven by %q", err, kept, b.proofs[0].Ran.Command)
	}
}

// The data that steps work on is never masked: a secret in it fails the step.
func TestSecretsAreNoData(t *testing.T) {
	for _, step := range []string{`"command": "echo s3cret", "output": "o"`, `"for_each": "echo s3cret", "command": "echo {{item}} > out"`} {
		b := newBench(t, `{"id": "a", `+step+`}`, `"vars": {"o": "out"}`)
		b.acts.Redact = func(s string) string { return strings.ReplaceAll(s, "s3cret", "***") }
		rep := b.do(workflow.Options{})
		if len(rep.Worst) != 1 || !strings.Contains(rep.Worst[0].Detail, "the value of a secret variable") || b.read("out") != "(no such file or directory)" {
			t.Errorf("%s: got %+v, out is %q", step, rep, b.read("out"))
		}
	}
}

// Output is that of the good run and of stdout alone, also where what failed before said much, and who healed it.
func TestOutputOfTheGoodRun(t *testing.T) {
	b := newBench(t, `{"id": "a", "command": "echo out; echo err >&2; test -e go || { echo bad; exit 1; }", "self_healing": true, "output": "o"}`, `"vars": {"o": "deep/er/out"}`)
	b.agent = func(call) agentcall.Reply {
		if got := b.read("deep/er/out"); got != "(no such file or directory)" {
			t.Errorf("a run that failed wrote %q", got)
		}
		b.put("go", "")
		return agentcall.Reply{Excerpt: "I talk a lot."}
	}
	if rep := b.do(workflow.Options{}); rep.Done != 1 || b.read("deep/er/out") != "out\n" {
		t.Errorf("got %+v, %q", rep, b.read("deep/er/out"))
	}
}

// An agent that fails to heal uses up one attempt; the command that runs again is always that of the step.
func TestHealerFails(t *testing.T) {
	b := newBench(t, `{"id": "a", "command": "echo x >> n; exit 42", "self_healing": true, "max_healing_attempts": 3}, {"id": "b", "command": "true"}`)
	b.script(map[string][]agentcall.Reply{"heal": {{Failure: flow.Fail("agent_exit", "crashed")}, {Excerpt: "RETRY: true"}}})
	rep := b.do(workflow.Options{})
	if got := b.read("n"); got != "x\nx\nx\n" || b.roles() != "heal heal" || worst(rep).Code != 42 || rep.Blocked != 1 {
		t.Errorf("got %+v, ran %q, asked %s", rep, got, b.roles())
	}
	if last := b.calls[1].Data; len(last.Tries) != 1 || !strings.Contains(last.Tries[0], "crashed") {
		t.Errorf("the second is told %+v", last)
	}
}
