// Package proc runs programs and makes sure that nothing of them stays behind.
//
// A program gets a session and process group of its own, the environment it is given and no other, and
// a marker in it by which descendants that left the group are found. It is stopped in steps (SIGINT,
// SIGTERM, SIGKILL), its output never blocks the return, and a [Guard] around the whole command
// ends every descendant however the command itself ends.
package proc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MarkerVar is the environment variable that every process of a run carries.
	MarkerVar = "TRELLIS_RUN_MARKER"

	callVar      = "TRELLIS_CALL_MARKER" // distinguishes the processes of one Command from others of the same run
	defaultGrace = 10 * time.Second
)

// Exit codes that do not come from the program.
const (
	CodeTimeout  = 124
	CodeNoExec   = 126 // the program exists but can't be run
	CodeNotFound = 127
	codeSignal   = 128 // plus the number of the signal
)

// Command is a program to run.
type Command struct {
	// Argv is the program and its arguments. A program without a slash is looked up in the PATH of
	// Env, or in this process's when Env has none; one with a slash is relative to Dir.
	Argv []string
	Dir  string // "" is the current one
	// Env is the whole environment; nothing is inherited. PWD is added when Dir is set.
	Env []string
	// Stdin is nil for /dev/null. Once the program has ended, a reader that blocks is not waited for.
	Stdin io.Reader
	// Stdout and Stderr are written to as output comes, from one goroutine each, or from one for
	// both when they are the same; never after the end. Nil drops the output. An error of Write closes the pipe.
	Stdout, Stderr io.Writer
	// Marker is the value of MarkerVar, the same for all commands of a run. With it, descendants outside of the process group are
	// found and killed at the end; on Linux also those that were given another environment and left their parents.
	Marker    string
	Wall      time.Duration // from start to stop; 0 means no limit
	Grace     time.Duration // from SIGTERM to SIGKILL; 0 is 10 s
	Interrupt bool          // stop begins with SIGINT and a quarter of Grace
	// Launcher is a program with arguments that starts Argv, which follows them, such as a sandbox. It has to be the program's
	// parent or grandparent, to return its exit code, and 128+n after signal n, and to end all of it when it is killed itself. The
	// first signals of a stop go to the program only. Open files that this process inherited are not passed on to the launcher.
	Launcher []string
	// Files are open files that the program, or its launcher, gets as descriptors 3, 4, and so on. The caller closes them.
	Files []*os.File
}

// Result is how a program ended.
type Result struct {
	Code     int     // exit code; 128+n after signal n; CodeTimeout if Wall passed
	Signal   string  // signal that ended it, like SIGKILL; else ""
	TimedOut bool    // Wall passed
	Seconds  float64 // from start to end
}

// Run runs a program to its end. When it returns, no process of its process group, and none with the marker of this call, is left.
//
// An exit code is not an error. Errors are: the program could not be started (CodeNotFound with exec.ErrNotFound or
// fs.ErrNotExist, CodeNoExec), ctx ended (its cause, unchanged; the Result says how the program ended), output could not be
// written, or a process can't be killed.
func Run(ctx context.Context, c Command) (Result, error) {
	p, err := Start(ctx, c)
	if err != nil {
		return startFailure(err), err
	}
	return p.Wait()
}

func startFailure(err error) Result {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound):
		return Result{Code: CodeNotFound}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOEXEC):
		return Result{Code: CodeNoExec}
	}
	return Result{Code: -1}
}

// Start starts a program and returns at once; the caller calls Wait. See Run.
func Start(ctx context.Context, c Command) (*Process, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(c.Argv) == 0 {
		return nil, errors.New("starting a program: no name given")
	}
	p, err := start(c)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Argv[0], err)
	}
	go p.supervise(ctx)
	return p, nil
}

func start(c Command) (*Process, error) {
	path, err := lookPath(c.Argv[0], c.Env)
	if err != nil {
		return nil, err
	}
	if err := checkDir(c.Dir); err != nil {
		return nil, err
	}
	argv := c.Argv
	if len(c.Launcher) > 0 {
		if err := checkProgram(c.Dir, path); err != nil {
			return nil, err
		}
		argv = slices.Concat(c.Launcher, []string{path}, c.Argv[1:])
		path = c.Launcher[0]
		closeFilesOnExec()
	}
	p := &Process{c: c, began: time.Now(), stopping: make(chan struct{}), done: make(chan struct{})}
	if p.pipes, err = openPipes(c); err != nil {
		return nil, err
	}
	attr := &os.ProcAttr{
		Dir:   c.Dir,
		Env:   p.environ(),
		Files: append(p.pipes.childFiles(), c.Files...),
		// A session of its own, not only a group: without a terminal nothing can stop to ask for a password.
		Sys: &syscall.SysProcAttr{Setsid: true},
	}
	unignoreForChildren()
	var g *cgroup
	if p.call != "" {
		g = newCgroup(c.Marker)
	}
	p.os, p.cgroup, err = startIn(g, path, argv, attr)
	p.pipes.closeChildFiles()
	if err != nil {
		activeCalls.Delete(p.call)
		p.pipes.abandon()
		return nil, err
	}
	if p.call != "" {
		setTag(p.os.Pid, p.tag)
		i, _ := inspect(p.os.Pid) // nobody has waited for it yet, so that it exists even if it has ended
		p.id = i.id
	}
	p.pipes.startCopying()
	return p, nil
}

// startProcess starts a program. It retries for a moment if the program's file is still open for writing, maybe in a child that
// another goroutine is forking right now.
func startProcess(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	for wait := time.Millisecond; ; wait *= 2 {
		p, err := os.StartProcess(path, argv, attr)
		if !errors.Is(err, unix.ETXTBSY) || wait > 200*time.Millisecond {
			return p, err
		}
		time.Sleep(wait)
	}
}

// environ returns the environment of the program, and gives the call its own marker.
func (p *Process) environ() []string {
	extra := []string{}
	if p.c.Dir != "" {
		extra = append(extra, "PWD="+p.c.Dir)
	}
	if p.c.Marker != "" {
		p.call, p.tag = callPrefix()+rand.Text(), newTag(p.c.Marker)
		activeCalls.Store(p.call, p.tag)
		extra = append(extra, MarkerVar+"="+p.c.Marker, callVar+"="+p.call)
	}
	return mergeEnv(p.c.Env, extra)
}

// callPrefix returns the ID of the reaper for call markers, by which it finds processes where the system has no subreaper.
func callPrefix() string {
	if g, ok := Guarded(); ok {
		return g.String() + "/"
	}
	return ""
}

func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	st, err := os.Stat(dir)
	if err == nil && !st.IsDir() {
		err = &fs.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return badDirError{err}
	}
	return nil
}

// checkProgram returns the error that starting a program would return, for one that a launcher starts.
func checkProgram(dir, path string) error {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	st, err := os.Stat(path)
	if err == nil && (st.IsDir() || unix.Access(path, unix.X_OK) != nil) {
		err = &fs.PathError{Op: "exec", Path: path, Err: syscall.EACCES}
	}
	return err
}

// badDirError keeps a missing directory from looking like a missing program.
type badDirError struct{ cause error }

// ErrNoFolder means that a program can't be started because its working directory doesn't exist, or is not a folder.
var ErrNoFolder = errors.New("its working directory is not there")

func (e badDirError) Is(target error) bool { return target == ErrNoFolder }

func (e badDirError) Error() string { return "its working directory: " + e.cause.Error() }

func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	if _, ok := Getenv(env, "PATH"); !ok {
		return exec.LookPath(name)
	}
	return LookPath(name, env)
}

// LookPath returns the file that Start runs for a program's name without a slash, by the PATH of env: the first that may be run.
// Folders that are not absolute are ignored. If there is none, or no PATH, the error is an *exec.Error with exec.ErrNotFound.
func LookPath(name string, env []string) (string, error) {
	path, _ := Getenv(env, "PATH")
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if st, err := os.Stat(file); filepath.IsAbs(dir) && err == nil && !st.IsDir() && unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// Shell returns the argv that runs a script: with bash and pipefail if there is a bash, else with sh.
func Shell(script string) []string {
	if bash, err := exec.LookPath("bash"); err == nil {
		return []string{bash, "-o", "pipefail", "-c", script}
	}
	return []string{"sh", "-c", script}
}

// Environ returns an environment of the variables in base whose names are in allow, or begin with a prefix there (FOO_*), and of
// extra, whose entries win.
func Environ(base, allow []string, extra ...string) []string {
	allowed := func(entry string) bool {
		name, _, ok := strings.Cut(entry, "=")
		return ok && slices.ContainsFunc(allow, func(pattern string) bool {
			prefix, open := strings.CutSuffix(pattern, "*")
			return name == pattern || open && strings.HasPrefix(name, prefix)
		})
	}
	kept := []string{}
	for _, entry := range base {
		if allowed(entry) {
			kept = append(kept, entry)
		}
	}
	return mergeEnv(kept, extra)
}

// mergeEnv returns base and extra with each variable once, with its last value. The result is never nil, which would mean to inherit.
func mergeEnv(base, extra []string) []string {
	all := slices.Concat(base, extra)
	last := map[string]int{}
	for i, entry := range all {
		name, _, _ := strings.Cut(entry, "=")
		last[name] = i
	}
	out := make([]string, 0, len(all))
	for i, entry := range all {
		if name, _, ok := strings.Cut(entry, "="); ok && last[name] == i {
			out = append(out, entry)
		}
	}
	return out
}

// Getenv returns the value of a variable in a list of KEY=VALUE, and whether it is set; the last entry counts.
func Getenv(env []string, name string) (value string, ok bool) {
	for _, entry := range slices.Backward(env) {
		if value, ok = strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}
