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

// Env is what whoever asks brings along. Nothing below takes it from the process it runs in.
type Env struct {
	Vars []string // KEY=VALUE
	Dir  string   // the folder that relative paths begin at
	Now  func() time.Time
	Disk *durable.Disk // nil is a disk without faults
	// Say is told in a line what is worth knowing and no answer; nil: nobody is.
	Say func(format string, args ...any)
}

// Get is the value of a variable, "" when it is not set.
func (e *Env) Get(name string) string {
	value, _ := proc.Getenv(e.Vars, name)
	return value
}

func (e *Env) say(format string, args ...any) {
	if e.Say != nil {
		e.Say(format, args...)
	}
}

// InsideRun reports whether whoever asks is part of a task or a run.
func (e *Env) InsideRun() bool { return proc.InsideRun(e.Vars) }

// OnlyPeople refuses what a task or a run that goes on may not do by itself.
func (e *Env) OnlyPeople(can string) error {
	if e.InsideRun() {
		return WithHints(Usagef("this runs inside a task or a run: only a person can %s", can), "leave it to who started the run")
	}
	return nil
}

// CommandEnv is the environment of the project's own commands: the caller's, without what would lead git
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

// LookPath says whether a program is there, in the PATH of this call.
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

// atHome is a path that may begin with ~/.
func (e *Env) atHome(path string) string {
	if rest, home := strings.CutPrefix(path, "~/"); home {
		return filepath.Join(e.Get("HOME"), rest)
	}
	return path
}

// stateFile is a file that Trellis keeps for a person, outside of all checkouts; "" when nobody says where a home is.
func (e *Env) stateFile(name string) string {
	dir := e.userDir("XDG_STATE_HOME", filepath.Join(".local", "state"))
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, name)
}

// UserFile is where a person's settings for all projects stand, "" when nobody says where a home is.
func (e *Env) UserFile() string {
	dir := e.userDir("XDG_CONFIG_HOME", ".config")
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "config.yaml")
}

// userDir is the folder of Trellis in one of the folders that the XDG base directory specification names.
func (e *Env) userDir(variable, usual string) string {
	dir := e.Get(variable)
	if !filepath.IsAbs(dir) { // which that specification has passed over
		home := e.Get("HOME")
		st, err := os.Stat(home)
		if !filepath.IsAbs(home) || errors.Is(err, syscall.ENOTDIR) || err == nil && !st.IsDir() { // /dev/null, say, as who has no home
			return ""
		}
		dir = filepath.Join(home, usual)
	}
	return filepath.Join(dir, "trellis")
}
