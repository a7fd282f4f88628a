package runfile

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// runView shows the run of a file while it happens: as a tree on a terminal, as lines elsewhere, or as one JSON
// object a line.
type runView struct {
	*terminal.Live
	a       *command.Console
	json    bool
	idKnown bool // the person knows which run it is, having just answered its question

	mu sync.Mutex // protects the output
}

func newFollowing(a *command.Console, s *runner.Site, asJSON bool) *runView {
	f := &runView{Live: a.Show(s, asJSON), a: a, json: asJSON}
	if show := s.Event; asJSON {
		s.Event = func(e runner.Event) {
			if e.Step != nil {
				f.print(*e.Step)
			}
			show(e)
		}
	}
	return f
}

// print prints an event. A reader that went away does not end the run.
func (f *runView) print(e workflow.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = terminal.JSONLine(f.a.Stdout, e)
}

func (f *runView) begin(res runner.FileRun, past []workflow.Event) {
	a := f.a
	if len(past) > 0 || res.Input.Number > 1 {
		sayFileChanged(a, res)
	}
	title := res.Bundle.Plan("").Title
	if f.json {
		f.print(workflow.Event{Type: workflow.WorkflowStarted, At: a.Now().UTC(), Run: res.ID, File: relativePath(a, res.Input.File), Title: title, Resumed: len(past) > 0 || res.Input.Number > 1})
		return
	}
	if res.Idle {
		return
	}
	if !f.idKnown {
		f.Say(fmt.Sprintf("run %s: %s", res.ID, title))
	}
	f.Follow(title, res.Bundle.ResolvedSteps(), past)
}

// end prints how the run ended, or what it waits for. With asked, a person is asked about that
// next: then it does not print the commands that answer, or the id of the run.
func (f *runView) end(ctx context.Context, res runner.FileRun, asked bool) error {
	err := exitError(res)
	if f.json {
		f.print(finishedEvent(ctx, f.a, res, err))
		return err
	}
	sayFile(f.a, res)
	if asked {
		return err
	}
	return cmp.Or(err, sayAnswers(f.a, res))
}

// sayAnswers prints the commands that answer what a run waits for, and last the id of the run.
func sayAnswers(a *command.Console, res runner.FileRun) error {
	for _, q := range res.Waits {
		a.Say("next: trellis approve %s --step %s", trellis.ShellWord(res.ID), trellis.ShellWord(q.Path))
		a.Say("next: trellis reject %s --step %s --reason TEXT", trellis.ShellWord(res.ID), trellis.ShellWord(q.Path))
	}
	return a.Result(res.ID)
}

// finishedEvent returns the last event of a run.
func finishedEvent(ctx context.Context, a *command.Console, res runner.FileRun, err error) workflow.Event {
	r := &workflow.Result{Exit: command.ExitCode(err), Steps: res.Report.Steps, Done: res.Report.Done, Skipped: res.Report.Skipped, Tolerated: res.Report.Tolerate,
		Failed: []workflow.Outcome{}, Blocked: []workflow.Outcome{}, Waits: append([]workflow.Request{}, res.Waits...), Head: res.Report.Head,
		Proven: res.Checks > 0 && res.Proven == res.Checks, Usage: res.Usage}
	e := workflow.Event{Type: workflow.WorkflowFinished, At: a.Now().UTC(), Run: res.ID, State: workflow.Done, Seconds: res.Seconds, Result: r}
	for _, o := range res.Report.Worst {
		if o.State == workflow.Blocked {
			r.Blocked = append(r.Blocked, o)
		} else {
			r.Failed = append(r.Failed, o)
		}
	}
	switch {
	case res.Interrupted:
		e.State = workflow.Interrupted
		if s, ok := context.Cause(ctx).(*proc.SignalError); ok {
			r.Exit = s.Code()
		}
	case r.Exit == command.ExitWaiting:
		e.State = workflow.Waiting
	case err != nil:
		e.State = workflow.Failed
	}
	if res.Failure != nil {
		r.Failure = res.Failure.Error()
	}
	return e
}

// sayFile prints how the run of a file ended, or what it waits for.
func sayFile(a *command.Console, res runner.FileRun) {
	r := res.Report
	for _, o := range r.Worst {
		a.Say("%s", outcomeLine(o))
	}
	if n := r.Failed + r.Blocked + r.Tolerate - len(r.Worst); n > 0 {
		a.Say("and %s more", text.Count(n, "step"))
	}
	if len(res.Waits) > 0 {
		_, unread, _ := proof.Read(res.Dir) // the run has reported the error
		a.SayProblems(unread)
	}
	for _, q := range res.Waits {
		sayRequest(a, q)
	}
	switch {
	case res.Idle:
		a.Say("run %s has ended well: nothing to do", res.ID)
	case res.Interrupted, res.Failure != nil, len(res.Waits) > 0: // reported before, or by the error
	case !res.Until.IsZero():
		a.Say("run %s sleeps until %s; next: trellis run --resume %s", res.ID, res.Until.Local().Format(time.RFC3339), trellis.ShellWord(res.ID))
	case r.Failure() != nil:
		a.Say("run %s failed: %s", res.ID, stepCounts(r.Report))
		a.Say("next: trellis run --resume %s", trellis.ShellWord(res.ID))
	case r.Tolerate > 0:
		a.Say("run %s completed with failures: %s", res.ID, stepCounts(r.Report))
	default:
		a.Say("run %s is done: %s", res.ID, stepCounts(r.Report))
	}
	if r.Head != "" && len(res.Waits) == 0 {
		a.Say("proofs %s · %d of %s with a check proven", r.Head, res.Proven, text.Count(res.Checks, "step"))
	}
}

func outcomeLine(o workflow.Outcome) string {
	what := string(o.State)
	if o.Tolerated {
		what += ", and the run continued"
	}
	if o.Code != 0 {
		what += fmt.Sprintf(" (exit %d)", o.Code)
	}
	return o.Path + ": " + what + ": " + o.Detail
}

func stepCounts(r workflow.Report) string {
	var list []string
	for _, c := range []struct {
		n    int
		word string
	}{{r.Done, "done"}, {r.Failed, "failed"}, {r.Blocked, "blocked"}, {r.Tolerate, "failed and tolerated"}, {r.Skipped, "skipped"}} {
		if c.n > 0 {
			list = append(list, fmt.Sprintf("%d %s", c.n, c.word))
		}
	}
	return strings.Join(list, ", ")
}

// sayRequest prints what people are asked before a step.
func sayRequest(a *command.Console, q workflow.Request) {
	a.Say("%s", strings.TrimSuffix(q.Path+" waits for approval: "+q.Title, ": "+q.Path))
	if q.Description != "" {
		a.Say("  %s", strings.ReplaceAll(strings.TrimSpace(q.Description), "\n", "\n  "))
	}
	if len(q.Lets) > 0 && !slices.Equal(q.Lets, []string{q.Path}) {
		a.Say("  then runs: %s", strings.Join(q.Lets, ", "))
	}
}

// exitError returns the error for the exit code after the run of a file.
func exitError(res runner.FileRun) error {
	next := "trellis run --resume " + trellis.ShellWord(res.ID)
	switch {
	case res.Interrupted:
		return app.WithHints(context.Canceled, next)
	case res.Failure != nil:
		return app.WithHints(res.Failure, outcome.ResumeHint(res.Failure, next))
	case len(res.Waits) > 0, !res.Until.IsZero():
		return app.Quiet(app.ErrWaiting)
	case res.Report.Failure() != nil && res.Report.TimedOut:
		return app.Quiet(app.ErrTimeout)
	case res.Report.Failure() != nil:
		return app.Quiet(app.ErrFailed)
	}
	return nil
}

// sayFileChanged prints that a run goes on with its copy of a file that was changed or removed since.
func sayFileChanged(a *command.Console, res runner.FileRun) {
	edited, gone := runner.FileSince(res.Input.File, res.Bundle)
	switch {
	case gone:
		a.Say("%s is gone: what runs is the copy of it that the run began with", relativePath(a, res.Input.File))
	case edited:
		a.Say("%s is not as it was: what runs is the copy of it that the run began with", relativePath(a, res.Input.File))
		a.Say("next: trellis run --resume %s %s", trellis.ShellWord(res.ID), trellis.ShellWord(relativePath(a, res.Input.File)))
	}
}

// relativePath returns a path relative to the current folder if it lies there.
func relativePath(a *command.Console, path string) string {
	if rel, err := filepath.Rel(a.Dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}
