// Package outcome says how a run or a planning ended: to people, as JSON, and as the error that its exit code comes from.
package outcome

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// PrintRun prints the state of a task after a run, as one JSON document or for people, and returns
// the error for the exit code.
func PrintRun(ctx context.Context, a *command.Console, p *app.Project, res runner.Result, asJSON bool) error {
	if !asJSON {
		SayRun(a, p, res)
		if next := nextAfterWait(ctx, p, res); next != "" {
			a.Say("next: %s", next)
		}
		return exitError(res)
	}
	if err := a.PrintTask(p, res.Dir); err != nil {
		return err
	}
	return exitError(res)
}

// nextAfterWait returns the next command for a task that waits, for the first of its waits whose message does not name one.
func nextAfterWait(ctx context.Context, p *app.Project, res runner.Result) string {
	if _, unsaid := res.Waits.FirstWithoutNext(); res.Status != trellis.Waiting || !unsaid {
		return ""
	}
	next, _ := p.Next(ctx, res.Dir) // if that fails, the waits were still printed
	return next
}

// exitError returns the error for the exit code after a run.
func exitError(res runner.Result) error {
	switch {
	case res.Interrupted:
		return app.WithHints(context.Canceled, "trellis start "+trellis.ShellWord(filepath.Base(res.Dir)))
	case res.Status == trellis.Rejected:
		return app.Quiet(app.ErrRejected)
	case res.Status == trellis.Waiting, res.Status == trellis.Paused:
		return app.Quiet(app.ErrWaiting)
	case res.Failure != nil && res.Status == trellis.Ready: // the watcher can't start it
		return app.WithHints(app.AsKind(app.ErrNoAgent, res.Failure), "trellis doctor")
	case res.Failure != nil && (res.Status == trellis.Failed || res.Status == trellis.Review):
		return app.WithHints(res.Failure, FailureHint(filepath.Base(res.Dir), res.Failure))
	case res.Status == trellis.Failed, res.Status == trellis.Cancelled:
		return fmt.Errorf("%s is %s", filepath.Base(res.Dir), res.Status)
	case len(res.Waits) > 0, !res.Until.IsZero():
		return app.Quiet(app.ErrWaiting)
	}
	return nil
}

// RunError adds an exit code and a hint to the error that keeps a task from running.
func RunError(a *command.Console, p *app.Project, dir string, err error) error {
	id := filepath.Base(dir)
	var not *runner.NotReadyError
	switch {
	case errors.As(err, &not):
		return command.WithProblems(a, app.AsKind(app.ErrUnmet, fmt.Errorf("%s is not ready", id)), not.Problems, a.PrintProblems)
	case errors.Is(err, runner.ErrPlanning):
		return app.WithHints(app.AsKind(app.ErrUsage, fmt.Errorf("%s is being planned, or its planning was cut off", id)), "trellis plan --retry "+trellis.ShellWord(p.Store.Rel(dir)))
	case errors.As(err, new(*durable.HeldError)), errors.Is(err, journal.ErrFenced):
		return err
	}
	return AgentError(err)
}

// FileRunError is RunError for a run of a file. After a disk error its hint resumes that run: the command would begin another.
func FileRunError(a *command.Console, p *app.Project, runs runner.FileRunner, id string, err error) error {
	if _, none := runs.FileDir(id); none == nil && durable.IsDiskError(err) {
		return app.WithHints(err, "put the disk right, then trellis run --resume "+trellis.ShellWord(id))
	}
	return RunError(a, p, id, err)
}

// AgentError adds exit codes and hints to errors from before anything was claimed: no agent, not signed in, no git identity.
func AgentError(err error) error {
	if errors.As(err, new(*git.IdentityError)) {
		return app.WithHints(app.AsKind(app.ErrUsage, errors.New("git does not know who you are, and so can't commit")),
			`git config --global user.name "Your Name"`, "git config --global user.email you@example.com")
	}
	if errors.Is(err, agents.ErrUnknown) {
		return app.WithHints(app.AsKind(app.ErrUsage, err), "trellis doctor")
	}
	if f, ok := errors.AsType[*flow.Failure](err); ok && (f.Code == string(trellis.AgentMissing) || f.Code == string(trellis.AgentAuth)) {
		return app.WithHints(app.AsKind(app.ErrNoAgent, err), "trellis doctor")
	}
	return err
}

// SayRun prints the state of a task and what to do next.
func SayRun(a *command.Console, p *app.Project, res runner.Result) {
	for _, line := range RunLines(p, res) {
		a.Say("%s", line)
	}
	if res.Status != trellis.Rejected {
		return
	}
	if data, err := taskdir.ReadFile(res.Dir, taskdir.Rejected); err == nil {
		fmt.Fprint(a.Stderr, trellis.Visible(string(data)))
		return
	}
	id := filepath.Base(res.Dir) // rejected by hand, without REJECTED.md
	a.Say("%s is rejected", id)
	a.Say("next: trellis plan --retry %s --requirement '<revised requirement>'", trellis.ShellWord(id))
}

// resultLines collects lines for people.
type resultLines []string

func (s *resultLines) add(format string, args ...any) { *s = append(*s, fmt.Sprintf(format, args...)) }

// RunLines returns the state of a task and what to do next, as lines for people.
func RunLines(p *app.Project, res runner.Result) []string {
	var s resultLines
	id := filepath.Base(res.Dir)
	switch res.Status {
	case trellis.Review:
		if res.Failure != nil {
			s.add("%s is in review again, as it was delivered", id)
			break
		}
		s.addReview(p, id, res)
	case trellis.Completed:
		if res.Outcome == trellis.NoChangeNeeded {
			s.add("%s needed no change: every criterion holds already", id)
		} else {
			s.add("%s is completed: nothing to do", id)
		}
		s.addNotes(res.Report.Notes, nil)
		return s
	case trellis.Waiting, trellis.Ready:
		if len(res.Waits) > 0 {
			s.add("%s waits for %v", id, res.Waits)
		}
	case trellis.Paused:
		if s.addPaused(id, res) {
			return s
		}
	case trellis.Failed:
		s.add("report    %s", p.Store.Rel(filepath.Join(res.Dir, taskdir.Report)))
		if t, err := p.Store.Load(res.Dir); err == nil && p.Worktree(t) != "" {
			s.add("worktree  %s", p.Worktree(t))
		}
		for _, step := range res.Rollback {
			s.add("rollback  %s", step)
		}
		s.addNotes(res.Report.Notes, nil)
	}
	return s
}

// addReview adds the lines about a task in review.
func (s *resultLines) addReview(p *app.Project, id string, res runner.Result) {
	r := res.Report
	if r.Branch == "" {
		s.add("%s is in review: nothing to do", id)
		return
	}
	s.add("commit    %.12s on %s", r.Commit, r.Branch)
	if res.Unheeded {
		s.add("feedback  nothing was changed for it: that is the commit that was there")
	}
	s.add("report    %s", p.Store.Rel(filepath.Join(res.Dir, taskdir.Report)))
	s.add("worktree  %s", r.Worktree)
	if what, why := r.Undecided(); what != "" && r.Rounds > 0 { // otherwise another process ran the task, and has the report
		s.add("checks    %s: %s; the verdict is the agents' own", strings.ToLower(what), why)
	}
	if len(r.Checks.Defining) > 0 {
		s.add("checks    these files say what the checks do, and were changed: %s", strings.Join(r.Checks.Defining, ", "))
	}
	if r.Stacked != "" {
		s.add("stacked   on %s: merge that first", r.Stacked)
	}
	s.addDelivery(res)
	s.add("next: trellis diff %s", trellis.ShellWord(id))
	if t, err := p.Store.Load(res.Dir); err == nil && r.Delivery.PRURL == "" {
		s.add("next: %s", app.MergeCommand(p, t))
	}
}

// addPaused adds until when, or why, a task is paused, and reports whether it also added how the task goes on.
func (s *resultLines) addPaused(id string, res runner.Result) bool {
	if res.Until.IsZero() {
		s.add("%s is paused", id)
	} else {
		s.add("%s is paused until %s", id, res.Until.Local().Format(time.RFC3339))
	}
	switch f := res.Failure; {
	case f != nil && f.Code != string(trellis.Interrupted):
		s.add("%v", f)
		s.add("next: %s", FailureHint(id, f))
	case res.Until.IsZero(): // a person stopped it: no watcher goes on with it
		s.add("next: trellis start %s", trellis.ShellWord(id))
		return true
	}
	return false
}

// FailureHint returns what a person can do about the failure of a task.
func FailureHint(id string, f *flow.Failure) string {
	info, _ := trellis.Code(f.Code).Info()
	return strings.ReplaceAll(info.Todo, "DIR", id)
}

// SayDelivery prints the notes of a run, what became of its branch, and the commands that are left to run.
func SayDelivery(a *command.Console, res runner.Result) {
	var s resultLines
	s.addDelivery(res)
	for _, line := range s {
		a.Say("%s", line)
	}
}

// addNotes adds notes, except those in elsewhere.
func (s *resultLines) addNotes(notes, elsewhere []string) {
	for _, n := range notes {
		if !slices.Contains(elsewhere, n) {
			s.add("note      %s", n)
		}
	}
}

func (s *resultLines) addDelivery(res runner.Result) {
	d := res.Report.Delivery
	s.addNotes(res.Report.Notes, d.Notes)
	if d.Pushed {
		s.add("pushed    %s to %s", res.Report.Branch, d.Remote)
	}
	if d.PRURL != "" {
		s.add("pr        %s", d.PRURL)
	}
	for _, m := range d.Modules {
		s.add("first     %s of %s", m.URL, m.Path)
	}
	s.addNotes(d.Notes, nil)
	for _, c := range d.Commands {
		s.add("next: %s", c)
	}
}
