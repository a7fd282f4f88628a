package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

func TestExitCode(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{boom, 1},
		{context.Canceled, 1},
		{flow.ErrCancelled, 1},
		{flow.Fail("verify_failed", "go test"), 1},
		{flow.Fail("agent_missing", "in the middle of a run"), 1},
		{app.Usagef("no --name"), 2},
		{&trellis.Problem{File: "task.json", Line: 3, Message: "no comma"}, 2},
		{app.Quiet(app.ErrUnmet), 3},
		{app.AsKind(app.ErrRejected, boom), 4},
		{app.AsKind(app.ErrPlanner, flow.Fail("timeout_wall", "evaluate")), 5},
		{app.AsKind(app.ErrWaiting, boom), 8},
		{flow.Fail("rate_limited", ""), 8},
		{flow.Fail("budget_tokens", ""), 8},
		{flow.Fail("budget_cost", ""), 8},
		{flow.Fail("budget_time", ""), 8},
		{&taskdir.AmbiguousError{}, 1},
		{fmt.Errorf("%w: %w", taskdir.ErrNotFound, &trellis.Problem{File: "x"}), 10},
		{flow.Fail("fenced", ""), 11},
		{&durable.HeldError{Path: "run/lock"}, 11},
		{fmt.Errorf("%w: %w", flow.ErrSuspended, journal.ErrFenced), 11},
		{command.ExitStatus(9), 9},
		{app.AsKind(app.ErrNoAgent, flow.Fail("agent_missing", "claude")), 12},
		{flow.Fail("timeout_wall", ""), 124},
		{flow.Fail("timeout_idle", ""), 124},
		{flow.Fail("interrupted", ""), 130},
		{&proc.SignalError{Signal: syscall.SIGINT}, 130},
		{&proc.SignalError{Signal: syscall.SIGTERM}, 143},
	} {
		if got := command.ExitCode(test.err); got != test.want {
			t.Errorf("%v: got %d, want %d", test.err, got, test.want)
		}
		if test.err == nil {
			continue
		}
		if got := command.ExitCode(app.WithHints(fmt.Errorf("doing it: %w", test.err), "do this")); got != test.want {
			t.Errorf("%v, wrapped: got %d, want %d", test.err, got, test.want)
		}
	}
}

func TestReport(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{app.Quiet(app.ErrUnmet), ""},
		{errors.New("boom"), "trellis: boom\n"},
		{app.WithHints(app.Usagef("no name"), "trellis help plan"), "trellis: no name\ntrellis: next: trellis help plan\n"},
		{&trellis.Problem{File: "a/task.json", Line: 3, Column: 7, Message: "no comma", Hint: "mend it"}, "trellis: a/task.json:3:7: no comma\ntrellis: next: mend it\n"},
		{flow.Fail("push_failed", "no route"), "trellis: push_failed: no route\ntrellis: next: read the message: the remote, your access, the pre-push hook, or commits of others on the branch; then `trellis deliver DIR`, which asks no agent again\n"},
	} {
		var out bytes.Buffer
		a := &console{Console: command.Console{Stderr: &out}}
		a.Report(test.err)
		if got := out.String(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
