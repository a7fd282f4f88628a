package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// SignIn says whether a program has an account or key that it can use.
type SignIn string

const (
	SignedIn    SignIn = "yes"
	NotSignedIn SignIn = "no"
	SignUnknown SignIn = "unknown" // the program may work without an account, or have one that can't be seen from outside
)

// Found is an agent program that was looked for on this machine.
type Found struct {
	Name    string `json:"name"`
	Path    string `json:"path"`              // "" if it is not installed
	Version string `json:"version,omitempty"` // "" if the program did not print it in time
	SignIn  SignIn `json:"sign_in"`
	// Unboxed reports that the sandbox which the program brings along can't run here, so that every command it runs fails.
	Unboxed bool `json:"unboxed,omitempty"`
	// Shut is the error with which the program fails to start in the project's sandbox, "" if it starts or there is no sandbox.
	Shut string `json:"shut,omitempty"`
}

// Detect looks for all built-in agents, concurrently, and asks each for its version.
func Detect(ctx context.Context, o Options) []Found {
	programs := builtIns()
	list := make([]Found, len(programs))
	var all sync.WaitGroup
	for i, b := range programs {
		list[i] = Found{Name: b.name, SignIn: NotSignedIn}
		path, err := o.find(b.name)
		if err != nil {
			continue
		}
		all.Go(func() {
			version, shut := o.probe(ctx, path)
			list[i] = Found{b.name, path, version, b.signIn(o, ctx, path), b.name == Codex && o.codexSandboxFails(ctx, path), shut}
		})
	}
	all.Wait()
	return list
}

// Program is an agent program installed on this machine, whether or not it can be used.
type Program struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Version string `json:"version"` // "" if the program did not print it in time
}

// Installed finds the programs of built-in agents. It asks each for its version and checks nothing else.
func Installed(ctx context.Context, o Options) []Program {
	list := []Program{}
	var all sync.WaitGroup
	for _, name := range Programs() {
		if path, err := o.find(name); err == nil {
			list = append(list, Program{Name: name, Path: path})
		}
	}
	for i := range list {
		all.Go(func() { list[i].Version = o.version(ctx, list[i].Path) })
	}
	all.Wait()
	return list
}

// Default returns the first built-in agent that is installed and signed in, or if no sign-in is certain, the first that may be
// signed in. If there is none, the error is a *flow.Failure agent_auth or agent_missing.
func Default(ctx context.Context, o Options) (string, error) {
	possible, refused := "", ""
	for _, b := range builtIns() {
		path, err := o.find(b.name)
		if err != nil {
			continue
		}
		switch b.signIn(o, ctx, path) {
		case SignedIn:
			return b.name, nil
		case SignUnknown:
			possible += b.name + " "
		default:
			refused += b.name + " "
		}
	}
	if possible != "" {
		return strings.Fields(possible)[0], nil
	}
	if refused != "" {
		return "", fail(trellis.AgentAuth, "not signed in: %s", strings.TrimSpace(refused))
	}
	return "", fail(trellis.AgentMissing, "none of %s is on PATH", strings.Join(Programs(), ", "))
}

// Check returns nil if an agent can be used, as far as that can be determined without calling a model. Otherwise the error is a
// *flow.Failure agent_missing or agent_auth, or ErrUnknown if no agent has that name. Check starts a program only if the usual
// files and variables don't show whether it is signed in.
func Check(ctx context.Context, name string, o Options) error {
	if _, err := New(name, o); err != nil {
		return err
	}
	program := name
	own, custom := o.Commands[name]
	api, direct := o.APIs[name]
	switch {
	case custom:
		program = own.Argv[0]
	case direct:
		_, err := api.key(o.Environ)
		return err
	case name == Rehearsal:
		_, err := readScript(o.script())
		return err
	}
	path, err := o.find(program)
	if err == nil && custom {
		err = o.checkShebang(path, own)
	}
	if err != nil {
		return fail(trellis.AgentMissing, "%s: %s", name, err)
	}
	if b, ok := builtInNamed(name); ok && !custom && b.signIn(o, ctx, path) == NotSignedIn {
		return fail(trellis.AgentAuth, "%s is not signed in", name)
	}
	return nil
}

var versionRule = trellis.Pattern(`\d+\.\d+\.\d+\S*`)

func (o Options) version(ctx context.Context, path string) string {
	_, said := o.askProgram(ctx, path, "--version")
	return versionRule().FindString(said)
}

// codexSandboxFails reports whether a harmless command fails in codex's sandbox. A version without a command to try it counts as working.
func (o Options) codexSandboxFails(ctx context.Context, path string) bool {
	if known, _ := o.askProgram(ctx, path, "sandbox", "--help"); !known {
		return false
	}
	ok, _ := o.askProgram(ctx, path, "sandbox", "--", "true")
	return !ok
}

// probeTimeout limits how long a program may take to report its version or sign-in: on a busy machine it takes many seconds.
const probeTimeout = 30 * time.Second

// probe asks a program for its version in the sandbox of a role that only reads. shut is the error if the program does not start
// there. If it fails there, does not print a version, or if there is no sandbox, it is asked for the version without one.
func (o Options) probe(ctx context.Context, path string) (version, shut string) {
	argv := []string{nativeCodex(path), "--version"}
	place, err := o.sandboxPlace(ctx, Request{Role: trellis.Research, Dir: o.Root}, argv, Own{})
	if err != nil || place.Launcher == nil {
		return o.version(ctx, path), "" // an error of the sandbox itself is reported elsewhere
	}
	out, said := proc.NewCapped(64<<10), proc.NewCapped(1<<10)
	exit, err := proc.Run(ctx, proc.Command{Argv: argv, Launcher: place.Launcher, Files: place.Files, Env: slices.Concat(o.probeEnviron(), place.Env), Dir: o.Root, Stdout: out, Stderr: said, Wall: probeTimeout, Grace: time.Second})
	network := place.leave(path, func(string) {})
	why, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
	switch {
	case err == nil && exit.Code == 0:
		version = versionRule().FindString(out.String())
	case network.err != nil:
		shut = network.err.Error()
	case err != nil:
		shut = err.Error()
	case exit.TimedOut:
		shut = cmp.Or(why, fmt.Sprintf("it did not end within %s", probeTimeout))
	default:
		first, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
		shut = cmp.Or(why, first, fmt.Sprintf("it exited with %d", exit.Code))
	}
	if version == "" {
		version = o.version(ctx, path)
	}
	return version, shut
}

// probeEnviron returns the environment for asking a program about itself.
func (o Options) probeEnviron() []string {
	return o.environ(slices.Concat(claudeEnv, openCodeEnv, codexEnv), slices.Concat(claudeDefaults, openCodeDefaults), nil, Request{})
}

// askProgram runs one of the program's own quick commands and returns its output; ok reports whether it exited with 0.
func (o Options) askProgram(ctx context.Context, path string, args ...string) (ok bool, out string) {
	kept := proc.NewCapped(64 << 10)
	exit, err := proc.Run(ctx, proc.Command{
		Argv: append([]string{nativeCodex(path)}, args...),
		Env:  o.probeEnviron(),
		Dir:  o.Root, Stdout: kept, Stderr: io.Discard, Wall: probeTimeout, Grace: time.Second,
	})
	return err == nil && exit.Code == 0, kept.String()
}

func (o Options) anySet(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return lookup(o.Environ, n) != "" })
}

func (o Options) claudeSignIn(ctx context.Context, path string) SignIn {
	if o.anySet("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY") ||
		exists(filepath.Join(o.home("CLAUDE_CONFIG_DIR", ".claude"), ".credentials.json")) {
		return SignedIn
	}
	var status struct{ LoggedIn *bool }
	_, out := o.askProgram(ctx, path, "auth", "status")
	if json.Unmarshal([]byte(out), &status) != nil || status.LoggedIn == nil {
		return SignUnknown
	}
	return signInState(*status.LoggedIn)
}

var codexProvider = trellis.Pattern(`(?m)^\s*model_provider\s*=\s*["'](.+)["']`)

// codexSignIn assumes that a model provider defined by the user is set up.
func (o Options) codexSignIn(ctx context.Context, path string) SignIn {
	home := o.home("CODEX_HOME", ".codex")
	if o.anySet("CODEX_API_KEY") || exists(filepath.Join(home, "auth.json")) {
		return SignedIn
	}
	if provider := namesIn(filepath.Join(home, "config.toml"), codexProvider()); len(provider) > 0 && provider[0] != "openai" {
		return SignedIn
	}
	ok, _ := o.askProgram(ctx, path, "login", "status")
	return signInState(ok)
}

var providerKey = trellis.Pattern(`"provider"\s*(:)`)

// openCodeSignIn never returns NotSignedIn: opencode also has models that need no account.
func (o Options) openCodeSignIn(context.Context, string) SignIn {
	var accounts map[string]json.RawMessage
	data, _ := os.ReadFile(filepath.Join(o.home("XDG_DATA_HOME", ".local", "share"), "opencode", "auth.json"))
	if json.Unmarshal(data, &accounts); len(accounts) > 0 { //nolint:errcheck // no file, no accounts
		return SignedIn
	}
	if o.anySet("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY") ||
		strings.Contains(lookup(o.Environ, "OPENCODE_CONFIG_CONTENT"), `"provider"`) {
		return SignedIn
	}
	for _, file := range (openCode{o}).configs() {
		if len(namesIn(file, providerKey())) > 0 {
			return SignedIn
		}
	}
	return SignUnknown
}

func signInState(ok bool) SignIn {
	if ok {
		return SignedIn
	}
	return NotSignedIn
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
