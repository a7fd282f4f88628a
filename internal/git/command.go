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
	readTimeout  = 2 * time.Minute  // time limit of a command that only reads
	writeTimeout = 15 * time.Minute // time limit of one that writes files or runs hooks

	maxOutput = 256 << 20 // bytes of output
	maxStderr = 64 << 10
)

// Error is a git command that failed, with git's own message.
type Error struct {
	Args   []string // without the options that every call gets
	Dir    string
	Code   int    // exit code; 124 after a timeout
	Stderr string // standard error; above maxStderr bytes the middle is cut out
}

func (e *Error) Error() string {
	message := strings.TrimSpace(e.Stderr)
	switch {
	case e.Code == proc.CodeTimeout:
		message = strings.TrimSpace("it took too long\n" + message)
	case message == "":
		message = fmt.Sprintf("exit code %d", e.Code)
	}
	return "git " + e.shortCommand() + ": " + message
}

// OwnerError means that git refused to work in a repository because another user owns it.
type OwnerError struct {
	Repository string // path, quoted for a shell
	Err        *Error
}

func (e *OwnerError) Error() string {
	return e.Repository + " belongs to another user, and git works there only if safe.directory names it"
}

func (e *OwnerError) Unwrap() error { return e.Err }

// Command returns the command that makes git accept the repository.
func (e *OwnerError) Command() string { return safeDirectory + e.Repository }

// safeDirectory is the beginning of the command that git's message suggests; the repository follows.
const safeDirectory = "git config --global --add safe.directory "

// ownerError returns an *OwnerError if git's message says that another user owns the repository, and nil otherwise.
func (e *Error) ownerError() error {
	_, rest, ok := strings.Cut(e.Stderr, safeDirectory)
	if !ok {
		return nil
	}
	repository, _, _ := strings.Cut(rest, "\n")
	return &OwnerError{repository, e}
}

// shortCommand returns the command for messages: without -c settings, cut to as many arguments as leave room for git's own message.
func (e *Error) shortCommand() string {
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

// allowedEnv lists the variables that git and its child processes may see: those that programs need, and those for identity and
// sign-in, but none that selects the repository.
var allowedEnv = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TERM", "TZ", "LANG", "LANGUAGE", "LC_*", "XDG_*",
	"EMAIL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
	"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH",
	"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GIT_SSH", "GIT_SSH_COMMAND", "GNUPGHOME", "GPG_TTY",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	proc.MarkerVar,
}

// commonOptions holds the options of every call: no file-system monitor, which an agent could have configured, no housekeeping, which
// could be killed half-way, and all stat fields count when git checks whether a file changed.
var commonOptions = []string{"-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
	"-c", "core.trustctime=true", "-c", "core.checkStat=default", "-c", "core.ignoreStat=false"}

// durableOptions holds the options of calls whose effect must survive a power cut once they have returned.
var durableOptions = []string{"-c", "core.fsync=committed,reference", "-c", "core.fsyncMethod=batch"}

// Command is one run of the git command.
type Command struct {
	Dir      string
	Args     []string
	Env      []string // added to the environment of every call
	Stdin    io.Reader
	Stdout   io.Writer // nil: Run returns the output
	Accept   []int     // exit codes besides 0 that are not errors
	Write    bool      // changes the repository: written durably, with a longer time limit
	Once     bool      // can't be repeated: Run doesn't retry it, callers check for its effect first; see Retry
	Hooks    bool      // may run the user's hooks, so the locale stays the user's
	RawIndex bool      // reads the index of a worktree as it is, without renewIndex
}

// Run runs the command and returns its standard output and exit code. A failed command is retried, and locks that others hold in
// a worktree are waited for, unless c.Once is set or c.Stdout may have received part of the output already.
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
		return Retry(ctx, func() error { return errors.Join(prepareRetry(c), do()) })
	})
	return out, code, err
}

// retryLocked calls do again while others hold locks of the worktree that the command changes.
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
	out := &limitedBuffer{max: maxOutput}
	stderr := proc.NewCapped(maxStderr)
	options, wall := commonOptions, readTimeout
	if c.Write {
		options, wall = slices.Concat(commonOptions, durableOptions), writeTimeout
	}
	cmd := proc.Command{
		Argv: slices.Concat([]string{"git"}, options, r.Hooks().disableOptions(ctx, c), c.Args), Dir: c.Dir, Env: r.environ(c),
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
	if err := failed.ownerError(); err != nil {
		return "", res.Code, err
	}
	if slices.Contains(c.Accept, res.Code) {
		return out.String(), res.Code, nil
	}
	return out.String(), res.Code, failed
}

// Do runs a command and ignores its output.
func (r *Repo) Do(ctx context.Context, c Command) error {
	_, _, err := r.Run(ctx, c)
	return err
}

// Line runs a command and returns its output, which is one line.
func (r *Repo) Line(ctx context.Context, c Command) (string, error) {
	out, _, err := r.Run(ctx, c)
	return strings.TrimSuffix(out, "\n"), err
}

// environ returns the environment of a command. It keeps git from searching above the checkout if its .git was removed, from
// replacing objects by others (git replace), and from translating messages. With c.Hooks the locale stays the user's.
func (r *Repo) environ(c Command) []string {
	base := r.Env
	if base == nil {
		base = os.Environ()
	}
	extra := []string{"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_EDITOR=:", "GIT_NO_REPLACE_OBJECTS=1", "GIT_TEXTDOMAINDIR=" + os.DevNull, proc.OwnerVariable(proc.Self())}
	if !c.Hooks {
		extra = append(extra, "LC_ALL=C")
	}
	if c.Dir != "" {
		extra = append(extra, "GIT_CEILING_DIRECTORIES="+filepath.Dir(c.Dir))
	}
	return proc.Environ(base, slices.Concat(allowedEnv, r.Allow), append(extra, c.Env...)...)
}

// getenv returns a variable as git commands see it.
func (r *Repo) getenv(name string) (value string, ok bool) {
	if r.Env == nil {
		return os.LookupEnv(name)
	}
	return proc.Getenv(r.Env, name)
}

// limitedBuffer is a buffer whose Write fails if it would hold more than max bytes.
type limitedBuffer struct {
	bytes.Buffer
	max int
}

var errTooMuch = errors.New("git's answer is too long")

func (l *limitedBuffer) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.max {
		return 0, errTooMuch
	}
	return l.Buffer.Write(p)
}

// subcommand returns the git subcommand of a call, after its -c options.
func (c Command) subcommand() string {
	args := c.Args
	for len(args) > 2 && args[0] == "-c" {
		args = args[2:]
	}
	return args[0]
}
