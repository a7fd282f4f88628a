package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Assessor decides whether a task directory can run now, and if it can't, what it waits for or what is wrong with it.
type Assessor struct {
	store      taskdir.Store
	repo       *git.Repo
	config     *config.Config
	lookPath   func(program string) error
	seen       func(*taskdir.Task) // called with each task that is assessed; nil: not called
	neighbours *ready.Neighbours
	bases      bases.Finder
	approvals  Approvals
	budgets    Budgets
	guard      trustGuard
	states     states
	elsewhere  func(dir string) *OtherMachineError
}

// Assessment is the result of assessing a task directory in its current state.
type Assessment struct {
	Dir      string
	Task     *taskdir.Task
	Adopt    bool              // a person lets the task use the existing branch
	Run      bool              // the task can run now
	At       time.Time         // earliest time to run
	Waits    bases.Waits       // what else the task waits for
	From, To trellis.Status    // the change of status that follows from that; both are empty if none does
	Problems []trellis.Problem // why the task can't run; a person has to do something
	Warnings []trellis.Problem // what the author is told although the task can run; set only if its files were checked

	Untrusted *trust.UntrustedError // who has to be trusted first; Waits is then for pulse.Trust
	Elsewhere *OtherMachineError    // the other machine that has the task; if set, nothing else was checked
	journal   *journal.History      // nil if there is none
}

func (l Assessment) WithProblem(msg, hint string) Assessment {
	l.Problems = []trellis.Problem{{File: filepath.Join(".trellis", "tasks", filepath.Base(l.Dir), taskdir.TaskJSON), Message: msg, Hint: hint}}
	return l
}

// foreignAsProblem turns a *ForeignError (the journal is not ours) into a problem of the assessment and returns all other errors.
func (l Assessment) foreignAsProblem(err error) (Assessment, error) {
	if not, ok := errors.AsType[*ForeignError](err); ok {
		l.Problems, err = []trellis.Problem{not.Problem}, nil
	}
	return l, err
}

// AssessAndUpdate assesses a task directory and updates the task's status: a ready task that has to wait becomes waiting, and
// ready again when it no longer has to.
func (as Assessor) AssessAndUpdate(ctx context.Context, dir string) (Assessment, error) {
	l, err := as.Assess(ctx, dir)
	if as.seen != nil && l.Task != nil {
		as.seen(l.Task)
	}
	if err == nil && errors.Is(ctx.Err(), context.Canceled) {
		err = context.Cause(ctx) // no caller waits for the result, and it may be outdated
	}
	if err != nil {
		return l, err
	}
	return l, as.applyStatus(l)
}

func (as Assessor) applyStatus(l Assessment) error {
	if l.To == "" || l.From == l.To {
		return nil
	}
	return as.states.move(l.Dir, l.From, l.To)
}

// Assess reads a task directory and decides whether the task can run. It changes nothing.
func (as Assessor) Assess(ctx context.Context, dir string) (Assessment, error) {
	return as.assess(ctx, Assessment{Dir: dir})
}

func (as Assessor) assess(ctx context.Context, l Assessment) (Assessment, error) {
	l, err := as.assessWithoutTrust(ctx, l)
	if err != nil || l.Elsewhere != nil {
		return l, err
	}
	return as.guard.addTrustWait(ctx, l)
}

// assessWithoutTrust assesses a task without asking whether its authors are trusted.
func (as Assessor) assessWithoutTrust(ctx context.Context, l Assessment) (Assessment, error) {
	t, err := as.store.Load(l.Dir)
	if p, ok := errors.AsType[*trellis.Problem](err); ok {
		l.Problems = []trellis.Problem{*p}
		return l, nil
	}
	if err != nil {
		return l, err
	}
	l.Task = t
	if l.Elsewhere = as.elsewhere(l.Dir); l.Elsewhere != nil {
		return l, nil
	}
	switch t.Status {
	case trellis.Ready, trellis.Waiting:
		return as.assessReady(ctx, l)
	case trellis.InProgress:
		return as.assessStarted(ctx, l)
	case trellis.Paused:
		if !pipeline.Stopped(t) && !t.Pipeline.ResumeAt.IsZero() {
			l.Run, l.At = true, as.budgets.resumeTime(t)
		}
	default:
		l.Problems = statusProblems(t)
	}
	return l, nil
}

// statusProblems returns the problems of a task whose status does not exist, so that nobody can say what it waits for; nil for a known status.
func statusProblems(t *taskdir.Task) []trellis.Problem {
	if _, err := trellis.ParseStatus(string(t.Status)); err == nil {
		return nil
	}
	return trellis.Errors(t.Problems)
}

// assessStarted assesses a task that is in progress: a run that was cut off can be resumed.
func (as Assessor) assessStarted(ctx context.Context, l Assessment) (Assessment, error) {
	h, err := journal.Read(filepath.Join(l.Dir, taskdir.Run))
	l.journal = h
	if newer, ok := errors.AsType[*RefusedError](checkVersion(l.Dir, h)); ok {
		return l.WithProblem(newer.Why, newer.Hint), nil
	}
	switch {
	case errors.Is(err, journal.ErrNone), err == nil && h.Flow != pipeline.Flow:
		return l.WithProblem("the task is in progress, but there is no journal of a run here: it belongs to another machine, or its run/ was taken away, as git clean -x does", "trellis retry "+trellis.ShellWord(l.Task.ID)), nil
	case errors.Is(err, journal.ErrDamaged):
		l.Run = true // that run fails the task and backs up its work
		return l, nil
	case err != nil:
		return l, err
	}
	if err := as.guard.checkJournalOrigin(ctx, l.Dir, h); err != nil {
		return l.foreignAsProblem(err)
	}
	if h.Ended {
		if now, err := as.store.Load(l.Dir); err == nil && now.Status != l.Task.Status { // it ended since task.json was read
			return as.assessWithoutTrust(ctx, l)
		}
		return l.WithProblem("the task is in progress, but its run has ended: git or a person set the status back", "trellis retry "+trellis.ShellWord(l.Task.ID)), nil
	}
	l.Run = true
	return l, nil
}

// assessReady assesses a task that someone wants to run.
func (as Assessor) assessReady(ctx context.Context, l Assessment) (Assessment, error) {
	h, err := journal.Read(filepath.Join(l.Dir, taskdir.Run))
	l.journal = h
	if newer, ok := errors.AsType[*RefusedError](checkVersion(l.Dir, h)); ok {
		return l.WithProblem(newer.Why, newer.Hint), nil
	}
	switch {
	case errors.Is(err, journal.ErrDamaged):
		return l.WithProblem(err.Error(), "trellis retry "+trellis.ShellWord(l.Task.ID)), nil
	case err != nil && !errors.Is(err, journal.ErrNone):
		return l, err
	}
	if err := as.guard.checkJournalOrigin(ctx, l.Dir, h); err != nil {
		return l.foreignAsProblem(err)
	}
	if hasUnfinishedPlanning(h) {
		return l.WithProblem("its planning is not at its end", "trellis plan --retry "+trellis.ShellWord(as.store.Rel(l.Dir))), nil
	}
	if l, done, err := as.checkFinished(ctx, l, h); done || err != nil {
		return l, err
	}
	if l.Warnings, err = as.check(ctx, l.Dir, l.Adopt); err != nil {
		if not, ok := errors.AsType[*NotReadyError](err); ok {
			l.Problems = not.Problems
			return l, nil
		}
		return l, err
	}
	asked, step, err := as.approvals.openStep(l.Dir, h)
	if step != "" {
		l.Waits = bases.Waits{{For: "approval of the step " + step, Next: "trellis approve " + trellis.ShellWord(l.Task.ID) + " --step " + trellis.ShellWord(step)}}
	} else if err == nil && !asked {
		l.Waits, err = as.waitReasons(ctx, l.Task, h)
	}
	if err != nil {
		return l, err
	}
	if len(l.Waits) > 0 {
		l.From, l.To = trellis.Ready, trellis.Waiting
		return l, nil
	}
	if l.Task.Status == trellis.Waiting && (h == nil || h.Ended || h.Flow != pipeline.Flow) {
		l.From, l.To = trellis.Waiting, trellis.Ready
	}
	l.Run, l.At = true, l.Task.Pipeline.NotBefore
	return l, nil
}

// hasUnfinishedPlanning reports whether a planning was begun and has not ended.
func hasUnfinishedPlanning(h *journal.History) bool {
	return h != nil && h.Run != "" && h.Flow == planner.Flow && !h.Ended
}

// checkFinished reports whether status ready is not a request to run, since the work was delivered or git restored an older task.json.
func (as Assessor) checkFinished(ctx context.Context, l Assessment, h *journal.History) (Assessment, bool, error) {
	retry := "trellis retry " + trellis.ShellWord(l.Task.ID)
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return l, false, err
	}
	done, err := pipeline.DeliveredBy(h)
	if err != nil {
		return l, false, err
	}
	switch {
	case l.Task.Pipeline.Revision < p.Revision:
		return l.WithProblem(fmt.Sprintf("git took task.json back (revision %d, the run wrote %d): this is not a request to run again", l.Task.Pipeline.Revision, p.Revision), retry), true, nil
	case done != "":
		return l.WithProblem("the task is ready, but its journal says "+string(done)+": it is not run twice", retry), true, nil
	case h != nil && h.Flow == pipeline.Flow:
		return l, false, nil
	}
	tip, err := as.repo.Refs().Branch(ctx, l.Task.BranchName())
	if err != nil || tip == "" {
		return l, false, err
	}
	made, err := as.repo.History().FindTrailer(ctx, "", tip, pipeline.TaskTrailer+": "+l.Task.ID)
	if err != nil || made == "" {
		return l, false, err
	}
	return l.WithProblem("there is no journal of a run, but "+l.Task.BranchName()+" holds a commit of this task: it is not run twice", retry), true, nil
}

// waitReasons returns what a ready task has to wait for, a person's approval or other tasks; nil for nothing. h is nil without a journal.
func (as Assessor) waitReasons(ctx context.Context, t *taskdir.Task, h *journal.History) (bases.Waits, error) {
	why, next, err := as.approvals.missingApproval(t, h)
	if err == nil && why != "" {
		return bases.Waits{{For: why, Next: next}}, nil
	}
	if err != nil || len(t.Pipeline.DependsOn) == 0 {
		return nil, err
	}
	_, waits, err := baseAndWaits(ctx, as.bases, t, h)
	if errors.As(err, new(*flow.Failure)) {
		return nil, nil // there is no base: the run reports that
	}
	return waits, err
}

// baseAndWaits returns where the work of a task begins and which tasks it has to wait for. h is the task's journal, nil without one.
func baseAndWaits(ctx context.Context, b bases.Finder, t *taskdir.Task, h *journal.History) (bases.Base, bases.Waits, error) {
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return bases.Base{}, nil, err
	}
	return b.BaseOf(ctx, t, recordedBase(t, h, p), p.Fresh)
}

// recordedBase returns where the branch of a task began, by its journal or, without one, by task.json; zero if it has not begun.
func recordedBase(t *taskdir.Task, h *journal.History, p pipeline.Progress) bases.Base {
	if h == nil || h.Flow != pipeline.Flow {
		return bases.Base{Commit: t.Pipeline.BaseCommit, On: t.Pipeline.StackedOn}
	}
	return bases.Base{Commit: p.Base, On: p.StackedOn}
}

// check returns a *NotReadyError if a task can't run, and the warnings to report if it can.
func (as Assessor) check(ctx context.Context, dir string, adopt bool) (warnings []trellis.Problem, err error) {
	problems, err := ready.Check(ctx, ready.Input{Dir: dir, Store: as.store, Status: trellis.Ready, Begins: as.repo, Adopt: adopt, Neighbours: as.neighbours,
		MaxSteps: as.config.Planning.MaxSteps, LookPath: as.lookPath, CheckPackage: as.config.CheckPackage})
	if err != nil {
		return nil, err
	}
	if wrong := trellis.Errors(problems); len(wrong) > 0 {
		return nil, &NotReadyError{wrong}
	}
	return ready.IgnoredWarnings(problems), nil
}

// Touches returns the globs of the files that a task changes, from task.json or else from its plan.
func (as Assessor) Touches(t *taskdir.Task) []string {
	if len(t.Pipeline.Touches) > 0 {
		return t.Pipeline.Touches
	}
	p, err := pipeline.ReadPlan(as.store, t.Dir)
	if err != nil || p == nil {
		return nil // check reports what is wrong with the plan
	}
	return p.Touches
}

// conflictingTask describes the running task that changes the same files as t, which a person starts; it returns "" if none does.
func (as Assessor) conflictingTask(t *taskdir.Task) string {
	own := as.Touches(t)
	if len(own) == 0 {
		return ""
	}
	entries, err := as.store.List()
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if e.Task == nil || e.Dir == t.Dir || e.Task.Status != trellis.InProgress {
			continue
		}
		if glob, both := ready.Overlap(own, as.Touches(e.Task)); both {
			if _, held := Held(e.Dir); held {
				return SameFilesText(e.Dir, glob)
			}
		}
	}
	return ""
}

// Neighbours returns what is known about the other tasks.
func (as Assessor) Neighbours() *ready.Neighbours { return as.neighbours }
