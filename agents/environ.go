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

// commonEnv are the variables that every agent gets. What else one needs its adapter adds.
var commonEnv = []string{
	"PATH", "HOME", "LANG", "LANGUAGE", "LC_*", "TERM", "TMPDIR", "TZ", "USER", "LOGNAME", "SHELL",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
}

// ownEnv are variables that are for one program alone, or lead to what only the person may use: agents get them from
// their adapter or not at all.
var ownEnv = []string{
	"ANTHROPIC_", "CLAUDE", "OPENAI_", "CODEX_", "OPENCODE", "TRELLIS_",
	"SSH_AUTH_SOCK", "SSH_AGENT_", "GPG_", "DBUS_", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
}

// shared is what of the environment of the project's own commands every agent gets, so that it can do what they do.
func (o Options) shared() (env []string) {
	for _, e := range o.Shared {
		if !slices.ContainsFunc(ownEnv, func(begins string) bool { return strings.HasPrefix(e, begins) }) {
			env = append(env, e)
		}
	}
	return env
}

// environ is the environment of an agent: what all share, of base what is allowed, defaults where base has no value of
// its own, what the adapter fixes, and last what the request asks for.
func (o Options) environ(allow, defaults, fixed []string, r Request) []string {
	env := append(o.shared(), proc.Environ(o.Environ, slices.Concat(commonEnv, allow))...)
	extra := slices.Clone(fixed)
	for _, d := range defaults {
		if name, _, _ := strings.Cut(d, "="); lookup(env, name) == "" {
			extra = append(extra, d)
		}
	}
	return proc.Environ(nil, nil, slices.Concat(env, extra, r.Env)...)
}

// lookup is the value of a variable, "" when there is none.
func lookup(env []string, name string) string {
	value, _ := proc.Getenv(env, name)
	return value
}

// secrets are the values that must not be kept of a run with this environment.
func (o Options) secrets(env []string) []string { return append(secrets.InEnv(env), o.Secrets...) }

// find is the path of a program, in the PATH of Environ. One with a slash is relative to Root.
func (o Options) find(program string) (string, error) {
	if strings.Contains(program, "/") {
		if !filepath.IsAbs(program) {
			program = filepath.Join(o.Root, program)
		}
		return program, runnable(program)
	}
	return proc.LookPath(program, o.Environ)
}

func runnable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return &os.PathError{Op: "exec", Path: path, Err: os.ErrPermission}
	}
	return nil
}

// started is why the system would not start a script: by its first line, which names what runs it. A sandbox gives one without such
// a line to the shell.
func (o Options) started(path string, own Command) error {
	at, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil // it may be run all the same
	}
	begin, err := durable.ReadHead(filepath.Dir(at), filepath.Base(at), 256) // as much as Linux looks at
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

// home is a folder named by a variable, or else one below the home folder.
func (o Options) home(variable string, below ...string) string {
	if dir := lookup(o.Environ, variable); dir != "" {
		return dir
	}
	return filepath.Join(append([]string{lookup(o.Environ, "HOME")}, below...)...)
}

// mentions reports whether a word stands in one of the files.
func mentions(word string, files ...string) bool {
	return slices.ContainsFunc(files, func(file string) bool {
		data, err := os.ReadFile(file)
		return err == nil && bytes.Contains(data, []byte(word))
	})
}

// namesIn are what the first group of rule matches in a file, such as the variables that a config names.
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
