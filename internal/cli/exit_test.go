package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
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
		{flow.Fail("push_failed", "no route"), "trellis: push_failed: no route\ntrellis: next: read the message: the remote, your access, the pre-push hook, or commits of others on the branch; then `trellis deliver DIR`, which calls no agent\n"},
	} {
		var out bytes.Buffer
		a := &console{Console: command.Console{Stderr: &out}}
		a.Report(test.err)
		if got := out.String(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// With --json standard error is one document with all problems. Earlier notes are left out of it.
func TestReportAsJSON(t *testing.T) {
	problems := []trellis.Problem{
		{File: "debug.jsonl", Message: "there is none", Hint: "write it", Warning: true},
		{File: "prd.md", Line: 3, Message: "is not filled in", Hint: "trellis edit auth"},
		{File: "prd.md", Line: 7, Message: "is not filled in", Hint: "trellis edit auth"},
		{File: "plan.json", Line: 1, Column: 2, Message: "no comma"},
	}
	type document struct {
		Message, Kind, File string
		Exit, Line          int
		Next                []string
		Problems            []trellis.Problem
	}
	unmet := app.AsKind(app.ErrUnmet, errors.New("auth is not ready"))
	for _, test := range []struct {
		err  error
		why  []trellis.Problem
		want document
	}{
		{unmet, problems, document{Message: "auth is not ready", Kind: "unmet", Exit: 3, File: "prd.md", Line: 3, Next: []string{"trellis edit auth"}, Problems: problems}},
		{app.WithHints(app.Usagef("it can't be run"), "mend it"), problems[1:], document{Message: "it can't be run", Kind: "usage", Exit: 2, File: "prd.md", Line: 3, Next: []string{"mend it"}, Problems: problems[1:]}},
		{&durable.FileError{Path: "/r/run", Err: durable.ErrLink}, nil, document{Message: "/r/run: is a symbolic link", Kind: "usage", Exit: 2, File: "/r/run", Next: []string{"put what it is to be in the place of the link"}}},
		{&proc.SignalError{Signal: syscall.SIGINT}, nil, document{Message: "stopped by Ctrl-C", Kind: "interrupted", Exit: 130, Next: []string{}}},
		{&proc.SignalError{Signal: syscall.SIGTERM}, nil, document{Message: "stopped by SIGTERM", Kind: "interrupted", Exit: 143, Next: []string{}}},
	} {
		var out bytes.Buffer
		a := &command.Console{Stderr: &out, JSONErrors: true}
		command.Note(a, "the name becomes auth")
		err := test.err
		if test.why != nil {
			err = command.WithProblems(a, err, test.why, a.SayProblems)
		}
		a.Report(fmt.Errorf("%w", err))
		var got struct{ Error document }
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || !reflect.DeepEqual(got.Error, test.want) {
			t.Errorf("got %s (%v), want %+v", out.Bytes(), err, test.want)
		}
	}
}

// A note is printed at once. With --json it is printed at the end, if no error document follows.
func TestNotes(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		a := &command.Console{Stderr: &out, JSONErrors: asJSON}
		command.Note(a, "the name becomes %s", "auth")
		if told := out.Len() > 0; told == asJSON {
			t.Errorf("JSON %v: told at once: %v", asJSON, told)
		}
		a.Report(app.Quiet(app.ErrWaiting))
		if want := "trellis: the name becomes auth\n"; out.String() != want {
			t.Errorf("JSON %v: got %q, want %q", asJSON, out.String(), want)
		}
	}
}
