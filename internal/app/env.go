package app

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// Env is the caller's environment. Nothing below this package reads these values from its own process.
type Env struct {
	Vars []string // KEY=VALUE
	Dir  string   // the folder that relative paths start from
	Now  func() time.Time
	Disk *durable.Disk // nil: a disk without injected faults
	// Say receives, one line at a time, information that is not part of a result; nil discards it.
	Say func(format string, args ...any)
}

// Get returns the value of a variable, "" if it is not set.
func (e *Env) Get(name string) string {
	value, _ := proc.Getenv(e.Vars, name)
	return value
}

func (e *Env) say(format string, args ...any) {
	if e.Say != nil {
		e.Say(format, args...)
	}
}

// InsideRun reports whether the caller is part of a task or a run.
func (e *Env) InsideRun() bool { return proc.StartedByRun(e.Vars) }

// RequirePerson returns an error if the caller runs inside a task or a run, since only a person may do this.
func (e *Env) RequirePerson(can string) error {
	if e.InsideRun() {
		return WithHints(Usagef("this runs inside a task or a run: only a person can %s", can), "leave it to who started the run")
	}
	return nil
}

// CommandEnv returns the environment for the project's own commands: the caller's, without the variables that would direct git
// elsewhere.
func (e *Env) CommandEnv() (env []string) {
	elsewhere := []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX"}
	for _, kv := range e.Vars {
		if name, _, _ := strings.Cut(kv, "="); !slices.Contains(elsewhere, name) {
			env = append(env, kv)
		}
	}
	return env
}

// LookPath returns an error unless the program exists, in the PATH of this environment.
func (e *Env) LookPath(program string) error {
	if strings.Contains(program, "/") {
		_, err := os.Stat(program)
		return err
	}
	for _, dir := range filepath.SplitList(e.Get("PATH")) {
		if st, err := os.Stat(filepath.Join(dir, program)); err == nil && !st.IsDir() && st.Mode()&0o111 != 0 {
			return nil
		}
	}
	return &exec.Error{Name: program, Err: exec.ErrNotFound}
}

// expandHome returns path with a leading ~/ expanded.
func (e *Env) expandHome(path string) string {
	if rest, home := strings.CutPrefix(path, "~/"); home {
		return filepath.Join(e.Get("HOME"), rest)
	}
	return path
}

// stateFile returns the path of a person's file of Trellis outside all checkouts; "" if there is no home directory.
func (e *Env) stateFile(name string) string {
	dir := e.userDir("XDG_STATE_HOME", filepath.Join(".local", "state"))
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, name)
}

// UserFile returns the path of a person's settings for all projects, "" if there is no home directory.
func (e *Env) UserFile() string {
	dir := e.userDir("XDG_CONFIG_HOME", ".config")
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "config.yaml")
}

// userDir returns Trellis' folder below a folder of the XDG base directory specification, "" without a home directory.
func (e *Env) userDir(variable, usual string) string {
	dir := e.Get(variable)
	if !filepath.IsAbs(dir) { // the specification says to ignore relative paths
		home := e.Get("HOME")
		st, err := os.Stat(home)
		if !filepath.IsAbs(home) || errors.Is(err, syscall.ENOTDIR) || err == nil && !st.IsDir() { // /dev/null, for example, for users without a home
			return ""
		}
		dir = filepath.Join(home, usual)
	}
	return filepath.Join(dir, "trellis")
}
