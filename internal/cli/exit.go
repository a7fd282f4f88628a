package cli

import (
	"errors"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/proc"
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

// exitCodes say with which code an error of a kind ends the process.
var exitCodes = map[app.Kind]int{
	app.ErrFailed: exitFailed, app.ErrUsage: exitUsage, app.ErrUnmet: exitUnmet, app.ErrRejected: exitRejected, app.ErrPlanner: exitPlanner, app.ErrWaiting: exitWaiting,
	app.ErrNotFound: exitNotFound, app.ErrLocked: exitLocked, app.ErrNoAgent: exitNoAgent, app.ErrTimeout: exitTimeout, app.ErrInterrupted: exitInterrupted,
}

// exitCode is the exit code of an error, and the only place that knows.
func exitCode(err error) int {
	var signal *proc.SignalError
	var status exitStatus
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &signal):
		return signal.Code()
	}
	return exitCodes[app.KindOf(err)]
}

// report prints an error and its hints for people.
func (a *console) report(err error) {
	if err == nil || err.Error() == "" {
		return
	}
	a.say("%v", err)
	for _, h := range app.HintsOf(err) {
		a.say("hint: %s", h)
	}
}
