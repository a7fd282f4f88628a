package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Exit codes are a contract: docs/cli.md and every command's help show this table.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnmet       = 3
	exitRejected    = 4
	exitPlanner     = 5
	exitWaiting     = 8
	exitNotFound    = 10
	exitLocked      = 11
	exitNoAgent     = 12
	exitTimeout     = 124
	exitInterrupted = 130
	exitTerminated  = 143
)

// exits says what each exit code means.
var exits = []struct {
	Code    int
	Meaning string
}{
	{exitDone, "done"},
	{exitFailed, "the task failed or was cancelled (its code is printed), a step failed, or something unexpected happened"},
	{exitUsage, "usage: flags, arguments, an input file that can't be read, no repository, a name that is taken"},
	{exitUnmet, "a check did not hold; a directory that is not ready was left as it is"},
	{exitRejected, "the requirement was rejected"},
	{exitPlanner, "the planner failed, its time limits included; that is not a rejection"},
	{exitWaiting, "waiting or paused: for an approval, for trust in what came by git, a dependency, a rate limit, an outage of the provider, a budget"},
	{exitNotFound, "no such task, run or objective"},
	{exitLocked, "locked: the process named holds what is needed, or took over the run"},
	{exitNoAgent, "an agent program or the sandbox that is required is missing, or the agent is not signed in; no attempt was used up"},
	{exitTimeout, "a time limit ended it"},
	{exitInterrupted, "interrupted; the state is resumable"},
	{exitTerminated, "terminated; the state is resumable"},
}

// The kinds of errors that have an exit code and no type of their own. [as] makes an error one of a kind.
var (
	errFailed   = errors.New("failed") // what is of no kind is this
	errUsage    = errors.New("usage")
	errUnmet    = errors.New("a check did not hold")
	errRejected = errors.New("the requirement was rejected")
	errPlanner  = errors.New("the planner failed")
	errWaiting  = errors.New("waiting")
	errNoAgent  = errors.New("no agent")
	errTimeout  = errors.New("a time limit ended it")
)

// exitCode is the exit code of an error, and the only place that knows.
func exitCode(err error) int {
	var signal *proc.SignalError
	var problem *trellis.Problem
	var file *durable.FileError
	var status exitStatus
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &signal):
		return signal.Code()
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, errUnmet):
		return exitUnmet
	case errors.Is(err, errRejected):
		return exitRejected
	case errors.Is(err, errPlanner):
		return exitPlanner
	case errors.Is(err, errWaiting), errors.Is(err, trust.ErrUntrusted):
		return exitWaiting
	case errors.Is(err, taskdir.ErrNotFound), errors.Is(err, dispatch.ErrNoRun), errors.Is(err, roadmap.ErrNotFound):
		return exitNotFound
	case errors.Is(err, durable.ErrHeld), errors.Is(err, journal.ErrFenced):
		return exitLocked
	case errors.Is(err, errNoAgent):
		return exitNoAgent
	case errors.Is(err, errTimeout):
		return exitTimeout
	case errors.As(err, &problem), errors.As(err, &file):
		return exitUsage
	}
	return failureExit(err)
}

// failureExit is the exit code of how a run ended.
func failureExit(err error) int {
	var f *flow.Failure
	if !errors.As(err, &f) {
		return exitFailed
	}
	switch trellis.Code(f.Code) {
	case trellis.TimeoutWall, trellis.TimeoutIdle:
		return exitTimeout
	case trellis.RateLimited, trellis.BudgetTokens, trellis.BudgetCost, trellis.BudgetTime:
		return exitWaiting
	case trellis.Fenced:
		return exitLocked
	case trellis.Interrupted:
		return exitInterrupted
	}
	return exitFailed
}

// kindError is an error of a kind.
type kindError struct{ kind, err error }

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }

// as makes err one of a kind, which decides on the exit code and adds nothing to the message.
func as(kind, err error) error { return &kindError{kind, err} }

// usagef is a usage error.
func usagef(format string, args ...any) error { return as(errUsage, fmt.Errorf(format, args...)) }

// quiet is an error of a kind about which everything has been said.
func quiet(kind error) error { return as(kind, errors.New("")) }

// hintError is an error together with what to do about it.
type hintError struct {
	err   error
	hints []string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// hint adds to an error what to do about it, best as a command to type.
func hint(err error, hints ...string) error { return &hintError{err, hints} }

// report prints an error and its hints for people.
func (a *console) report(err error) {
	if err == nil || err.Error() == "" {
		return
	}
	a.say("%v", err)
	for _, h := range hintsOf(err) {
		a.say("hint: %s", h)
	}
}

// hintsOf are the hints of an error; where nobody gave one, those of the problem or the failure in it.
func hintsOf(err error) []string {
	var given *hintError
	if errors.As(err, &given) {
		return given.hints
	}
	var problem *trellis.Problem
	if errors.As(err, &problem) && problem.Hint != "" {
		return []string{problem.Hint}
	}
	var file *durable.FileError
	if errors.As(err, &file) {
		return []string{file.Mend()}
	}
	var held *durable.HeldError
	if errors.As(err, &held) && filepath.Base(held.Path) == filepath.Base(taskdir.WriteLock) && held.Holder.PID != 0 {
		return []string{fmt.Sprintf("it is held for milliseconds: if process %d was stopped, kill -CONT %[1]d lets it go on", held.Holder.PID)}
	}
	var untrusted *trust.UntrustedError
	if errors.As(err, &untrusted) {
		return []string{untrusted.Next()}
	}
	var failure *flow.Failure
	if errors.As(err, &failure) {
		for _, row := range trellis.Codes {
			if string(row.Code) == failure.Code {
				return []string{row.Todo}
			}
		}
	}
	return nil
}
