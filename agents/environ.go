package agents

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/secrets"
)

// commonEnv lists the variables that every agent gets. Adapters add those that their agent needs besides.
var commonEnv = []string{
	"PATH", "HOME", "LANG", "LANGUAGE", "LC_*", "TERM", "TMPDIR", "TZ", "USER", "LOGNAME", "SHELL",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
}

// ownEnv lists prefixes of variables that belong to a single program, or give access to things reserved for the person: agents
// get them from their adapter or not at all.
var ownEnv = []string{
	"ANTHROPIC_", "CLAUDE", "OPENAI_", "CODEX_", "OPENCODE", "TRELLIS_",
	"SSH_AUTH_SOCK", "SSH_AGENT_", "GPG_", "DBUS_", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
}

// sharedEnviron returns the environment of the project's own commands, without ownEnv. Every agent gets it, to be able to run them.
func (o Options) sharedEnviron() (env []string) {
	for _, e := range o.Shared {
		if !slices.ContainsFunc(ownEnv, func(begins string) bool { return strings.HasPrefix(e, begins) }) {
			env = append(env, e)
		}
	}
	return env
}

// environ returns the environment of an agent. Later entries win: the shared variables, the variables of o.Environ that are
// allowed, the variables fixed by the adapter, defaults for variables that neither of the first two sets, and those of the request.
func (o Options) environ(allow, defaults, fixed []string, r Request) []string {
	env := append(o.sharedEnviron(), proc.Environ(o.Environ, slices.Concat(commonEnv, allow))...)
	extra := slices.Clone(fixed)
	for _, d := range defaults {
		if name, _, _ := strings.Cut(d, "="); lookup(env, name) == "" {
			extra = append(extra, d)
		}
	}
	return proc.Environ(nil, nil, slices.Concat(env, extra, r.Env)...)
}

// lookup returns the value of a variable, or "" if it is not set.
func lookup(env []string, name string) string {
	value, _ := proc.Getenv(env, name)
	return value
}

// secrets returns the values that must be masked in what is kept of a run with this environment.
func (o Options) secrets(env []string) []string { return append(secrets.InEnv(env), o.Secrets...) }

// find returns the path of a program, looked up in the PATH of Environ. A name with a slash is relative to Root.
func (o Options) find(program string) (string, error) {
	if strings.Contains(program, "/") {
		if !filepath.IsAbs(program) {
			program = filepath.Join(o.Root, program)
		}
		return program, checkRunnable(program)
	}
	return proc.LookPath(program, o.Environ)
}

func checkRunnable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return &os.PathError{Op: "exec", Path: path, Err: os.ErrPermission}
	}
	return nil
}

// checkShebang returns an error if the system could not start the script at path because of its first line, which names the
// interpreter. A sandbox runs a script without such a line with the shell.
func (o Options) checkShebang(path string, own Command) error {
	at, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil // the program may still be runnable
	}
	begin, err := durable.ReadHead(filepath.Dir(at), filepath.Base(at), 256) // the part that Linux inspects
	if err != nil {
		return nil
	}
	first, _, _ := bytes.Cut(begin, []byte("\n"))
	line, is := strings.CutPrefix(string(first), "#!")
	words := strings.Fields(line)
	_, elsewhere := own.Env["PATH"]
	switch {
	case !is && len(begin) > 0 && o.Sandbox == nil && !bytes.Contains(begin, []byte{0}):
		return fmt.Errorf("%s is not a program, and its first line does not say what runs it, as #!/bin/sh does", path)
	case !is || len(words) == 0 || !filepath.IsAbs(words[0]):
		return nil
	case strings.HasSuffix(line, "\r"):
		return fmt.Errorf("%s: its lines end with CR LF, so that the system looks for %q: end them with LF alone", path, words[0]+"\r")
	case !exists(words[0]):
		return fmt.Errorf("%s: its first line names %s, which is not there", path, words[0])
	case filepath.Base(words[0]) == "env" && len(words) == 2 && !strings.HasPrefix(words[1], "-") && !strings.ContainsAny(words[1], "=/") && !elsewhere:
		if _, err := proc.LookPath(words[1], o.Environ); err != nil {
			return fmt.Errorf("%s: its first line names %s, which is not on PATH", path, words[1])
		}
	}
	return nil
}

// home returns the folder that a variable names, or by default a path below the home folder.
func (o Options) home(variable string, below ...string) string {
	if dir := lookup(o.Environ, variable); dir != "" {
		return dir
	}
	return filepath.Join(append([]string{lookup(o.Environ, "HOME")}, below...)...)
}

// mentions reports whether at least one of the files contains a word.
func mentions(word string, files ...string) bool {
	return slices.ContainsFunc(files, func(file string) bool {
		data, err := os.ReadFile(file)
		return err == nil && bytes.Contains(data, []byte(word))
	})
}

// namesIn returns what the first group of rule matches in a file, for example the variables that a configuration names.
func namesIn(file string, rule *regexp.Regexp) []string {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var names []string
	for _, m := range rule.FindAllSubmatch(data, -1) {
		names = append(names, string(m[1]))
	}
	return names
}
