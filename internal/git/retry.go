package git

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// retryDelay is how long it is waited before git is called again.
const retryDelay = 50 * time.Millisecond

// Retry does something that looks for its own effect first once more when git failed at it: what keeps a call from its
// end (no memory, no process to be had, a kill) is mostly gone at the next. Locks of others have their own patience, and
// what took too long would do so again. Where others make and remove worktrees it takes more than two.
func Retry(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		var failed *Error
		if !errors.As(err, &failed) || failed.Code == proc.CodeTimeout || lockContended(err) || errors.As(err, new(*HookError)) {
			return err
		}
		if try == 10 || try > 1 && !worktreeRace(failed) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryDelay):
		}
	}
}

// worktreeRace reports whether git met a worktree that another process was making or removing at that moment: many of its
// commands look at all there are, and others tidy up what looks unfinished.
func worktreeRace(e *Error) bool { return strings.Contains(e.Stderr, "worktrees/") }

// rewind makes a call ready to be made once more. An index of its own is nobody else's, nor is a lock on it.
func rewind(c Command) error {
	for _, v := range c.Env {
		if index, ok := strings.CutPrefix(v, "GIT_INDEX_FILE="); ok {
			_ = os.Remove(index + ".lock") // mostly there is none
		}
	}
	if in, ok := c.Stdin.(io.Seeker); ok {
		_, err := in.Seek(0, io.SeekStart)
		return err
	}
	return nil
}

// Failed reports whether an error tells that git could not do something, or that repository or worktree are not as they
// have to be: what a person mends there.
func Failed(err error) bool {
	for _, is := range []error{ErrNoRepository, ErrBare, ErrNoCommit, ErrNotFound, ErrNothing, ErrNoWorktree} {
		if errors.Is(err, is) {
			return true
		}
	}
	return errors.As(err, new(*Error)) || errors.As(err, new(*HookError)) || errors.As(err, new(*NestedError)) ||
		errors.As(err, new(*IdentityError)) || errors.As(err, new(*BranchError)) || errors.As(err, new(*PathError)) || errors.As(err, new(*SwappedError)) ||
		errors.As(err, new(*DamagedError)) || errors.As(err, new(*AlternatesError))
}
