package command

import (
	"errors"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// Exit codes are a contract: docs/reference/cli.md and every command's help show this table.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitUnmet       = 3
	ExitRejected    = 4
	ExitPlanner     = 5
	ExitWaiting     = 8
	ExitNotFound    = 10
	ExitLocked      = 11
	ExitNoAgent     = 12
	ExitTimeout     = 124
	ExitInterrupted = 130
	ExitTerminated  = 143
)

// Exits lists the exit codes and their meanings.
var Exits = []struct {
	Code    int
	Meaning string
}{
	{ExitDone, "done"},
	{ExitFailed, "the task failed or was cancelled (its code is printed), a step failed, or an unexpected error occurred"},
	{ExitUsage, "usage error: flags, arguments, an unreadable input file, no repository, a name already in use"},
	{ExitUnmet, "a check failed; a directory that is not ready was left unchanged"},
	{ExitRejected, "the requirement was rejected"},
	{ExitPlanner, "planning failed or reached a time limit; this is not a rejection"},
	{ExitWaiting, "waiting or paused: approval, trust in what came through git, dependency, rate limit, provider outage, budget"},
	{ExitNotFound, "no such task, run or objective"},
	{ExitLocked, "locked: the named process holds what is needed, or took over the run"},
	{ExitNoAgent, "an agent program or the required sandbox is missing, or the agent is not signed in; no attempt was used up"},
	{ExitTimeout, "stopped by a time limit"},
	{ExitInterrupted, "interrupted; can be resumed"},
	{ExitTerminated, "terminated; can be resumed"},
}

// exitCodes maps the kind of an error to an exit code.
var exitCodes = map[app.Kind]int{
	app.ErrFailed: ExitFailed, app.ErrUsage: ExitUsage, app.ErrUnmet: ExitUnmet, app.ErrRejected: ExitRejected, app.ErrPlanner: ExitPlanner, app.ErrWaiting: ExitWaiting,
	app.ErrNotFound: ExitNotFound, app.ErrLocked: ExitLocked, app.ErrNoAgent: ExitNoAgent, app.ErrTimeout: ExitTimeout, app.ErrInterrupted: ExitInterrupted,
}

// ExitCode returns the exit code for an error. It is the only place that decides that.
func ExitCode(err error) int {
	var signal *proc.SignalError
	var status ExitStatus
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &signal):
		return signal.Code()
	}
	return exitCodes[app.KindOf(err)]
}
