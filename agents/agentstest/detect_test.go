package agentstest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// machine returns options with a PATH that has these programs, each a shell script, and an empty home.
func machine(t *testing.T, programs map[string]string) (o agents.Options, home string) {
	t.Helper()
	bin, home := t.TempDir(), t.TempDir()
	for name, script := range programs {
		put(t, filepath.Join(bin, name), "#!/bin/sh\n"+script+"\n", 0o700)
	}
	return agents.Options{Environ: []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + home}}, home
}

const (
	claudeOut = `case "$1" in --version) echo "2.1.5 (Claude Code)";; auth) echo '{"loggedIn": false}'; exit 1;; esac`
	codexOut  = `case "$1" in --version) echo "codex-cli 0.169.0";; login) echo "Not logged in"; exit 1;; esac`
)

func TestDetect(t *testing.T) {
	o, _ := machine(t, map[string]string{"claude": claudeOut, "opencode": "echo 1.18.33"})
	got := agents.Detect(t.Context(), o)
	for i, want := range []struct {
		name, version string
		there         bool
		in            agents.SignIn
	}{{"claude", "2.1.5", true, agents.NotSignedIn}, {"codex", "", false, agents.NotSignedIn}, {"opencode", "1.18.33", true, agents.SignUnknown}} {
		if g := got[i]; g.Name != want.name || g.Version != want.version || (g.Path != "") != want.there || g.SignIn != want.in {
			t.Errorf("got %+v, want %+v", g, want)
		}
	}
}

func TestSignIn(t *testing.T) {
	for name, c := range map[string]struct {
		cli, env, file, text string
		want                 trellis.Code // "": the program is usable
	}{
		"claude without":          {cli: agents.Claude, want: trellis.AgentAuth},
		"claude key":              {cli: agents.Claude, env: "ANTHROPIC_API_KEY=x"},
		"claude account":          {cli: agents.Claude, file: ".claude/.credentials.json", text: "{}"},
		"claude on another cloud": {cli: agents.Claude, env: "CLAUDE_CODE_USE_BEDROCK=1"},
		"codex without":           {cli: agents.Codex, want: trellis.AgentAuth},
		"codex account":           {cli: agents.Codex, file: ".codex/auth.json", text: "{}"},
		"codex provider":          {cli: agents.Codex, file: ".codex/config.toml", text: "model_provider = \"mine\"\n"},
		"codex usual provider":    {cli: agents.Codex, file: ".codex/config.toml", text: "model_provider = \"openai\"\n", want: trellis.AgentAuth},
		"opencode without":        {cli: agents.OpenCode},
	} {
		o, home := machine(t, map[string]string{"claude": claudeOut, "codex": codexOut, "opencode": "exit 1"})
		o.Environ = append(o.Environ, c.env)
		if c.file != "" {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(home, c.file)), 0o700); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(home, c.file), c.text, 0o600)
		}
		err := agents.Check(t.Context(), c.cli, o)
		if c.want == "" && err != nil || c.want != "" && !errors.Is(err, &flow.Failure{Code: string(c.want)}) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestDefault(t *testing.T) {
	all := map[string]string{"claude": claudeOut, "codex": codexOut, "opencode": "exit 1"}
	for name, c := range map[string]struct {
		programs map[string]string
		env      string
		want     string
		code     trellis.Code
	}{
		"nothing installed":    {nil, "", "", trellis.AgentMissing},
		"one that may work":    {all, "", agents.OpenCode, ""},
		"the first signed in":  {all, "CODEX_API_KEY=x", agents.Codex, ""},
		"the order":            {all, "ANTHROPIC_API_KEY=x", agents.Claude, ""},
		"none is signed in":    {map[string]string{"codex": codexOut}, "", "", trellis.AgentAuth},
		"a provider's own key": {all, "OPENAI_API_KEY=x", agents.OpenCode, ""},
	} {
		o, _ := machine(t, c.programs)
		o.Environ = append(o.Environ, c.env)
		got, err := agents.Default(t.Context(), o)
		if got != c.want || c.code == "" && err != nil || c.code != "" && !errors.Is(err, &flow.Failure{Code: string(c.code)}) {
			t.Errorf("%s: got %q, %v, want %q, %q", name, got, err, c.want, c.code)
		}
	}
}

func TestCheckOfOwnAgents(t *testing.T) {
	o, _ := machine(t, map[string]string{"mine": "exit 1"})
	o.Commands = map[string]agents.Command{"mine": {Argv: []string{"mine", "--now"}}, "empty": {}}
	if err := agents.Check(t.Context(), "mine", o); err != nil {
		t.Errorf("a command that is there: %v", err)
	}
	if err := agents.Check(t.Context(), "empty", o); err == nil {
		t.Error("an agent without a command passes")
	}
	if err := agents.Check(t.Context(), "nobody", o); !errors.Is(err, agents.ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
	if err := agents.Check(t.Context(), agents.Rehearsal, o); !errors.As(err, new(*trellis.Problem)) {
		t.Errorf("a rehearsal without a script: got %v", err)
	}
}

// A script counts as a program only if the system would start it: by its first line, or in a sandbox, whose launcher runs a script
// without one by the shell.
func TestCheckOfScripts(t *testing.T) {
	o, home := machine(t, map[string]string{"tool": ""})
	file := filepath.Join(home, "agent")
	o.Commands = map[string]agents.Command{"mine": {Argv: []string{file}}}
	for text, want := range map[string]string{
		"#!/bin/sh\n": "", "#! /bin/sh -e\n": "", "#!/usr/bin/env tool\n": "", "#!/usr/bin/env -S tool\n": "", "\x7fELF\x00\n": "", "": "", "#!\n": "",
		"#!/no/sh\n":             "agent_missing: mine: " + file + ": its first line names /no/sh, which is not there",
		"#!/usr/bin/env no-sh\n": "agent_missing: mine: " + file + ": its first line names no-sh, which is not on PATH",
		"#!/bin/sh\r\ncat\r\n":   "agent_missing: mine: " + file + `: its lines end with CR LF, so that the system looks for "/bin/sh\r": end them with LF alone`,
		"cat\n":                  "agent_missing: mine: " + file + " is not a program, and its first line does not say what runs it, as #!/bin/sh does",
	} {
		put(t, file, text, 0o700)
		if err := agents.Check(t.Context(), "mine", o); fmt.Sprint(cmp.Or(err, errors.New(""))) != want {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	o.Sandbox = func(context.Context, agents.Request, agents.Own) (agents.Place, error) { return agents.Place{}, nil }
	if err := agents.Check(t.Context(), "mine", o); err != nil && strings.Contains(err.Error(), "is not a program") {
		t.Errorf("in a sandbox: %v", err)
	}
	o.Sandbox, o.Commands = nil, map[string]agents.Command{"mine": {Argv: []string{file}, Env: map[string]string{"PATH": "/own"}}}
	put(t, file, "#!/usr/bin/env no-sh\n", 0o700)
	if err := agents.Check(t.Context(), "mine", o); err != nil {
		t.Errorf("with a PATH of its own: %v", err)
	}
}

// TestDetectReal asks the installed programs, with and without an account.
func TestDetectReal(t *testing.T) {
	t.Parallel()
	for i, cli := range clis {
		o := agents.Options{Environ: agentstest.RealEnv(t, cli, "http://127.0.0.1:1")}
		found := agents.Detect(t.Context(), o)[i]
		for end := time.Now().Add(agentstest.Hang); found.Version == "" && time.Now().Before(end); { // a busy machine may begin it too late
			found = agents.Detect(t.Context(), o)[i]
		}
		if found.Name != cli || found.Version == "" || found.SignIn != agents.SignedIn {
			t.Errorf("set up: got %+v", found)
		}
		bare := agents.Options{Environ: []string{o.Environ[0], "HOME=" + t.TempDir()}}
		if found = agents.Detect(t.Context(), bare)[i]; found.SignIn == agents.SignedIn {
			t.Errorf("with an empty home: got %+v", found)
		}
	}
}

// Codex has a sandbox of its own. Where it can't run, every command would fail: a harmless one finds that out (edge A14).
func TestDetectTriesCodexSandbox(t *testing.T) {
	for name, c := range map[string]struct {
		script  string
		unboxed bool
	}{
		"runs":           {`exit 0`, false},
		"can't run":      {`case "$*" in "sandbox -- true") echo bwrap: no namespaces >&2; exit 1;; esac`, true},
		"has no command": {`case "$1" in sandbox) exit 2;; esac`, false},
	} {
		bin := t.TempDir()
		put(t, filepath.Join(bin, "codex"), "#!/bin/sh\n"+c.script+"\n", 0o700)
		for _, f := range agents.Detect(t.Context(), agents.Options{Environ: []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + t.TempDir()}, Root: t.TempDir()}) {
			if f.Name == agents.Codex && f.Unboxed != c.unboxed {
				t.Errorf("%s: got %+v", name, f)
			}
		}
	}
}

// A run whose tools all fail is ended before it has used up its limits; a run with a working tool continues (edge A14).
func TestAllToolsFail(t *testing.T) {
	t.Parallel()
	for cli, ended := range map[string]func(failed bool) string{
		agents.Codex: func(failed bool) string {
			return fmt.Sprintf(`{"type":"item.completed","item":{"id":"x","type":"command_execution","command":"ls","aggregated_output":"no namespaces","exit_code":%d,"status":"failed"}}`, map[bool]int{true: 1}[failed])
		},
		agents.Claude: func(failed bool) string {
			return fmt.Sprintf(`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","is_error":%t,"content":"no namespaces"}]}}`, failed)
		},
		agents.OpenCode: func(failed bool) string {
			return fmt.Sprintf(`{"type":"tool_use","sessionID":"s","part":{"type":"tool","tool":"bash","state":{"status":"completed","input":{"command":"ls"},"output":"no namespaces","metadata":{"exit":%d}}}}`, map[bool]int{true: 1}[failed])
		},
	} {
		all := strings.Repeat(ended(true)+"\n", 20)
		f := failure(t, try(t, cli, fake{stream: all, after: "sleep 3000"}, nothing).err)
		if f.Code != string(trellis.AgentExit) || f.Retryable || !strings.Contains(f.Detail, "no namespaces") {
			t.Errorf("%s: got %+v", cli, f)
		}
		g := struck(t, cli, fake{stream: ended(false) + "\n" + all}, idle)
		if f := failure(t, g.err); f.Code != string(trellis.TimeoutIdle) {
			t.Errorf("%s, of which one worked: got %+v", cli, f)
		}
	}
}
