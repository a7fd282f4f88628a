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

// Own lists, for a sandbox, the paths and hosts outside of its working directory that an agent's program uses. The paths are
// absolute and need not exist.
type Own struct {
	Write   []string // the program's state: sessions, accounts, logs
	Fixed   []string // read-only parts of Write: programs, and settings that make it run other programs
	Private []string // folders in Write that are replaced by an empty one for each run: other runs would execute their content, or be reached by it
	Read    []string // paths that it may read, which a sandbox hides from other programs
	Hosts   []string // hosts that it reaches where a sandbox restricts the network: its model's, and those that its sign-in needs
	Servers []string // host:port of servers that a person configured for it, also on this machine or its networks
}

// Sandbox returns a sandboxed Place for a program. An error of it ends the call.
type Sandbox func(ctx context.Context, r Request, own Own) (Place, error)

// Place is where a program runs. The zero value is a Place without a sandbox.
type Place struct {
	Launcher []string   // command that starts the program in the sandbox, see proc.Command
	Files    []*os.File // passed to the launcher, see proc.Command
	Env      []string   // KEY=VALUE for the launcher, overriding the program's environment
	Name     string     // name of the sandbox
	// Leave is called once, after the program has ended or could not be started. It returns what the program asked for and was
	// denied, each as the end of a sentence, and an error if the program never began. Nil: nothing needs to be done.
	Leave func() (refused []string, err error)
}

// leaveResult is what Place.Leave returned for a program.
type leaveResult struct {
	program string
	refused []string
	err     error
}

// leave calls p.Leave and sends a notice for each host that the program was denied.
func (p Place) leave(program string, notice func(string)) (l leaveResult) {
	l.program = filepath.Base(program)
	if p.Leave != nil {
		l.refused, l.err = p.Leave()
	}
	for _, host := range l.refused {
		notice(l.program + " asked for " + host)
	}
	return l
}

// explain returns the error of a call, extended by what the sandbox may have contributed to it.
func (l leaveResult) explain(err error) error {
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

// sandboxPlace returns the Place for a program that works on a request.
func (o Options) sandboxPlace(ctx context.Context, r Request, argv []string, own Own) (Place, error) {
	if o.Sandbox == nil {
		return Place{}, nil
	}
	own.Read = slices.Concat(own.Read, []string{r.RunDir, filepath.Dir(argv[0]), argv[0]})
	if path, err := filepath.EvalSymlinks(argv[0]); err == nil {
		own.Read = append(own.Read, filepath.Dir(path), path)
	}
	return o.Sandbox(ctx, r, own)
}

// createMissing creates missing paths of own.Fixed and own.Private, empty: otherwise the program could create them. It skips a path
// whose settings folder does not exist: the program is not set up, and can't create the folder either.
func (o Options) createMissing(own Own) Own {
	if o.Sandbox == nil {
		return own
	}
	for _, path := range slices.Concat(own.Fixed, own.Private) {
		if _, err := os.Lstat(path); err == nil || !exists(filepath.Dir(path)) {
			continue
		}
		switch filepath.Ext(path) { // a path that can't be created stays unprotected, as without this function
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

// scriptsIn returns the entries of a folder of state that look executable, for example the script of a status line or an
// installation of the program itself. Data files are left out even if their mode is executable, as that of all files copied from
// some other systems is: the program has to write accounts and databases.
func scriptsIn(dir string) (paths []string) {
	entries, _ := os.ReadDir(dir) // a missing folder has none
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

// pathsIn returns the paths of the given names in a folder.
func pathsIn(dir string, names ...string) (paths []string) {
	for _, name := range names {
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}

// Writes reports whether the request allows the agent to change files in its working directory.
func (r Request) Writes() bool {
	return r.Permission == trellis.PermitEdit || r.Permission == trellis.PermitFull
}

// prepareClaude returns the paths of Claude Code. Its settings can name programs to run, and its folders of commands and agents hold
// instructions for other sessions; it may be installed in local. Other sessions run the scripts in shell-snapshots and
// session-env and take orders from daemon, jobs and teams; ide holds the keys of editors.
func (o Options) prepareClaude() Own {
	dir := o.home("CLAUDE_CONFIG_DIR", ".claude")
	own := o.addClaudeHosts(Own{Write: []string{dir, o.home("", ".claude.json")}, Fixed: scriptsIn(dir), Private: pathsIn(dir, "shell-snapshots", "session-env", "ide", "daemon", "jobs", "teams")})
	own.Fixed = append(own.Fixed, pathsIn(dir, "settings.json", "settings.local.json", "CLAUDE.md", "commands", "agents", "skills", "plugins", "hooks",
		"local", "rules", "output-styles", "workflows")...)
	if lookup(o.Environ, "CLAUDE_CODE_USE_BEDROCK") != "" {
		own.Read = append(own.Read, o.home("", ".aws"), lookup(o.Environ, "AWS_SHARED_CREDENTIALS_FILE"), lookup(o.Environ, "AWS_CONFIG_FILE"), lookup(o.Environ, "AWS_WEB_IDENTITY_TOKEN_FILE"))
	}
	if lookup(o.Environ, "CLAUDE_CODE_USE_VERTEX") != "" {
		own.Read = append(own.Read, o.home("CLOUDSDK_CONFIG", ".config", "gcloud"), lookup(o.Environ, "GOOGLE_APPLICATION_CREDENTIALS"))
	}
	return o.createMissing(own)
}

// prepareCodex returns the paths of Codex. It may be installed in packages. Other sessions have folders of tmp in their PATH and run
// the scripts in shell_snapshots.
func (o Options) prepareCodex() Own {
	dir := o.home("CODEX_HOME", ".codex")
	own := o.addCodexHosts(Own{Write: []string{dir}, Fixed: scriptsIn(dir), Private: pathsIn(dir, "tmp", "shell_snapshots")})
	own.Fixed = append(own.Fixed, pathsIn(dir, "config.toml", "hooks.json", "AGENTS.md", "AGENTS.override.md", "prompts", "rules", "skills", "plugins", "packages")...)
	return o.createMissing(own)
}

// prepareOpenCode returns the paths of opencode and creates its folders, which it can't create inside a sandbox. It downloads the
// first version of its programs, and can't change them later.
func (o Options) prepareOpenCode(config, model string) Own {
	own := openCode{o}.addHosts(Own{Write: []string{config}}, model)
	own.Fixed = pathsIn(filepath.Join(o.home("XDG_CONFIG_HOME", ".config"), "opencode"),
		"opencode.json", "opencode.jsonc", "AGENTS.md", "agent", "agents", "command", "commands", "plugin", "plugins", "tool", "tools", "skills")
	if file := lookup(o.Environ, "OPENCODE_CONFIG"); filepath.IsAbs(file) { // this file says which servers are reached
		own.Fixed = append(own.Fixed, file)
	}
	for _, dir := range []string{o.home("XDG_CONFIG_HOME", ".config"), o.home("XDG_DATA_HOME", ".local", "share"), o.home("XDG_STATE_HOME", ".local", "state"), o.home("XDG_CACHE_HOME", ".cache")} {
		own.Write = append(own.Write, filepath.Join(dir, "opencode"))
		own.Fixed = append(own.Fixed, scriptsIn(filepath.Join(dir, "opencode"))...)
	}
	if o.Sandbox != nil {
		for _, dir := range own.Write {
			_ = os.MkdirAll(dir, 0o700) // if this fails, opencode itself reports what it can't write
		}
	}
	return o.createMissing(own)
}
