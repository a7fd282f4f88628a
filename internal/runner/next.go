package runner

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Next returns the command that a person types next for a task in its current state, one that is not refused, or "" if
// nothing is left to do. Everything that shows people a next command calls Next. It changes nothing.
func (as Assessor) Next(ctx context.Context, dir string) (string, error) {
	n := next{as: as, dir: dir, id: strings.TrimPrefix(filepath.Base(dir), taskdir.DraftPrefix)}
	var err error
	_, n.held = Held(dir) // checked before the files of that process are read, since it may end in between
	if n.h, err = journal.Read(filepath.Join(dir, taskdir.Run)); err != nil && !errors.Is(err, journal.ErrNone) && !errors.Is(err, journal.ErrDamaged) {
		return "", err
	}
	if !n.held {
		n.held = as.elsewhere(dir) != nil
	}
	t, err := as.store.Load(dir)
	if err == nil && !n.held && !t.Status.Ended() && checkVersion(dir, n.h) != nil {
		return upgradeHint, nil
	}
	settled := []trellis.Status{trellis.Rejected, trellis.Review, trellis.Completed} // whatever a planning left behind
	if drafted(dir) || err == nil && hasUnfinishedPlanning(n.h) && !slices.Contains(settled, t.Status) {
		return n.planning(), nil
	}
	switch {
	case filepath.Dir(dir) != as.store.Tasks(): // archived
		return "", nil
	case errors.As(err, new(*trellis.Problem)):
		return n.say("edit") + " task", nil
	case err != nil:
		return "", err
	}
	n.t = t
	return n.command(ctx)
}

// next decides which command comes next for a task.
type next struct {
	as   Assessor
	dir  string
	id   string
	t    *taskdir.Task
	h    *journal.History // nil if there is none
	held bool             // a process here or on another machine works on the task
}

func (n next) say(command string) string {
	task := n.id
	if strings.HasPrefix(task, "-") { // which would be taken for a flag
		task = n.as.store.Rel(n.dir)
	}
	return "trellis " + command + " " + trellis.ShellWord(task)
}

func (n next) command(ctx context.Context) (string, error) {
	switch n.t.Status {
	case trellis.Planning:
		return n.unready(ctx)
	case trellis.Rejected:
		return n.say("plan --retry") + " --requirement '<revised requirement>'", nil
	case trellis.Ready, trellis.Waiting:
		return n.runnable(ctx)
	case trellis.InProgress:
		return n.started(ctx)
	case trellis.Review:
		return n.review(ctx)
	case trellis.Completed:
		return n.say("task archive"), nil
	}
	if n.held {
		return n.say("logs -f"), nil
	}
	if n.t.Status == trellis.Paused {
		return n.say("start"), nil
	}
	if !slices.Contains(trellis.Statuses, n.t.Status) {
		return n.say("edit") + " task", nil
	}
	return n.say("retry"), nil
}

// planning returns the command for a planning that is under way or was cut off.
func (n next) planning() string {
	if n.held {
		return n.say("logs -f")
	}
	return n.replan()
}

// replan returns the command that plans again. Without a requirement.md to plan from, the command includes a requirement.
func (n next) replan() string {
	if n.required() {
		return n.say("plan --retry")
	}
	return n.say("plan --retry") + " --requirement 'what is wanted'"
}

func (n next) required() bool {
	_, err := os.Lstat(filepath.Join(n.dir, taskdir.Requirement))
	return !errors.Is(err, fs.ErrNotExist)
}

// unready returns the command for a task in status planning that no process plans now.
func (n next) unready(ctx context.Context) (string, error) {
	if n.held || n.t.Pipeline.Failure.Code != "" && n.planned() {
		return n.planning(), nil
	}
	_, err := n.as.check(ctx, n.t.Dir, false)
	if err == nil {
		return n.say("task ready"), nil
	}
	if !errors.As(err, new(*NotReadyError)) {
		return "", err
	}
	if n.planned() {
		return n.replan(), nil
	}
	return n.say("validate"), nil
}

// planned reports whether a planning made the task, or could make it.
func (n next) planned() bool {
	return n.h != nil && n.h.Flow == planner.Flow || n.required()
}

func (n next) runnable(ctx context.Context) (string, error) {
	_, step, err := n.as.approvals.openStep(n.t.Dir, n.h)
	switch {
	case err != nil:
		return "", err
	case step != "":
		return n.say("approve") + " --step " + trellis.ShellWord(step), nil
	}
	l, err := n.as.Assess(ctx, n.t.Dir)
	switch {
	case err != nil:
		return "", err
	case n.held:
		return n.say("logs -f"), nil
	case l.Untrusted != nil:
		return l.Untrusted.Next(), nil
	case len(l.Waits) > 0:
		return n.waits(l.Waits)
	case len(l.Problems) == 0:
		return n.say("start"), nil
	case l.Problems[0].Hint == n.say("retry"):
		return n.say("retry"), nil
	}
	return n.say("validate"), nil
}

// waits returns the command for a task that waits: what people have to do about it, or where the first task stands that
// has to go on before it.
func (n next) waits(waits bases.Waits) (string, error) {
	if why, command, err := n.as.approvals.missingApproval(n.t, n.h); err != nil || why != "" {
		return command, err
	}
	if first, _ := waits.FirstWithoutNext(); first.Task != "" {
		return "trellis status " + trellis.ShellWord(first.Task), nil
	}
	for _, id := range n.t.Pipeline.DependsOn {
		other, err := n.as.store.Load(filepath.Join(filepath.Dir(n.t.Dir), id))
		if err == nil && other.Status.EndedBadly() {
			return "trellis status " + trellis.ShellWord(id), nil
		}
		if away, err := n.as.store.Archived(id); err == nil && away != "" {
			if other, err := n.as.store.Load(away); err == nil && other.Status.EndedBadly() {
				return n.say("edit") + " task", nil // to remove the dependency
			}
		}
	}
	return n.say("start"), nil
}

// started returns the command for a task that is in progress: its run is resumed, unless there is none here that could be.
func (n next) started(ctx context.Context) (string, error) {
	if n.held {
		return n.say("logs -f"), nil
	}
	l, err := n.as.assessStarted(ctx, Assessment{Dir: n.t.Dir, Task: n.t})
	if err == nil && l.Task != n.t { // the run ended meanwhile
		return n.as.Next(ctx, n.t.Dir)
	}
	if err != nil || !l.Run {
		return n.say("retry"), err
	}
	if _, watched := holder(pulse.Lock(n.as.store.Root)); watched {
		return n.say("logs -f"), nil
	}
	return n.say("start"), nil
}

// review returns the command for a task whose work is ready to be inspected.
func (n next) review(ctx context.Context) (string, error) {
	switch code := n.t.Pipeline.Failure.Code; {
	case code == trellis.CIFailed || code == trellis.ChangesRequested:
		if pull, err := delivery.ReadPull(n.t.Dir); err == nil && pull != nil {
			return pull.ViewCommand(), nil
		}
	case code != "":
		p, err := pipeline.ReadProgress(n.h)
		if err != nil || p.React != nil || p.State.Failure != nil {
			return n.say("retry"), err
		}
	}
	tip, err := n.as.repo.Refs().Branch(ctx, n.t.BranchName())
	if tip == "" && n.t.Pipeline.BaseCommit != "" {
		return n.say("task archive"), err
	}
	return n.say("diff"), err
}
