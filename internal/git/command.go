package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
)

const (
	quick   = 2 * time.Minute  // limit of a command that reads
	patient = 15 * time.Minute // limit of one that writes files or runs hooks

	maxOutput = 256 << 20 // bytes of lists and single files
	maxStderr = 64 << 10
)

// Error is a git command that failed, with all that git said about it.
type Error struct {
	Args   []string // without options that every call has
	Dir    string
	Code   int    // exit code; 124 when it took too long
	Stderr string // whole
}

func (e *Error) Error() string {
	said := strings.TrimSpace(e.Stderr)
	switch {
	case e.Code == proc.CodeTimeout:
		said = strings.TrimSpace("it took too long\n" + said)
	case said == "":
		said = fmt.Sprintf("exit code %d", e.Code)
	}
	return "git " + e.command() + ": " + said
}

// OwnerError says that git refused to work in a repository, since another user owns it.
type OwnerError struct {
	Repository string // as a shell reads it
	Err        *Error
}

func (e *OwnerError) Error() string {
	return e.Repository + " belongs to another user, and git works there only when it is told to"
}

func (e *OwnerError) Unwrap() error { return e.Err }

// Command is what tells git to.
func (e *OwnerError) Command() string { return safeDirectory + e.Repository }

// safeDirectory begins the command that git itself names, the repository after it.
const safeDirectory = "git config --global --add safe.directory "

// owned is the *OwnerError in what git said, if there is one.
func (e *Error) owned() error {
	_, rest, ok := strings.Cut(e.Stderr, safeDirectory)
	if !ok {
		return nil
	}
	repository, _, _ := strings.Cut(rest, "\n")
	return &OwnerError{repository, e}
}

// command is the command in short: without settings, and with as many of its arguments as fit beside what git said.
func (e *Error) command() string {
	const most = 120 // bytes
	var b strings.Builder
	for i := 0; i < len(e.Args); i++ {
		if e.Args[i] == "-c" {
			i++
			continue
		}
		arg, _, more := strings.Cut(e.Args[i], "\n")
		if b.Len()+len(arg) > most {
			return b.String() + "…"
		}
		b.WriteString(arg)
		if more {
			b.WriteString("…")
		}
		b.WriteByte(' ')
	}
	return strings.TrimSuffix(b.String(), " ")
}

// allowed are the variables that git, and what it starts, may see: those that programs need, identity and
// sign-in, and none that says which repository is meant.
var allowed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TERM", "TZ", "LANG", "LANGUAGE", "LC_*", "XDG_*",
	"EMAIL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
	"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH",
	"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GIT_SSH", "GIT_SSH_COMMAND", "GNUPGHOME", "GPG_TTY",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	proc.MarkerVar,
}

// always are the options of every call: no file-system monitor that an agent could have configured,
// no housekeeping that would be killed half-way, and all that can be seen of a file counts for whether it was changed.
var always = []string{"-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
	"-c", "core.trustctime=true", "-c", "core.checkStat=default", "-c", "core.ignoreStat=false"}

// durably are the options of calls whose effect must survive a power cut once they have returned.
var durably = []string{"-c", "core.fsync=committed,reference", "-c", "core.fsyncMethod=batch"}

// Command is one run of the git command.
type Command struct {
	Dir      string
	Args     []string
	Env      []string // added to what every call gets
	Stdin    io.Reader
	Stdout   io.Writer // nil: returned
	Accept   []int     // exit codes besides 0 that are an answer
	Write    bool      // changes the repository: durable, and takes longer
	Once     bool      // would not find what it needs if it had been done already: callers look first, see again
	Hooks    bool      // runs hooks of the user, in the language the user has set
	RawIndex bool      // reads the index of a worktree as others left it
}

// Run runs the command and returns its standard output and exit code. One that failed is run again, unless it must not be
// or somebody has got part of the answer already. Locks that others hold in a worktree are waited for.
func (r *Repo) Run(ctx context.Context, c Command) (out string, code int, err error) {
	do := func() (err error) {
		out, code, err = r.runOnce(ctx, c)
		return err
	}
	if c.Once || c.Stdout != nil {
		err = do()
		return out, code, err
	}
	err = r.retryLocked(ctx, c, func() error {
		return Retry(ctx, func() error { return errors.Join(rewind(c), do()) })
	})
	return out, code, err
}

// retryLocked does something again while others hold locks of the worktree that a call changes.
func (r *Repo) retryLocked(ctx context.Context, c Command, do func() error) error {
	if !c.Write {
		return do()
	}
	gitDir, err := r.gitDir(c.Dir)
	if err != nil || gitDir == r.Common {
		return do()
	}
	return RetryLocked(ctx, r.ownLocks(gitDir, ""), do)
}

func (r *Repo) runOnce(ctx context.Context, c Command) (string, int, error) {
	if err := CheckWorktree(ctx, c.Dir); err != nil {
		return "", -1, err
	}
	if err := errors.Join(r.sanitize(ctx, c), r.Index().renewIndex(ctx, c)); err != nil {
		return "", -1, err
	}
	defer r.Index().noteIndex(ctx, c)
	out := &limited{max: maxOutput}
	stderr := proc.NewCapped(maxStderr)
	options, wall := always, quick
	if c.Write {
		options, wall = slices.Concat(always, durably), patient
	}
	cmd := proc.Command{
		Argv: slices.Concat([]string{"git"}, options, r.Hooks().noHooks(ctx, c), c.Args), Dir: c.Dir, Env: r.environ(c),
		Stdin: c.Stdin, Stdout: out, Stderr: stderr, Wall: wall,
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	res, err := proc.Run(ctx, cmd)
	switch {
	case ctx.Err() != nil && err != nil:
		return "", res.Code, err
	case res.Code == proc.CodeNotFound && err != nil:
		return "", res.Code, fmt.Errorf("%w: %w", ErrNotInstalled, err)
	case err != nil:
		return "", res.Code, fmt.Errorf("running git %s: %w", c.Args[0], err)
	case res.Code == 0:
		return out.String(), 0, nil
	}
	failed := &Error{Args: c.Args, Dir: c.Dir, Code: res.Code, Stderr: stderr.String()}
	if err := failed.owned(); err != nil {
		return "", res.Code, err
	}
	if slices.Contains(c.Accept, res.Code) {
		return out.String(), res.Code, nil
	}
	return out.String(), res.Code, failed
}

// Do runs a command whose answer nobody reads.
func (r *Repo) Do(ctx context.Context, c Command) error {
	_, _, err := r.Run(ctx, c)
	return err
}

// Line runs a command that answers with one line.
func (r *Repo) Line(ctx context.Context, c Command) (string, error) {
	out, _, err := r.Run(ctx, c)
	return strings.TrimSuffix(out, "\n"), err
}

// environ keeps git from looking above the checkout should its .git have been removed, and from taking other objects
// for those that are meant.
func (r *Repo) environ(c Command) []string {
	base := r.Env
	if base == nil {
		base = os.Environ()
	}
	extra := []string{"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_EDITOR=:", "GIT_NO_REPLACE_OBJECTS=1", proc.Owned(proc.Self())}
	if !c.Hooks {
		extra = append(extra, "LC_ALL=C")
	}
	if c.Dir != "" {
		extra = append(extra, "GIT_CEILING_DIRECTORIES="+filepath.Dir(c.Dir))
	}
	return proc.Environ(base, slices.Concat(allowed, r.Allow), append(extra, c.Env...)...)
}

// getenv is a variable as git commands see it.
func (r *Repo) getenv(name string) (value string, ok bool) {
	if r.Env == nil {
		return os.LookupEnv(name)
	}
	return proc.Getenv(r.Env, name)
}

// limited is a buffer that refuses what is beyond all reason.
type limited struct {
	bytes.Buffer
	max int
}

var errTooMuch = errors.New("git's answer is too long")

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.max {
		return 0, errTooMuch
	}
	return l.Buffer.Write(p)
}

// name is the command of a call, behind its options.
func (c Command) name() string {
	args := c.Args
	for len(args) > 2 && args[0] == "-c" {
		args = args[2:]
	}
	return args[0]
}
