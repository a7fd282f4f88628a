package agents

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Own are the paths of an agent's program outside of the folder that it works in, for a sandbox. They are absolute, and
// need not be there.
type Own struct {
	Write   []string // its state: sessions, accounts, logs
	Fixed   []string // settings in that, which make it run other programs, and programs
	Private []string // folders in that of which each run has an empty one: what other runs would execute, or be reached by
	Read    []string // what a sandbox hides from others
	Hosts   []string // what it reaches where a sandbox narrows its network: its model, and what its sign-in needs
	Servers []string // host:port of servers that a person set up for it, on this machine or its networks too
}

// Sandbox puts a program into a sandbox. Its error ends the call.
type Sandbox func(ctx context.Context, r Request, own Own) (Place, error)

// Place is where a program runs. The zero value is none in particular.
type Place struct {
	Launcher []string   // starts it there, see proc.Command
	Files    []*os.File // for the launcher, see proc.Command
	Env      []string   // KEY=VALUE for the launcher, in the place of what the program's environment says
	Name     string     // of the sandbox
	// Leave is called once, when the program has ended or could not be started. It returns what the program asked for and was
	// not let through to, each as the end of a sentence, and an error when the program never began. Nil: there is nothing to do.
	Leave func() (refused []string, err error)
}

// left is what came of the network of a program in its place.
type left struct {
	program string
	refused []string
	err     error
}

// leave ends what a place of a program needed, and tells people what the program was not let through to.
func (p Place) leave(program string, notice func(string)) (l left) {
	l.program = filepath.Base(program)
	if p.Leave != nil {
		l.refused, l.err = p.Leave()
	}
	for _, host := range l.refused {
		notice(l.program + " asked for " + host)
	}
	return l
}

// explain is the error of a call, with what of it the place may be the cause of.
func (l left) explain(err error) error {
	var f *flow.Failure
	switch {
	case !errors.As(err, &f):
		return err
	case l.err != nil && (f.Code == string(trellis.AgentExit) || f.Code == string(trellis.AgentSignal)):
		return fail(trellis.AgentMissing, "%v; %s", l.err, f.Detail)
	case len(l.refused) == 0:
		return err
	}
	told := *f
	told.Detail += "; " + l.program + " asked for " + strings.Join(l.refused[:min(len(l.refused), 3)], ", and for ")
	return &told
}

// enter is the place for a program that works on a request.
func (o Options) enter(ctx context.Context, r Request, argv []string, own Own) (Place, error) {
	if o.Sandbox == nil {
		return Place{}, nil
	}
	own.Read = slices.Concat(own.Read, []string{r.RunDir, filepath.Dir(argv[0]), argv[0]})
	if path, err := filepath.EvalSymlinks(argv[0]); err == nil {
		own.Read = append(own.Read, filepath.Dir(path), path)
	}
	return o.Sandbox(ctx, r, own)
}

// settle makes what is to be fixed or private and is not there, empty: else the program could make it. A folder of settings
// that is not there itself is left: the program is not set up, and can't make it either.
func (o Options) settle(own Own) Own {
	if o.Sandbox == nil {
		return own
	}
	for _, path := range slices.Concat(own.Fixed, own.Private) {
		if _, err := os.Lstat(path); err == nil || !exists(filepath.Dir(path)) {
			continue
		}
		switch filepath.Ext(path) { // what fails is not fixed, as before
		case "":
			_ = os.Mkdir(path, 0o755)
		case ".json", ".jsonc":
			_ = os.WriteFile(path, []byte("{}\n"), 0o600)
		default:
			_ = os.WriteFile(path, nil, 0o600)
		}
	}
	return own
}

// scriptsIn is what stands in a folder of state and looks like something that is run: the status line's script, say, or an
// installation of the program itself. Where files came from another system all may be run, accounts and databases too, which
// the program has to write.
func scriptsIn(dir string) (paths []string) {
	entries, _ := os.ReadDir(dir) // not there: none
	for _, e := range entries {
		kind, err := e.Info()
		script := slices.Contains([]string{".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl"}, filepath.Ext(e.Name()))
		data := slices.ContainsFunc([]string{".json", ".sqlite", ".db", ".log", ".lock", ".txt"}, func(ext string) bool { return strings.HasPrefix(filepath.Ext(e.Name()), ext) })
		if err == nil && (script || !data && kind.Mode().IsRegular() && kind.Mode()&0o111 != 0 || slices.Contains([]string{"bin", "scripts"}, e.Name())) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// in are names in a folder.
func in(dir string, names ...string) (paths []string) {
	for _, name := range names {
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}

// Writes reports whether the request lets an agent change its folder.
func (r Request) Writes() bool {
	return r.Permission == trellis.PermitEdit || r.Permission == trellis.PermitFull
}

// claudeOwn are the paths of Claude Code. Its settings can name programs to run, its folders of commands and agents
// instructions for other sessions; local is where it may be installed. Other sessions run the scripts in shell-snapshots
// and session-env, take orders from daemon, jobs and teams, and ide has the keys of editors.
func (o Options) claudeOwn() Own {
	dir := o.home("CLAUDE_CONFIG_DIR", ".claude")
	own := o.claudeReaches(Own{Write: []string{dir, o.home("", ".claude.json")}, Fixed: scriptsIn(dir), Private: in(dir, "shell-snapshots", "session-env", "ide", "daemon", "jobs", "teams")})
	own.Fixed = append(own.Fixed, in(dir, "settings.json", "settings.local.json", "CLAUDE.md", "commands", "agents", "skills", "plugins", "hooks",
		"local", "rules", "output-styles", "workflows")...)
	if lookup(o.Environ, "CLAUDE_CODE_USE_BEDROCK") != "" {
		own.Read = append(own.Read, o.home("", ".aws"), lookup(o.Environ, "AWS_SHARED_CREDENTIALS_FILE"), lookup(o.Environ, "AWS_CONFIG_FILE"), lookup(o.Environ, "AWS_WEB_IDENTITY_TOKEN_FILE"))
	}
	if lookup(o.Environ, "CLAUDE_CODE_USE_VERTEX") != "" {
		own.Read = append(own.Read, o.home("CLOUDSDK_CONFIG", ".config", "gcloud"), lookup(o.Environ, "GOOGLE_APPLICATION_CREDENTIALS"))
	}
	return o.settle(own)
}

// codexOwn are the paths of Codex. It may be installed in packages. Other sessions have folders of tmp in their PATH, and
// run what is in shell_snapshots.
func (o Options) codexOwn() Own {
	dir := o.home("CODEX_HOME", ".codex")
	own := o.codexReaches(Own{Write: []string{dir}, Fixed: scriptsIn(dir), Private: in(dir, "tmp", "shell_snapshots")})
	own.Fixed = append(own.Fixed, in(dir, "config.toml", "hooks.json", "AGENTS.md", "AGENTS.override.md", "prompts", "rules", "skills", "plugins", "packages")...)
	return o.settle(own)
}

// openCodeOwn makes the folders of opencode, which it can't make itself. It fetches the first of its programs, and can't
// change them.
func (o Options) openCodeOwn(config, model string) Own {
	own := openCode{o}.reaches(Own{Write: []string{config}}, model)
	own.Fixed = in(filepath.Join(o.home("XDG_CONFIG_HOME", ".config"), "opencode"),
		"opencode.json", "opencode.jsonc", "AGENTS.md", "agent", "agents", "command", "commands", "plugin", "plugins", "tool", "tools", "skills")
	if file := lookup(o.Environ, "OPENCODE_CONFIG"); filepath.IsAbs(file) { // it says which servers are reached
		own.Fixed = append(own.Fixed, file)
	}
	for _, dir := range []string{o.home("XDG_CONFIG_HOME", ".config"), o.home("XDG_DATA_HOME", ".local", "share"), o.home("XDG_STATE_HOME", ".local", "state"), o.home("XDG_CACHE_HOME", ".cache")} {
		own.Write = append(own.Write, filepath.Join(dir, "opencode"))
		own.Fixed = append(own.Fixed, scriptsIn(filepath.Join(dir, "opencode"))...)
	}
	if o.Sandbox != nil {
		for _, dir := range own.Write {
			_ = os.MkdirAll(dir, 0o700) // it then says what it can't write
		}
	}
	return o.settle(own)
}
