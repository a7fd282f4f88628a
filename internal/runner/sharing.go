package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Sharing lets several machines share the tasks of a repository: a task belongs to one machine at a time. Its methods may be
// called concurrently.
type Sharing interface {
	// Elsewhere returns which other machine has a task, by what this one heard last; nil if none has. It asks no other machine.
	Elsewhere(dir string) *OtherMachineError
	// Last reports whether this machine was the last to have a task, or no machine had it.
	Last(dir string) bool
	// Take makes a task this machine's, and its directory and worktree what the last machine left, if fit allows it. Of two
	// tasks that compete, one is taken after the other, on whatever machines, and for the second the first is among the
	// running ones. Errors: *OtherMachineError; the error of fit; others if nobody could be asked, and then the task is not run.
	Take(ctx context.Context, dir string, fit FitCheck) (Lease, error)
	// SpentElsewhere returns what agents of other machines used today, as far as this one heard. It asks no other machine.
	SpentElsewhere() trellis.Usage
}

// FitCheck checks a task after its directory was brought here and returns why this machine does not run it now; it is then left to others.
// running are the directories of other tasks that are worked on, here or elsewhere; competes reports whether the answer depends on them.
type FitCheck func(running []string) (competes bool, err error)

// Lease is the right of this machine to work on a task.
type Lease interface {
	lease
	// Hold keeps the lease while the task is worked on. The context ends with an *OtherMachineError as its cause if another
	// machine took the task over. end publishes where the task stands, and gives it back.
	Hold(ctx context.Context) (held context.Context, end func(Result) error)
}

// lease is the part of a Lease that a run uses.
type lease interface {
	// Brought reports whether the task was another machine's before, and its worktree has not been made fit here since.
	Brought() bool
	// MarkFit records that the worktree was made fit.
	MarkFit() error
	// Save publishes the current state of the task to the other machines. Its error matches [flow.ErrSuspended] if the remote
	// does not take it or another machine has the task by now, and is a *flow.Failure if it can't be saved here.
	Save(ctx context.Context, why string) error
}

// OtherMachineError is returned if another machine has a task.
type OtherMachineError struct {
	Task  string
	Host  string    // name of the machine, for people
	Since time.Time // when it took the task
}

func (e *OtherMachineError) Error() string {
	said := fmt.Sprintf("%s is at work on %s", e.Host, e.Task)
	if !e.Since.IsZero() {
		said += ", since " + e.Since.Local().Format("2006-01-02 15:04:05")
	}
	return said
}

// Is makes errors.Is(err, durable.ErrHeld) true, as for other errors about something that somebody else holds.
func (e *OtherMachineError) Is(target error) bool { return target == durable.ErrHeld }

// Elsewhere returns which other machine has a task, nil if none has.
func (s *Site) Elsewhere(dir string) *OtherMachineError {
	if s.Sharing == nil {
		return nil
	}
	return s.Sharing.Elsewhere(dir)
}

// isLastHolder reports whether this machine was the last to have a task, and so is the one to follow its pull request.
func (s *Site) isLastHolder(dir string) bool { return s.Sharing == nil || s.Sharing.Last(dir) }

// checkVersion returns a *RefusedError if a newer Trellis began a run that has not ended: this one can't resume it, and would end it
// with a failure. h is the journal of the run, nil for none.
func checkVersion(dir string, h *journal.History) error {
	codes := map[string]int{pipeline.Flow: pipeline.Code, planner.Flow: planner.Code, workflow.FileFlow: workflow.FileCode}
	if h == nil || h.Ended || h.Code <= codes[h.Flow] {
		return nil
	}
	return &RefusedError{fmt.Sprintf("the run of %s was begun by a newer Trellis (%s; code %d, this one has %d)", filepath.Base(dir), h.Build, h.Code, codes[h.Flow]), upgradeHint}
}

const upgradeHint = "trellis upgrade"

// CheckPrograms returns a *RefusedError if a program that commands begin with is not installed on this machine. It ignores scripts and
// targets that do not exist, since all machines lack them, and programs that worktree.setup names, since the setup may install them.
func (s TaskRunner) CheckPrograms(what string, commands []string) error {
	var missing []string
	here := research.Project{Root: s.Repo.Main, LookPath: func(program string) error {
		err := s.LookPath(program)
		if err != nil && !slices.Contains(missing, program) && !mentioned(s.Config.Worktree.Setup, program) {
			missing = append(missing, program)
		}
		return err
	}}
	for _, c := range commands {
		here.Missing(c)
	}
	if len(missing) == 0 {
		return nil
	}
	list := strings.Join(missing, ", ")
	return &RefusedError{fmt.Sprintf("%s left to other machines: the checks run %s, which is not installed here", what, list), "install " + list}
}

// mentioned reports whether one of commands contains the name of a program, as `pip install ruff==0.14` contains ruff.
func mentioned(commands []string, program string) bool {
	apart := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.+", r)
	}
	return slices.ContainsFunc(commands, func(c string) bool { return slices.Contains(strings.FieldsFunc(c, apart), program) })
}

// checkTaskPrograms returns a *RefusedError if the checks of a task can't be run on this machine, which would fail what others can do.
func (s TaskRunner) checkTaskPrograms(t *taskdir.Task) error {
	commands := t.Pipeline.Verify
	if len(commands) == 0 {
		commands = s.Config.Verify
	}
	return s.CheckPrograms(t.ID+" is", commands)
}

// unsharedLease is the lease of a machine that shares with no other.
type unsharedLease struct{}

func (unsharedLease) Brought() bool                      { return false }
func (unsharedLease) MarkFit() error                     { return nil }
func (unsharedLease) Save(context.Context, string) error { return nil }

// publishEffects makes activities publish their effects to other machines before they are written down as done, so that whichever
// machine resumes the run finds them.
func publishEffects(l lease, list []flow.Activity) []flow.Activity {
	if l == (unsharedLease{}) {
		return list
	}
	for i, act := range list {
		list[i].Run = func(ctx context.Context, c flow.Call, in json.RawMessage) (any, error) {
			if pipeline.Delivers(act.Name) {
				if err := l.Save(ctx, "before "+c.ID); err != nil {
					return nil, err
				}
			}
			out, err := act.Run(ctx, c, in)
			if ctx.Err() != nil || pipeline.LeavesNothing(act.Name) || err != nil && !errors.As(err, new(*flow.Failure)) {
				return out, err
			}
			if serr := l.Save(ctx, "after "+c.ID); serr != nil {
				return nil, serr
			}
			return out, err
		}
	}
	return list
}

// loadProgress loads the progress so far into the effects of a run before the run continues. A worktree that was brought from
// another machine is first made fit to work in.
func (s TaskRunner) loadProgress(ctx context.Context, l lease, e *pipeline.Effects, run string, revision int64, p pipeline.Progress) error {
	e.LoadProgress(revision, p)
	if l.Brought() {
		err := e.Refit(ctx, run, s.Clock(), p)
		if err == nil {
			err = l.MarkFit()
		}
		if err != nil {
			return err
		}
	}
	return e.LoadRefit(run, p)
}
