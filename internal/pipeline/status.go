package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/patience"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

const writeStatus flow.Act[TaskState, int64] = "status" // returns the revision that it wrote

// TaskState is what is written to task.json about a run.
type TaskState struct {
	Status   trellis.Status  `json:"status"`
	Phase    string          `json:"phase,omitempty"`
	Round    int             `json:"round,omitempty"`
	Attempt  int             `json:"attempt,omitempty"`
	Outcome  trellis.Outcome `json:"outcome,omitempty"`
	Failure  *flow.Failure   `json:"failure,omitempty"`
	ResumeAt time.Time       `json:"resume_at,omitzero"`
	Usage    trellis.Usage   `json:"usage"`
	Commit   string          `json:"commit,omitempty"`
	PRURL    string          `json:"pr_url,omitempty"`
	Asks     bool            `json:"asks,omitempty"` // people's approval of the plan is required
	Job      *Job            `json:"job,omitempty"`  // branch, base, worktree: after the claim, and when the base has changed
}

// StateWritten returns the state that an activity with this input writes to task.json, false if it is another activity.
func StateWritten(activity string, in json.RawMessage) (s TaskState, ok bool) {
	return s, activity == string(writeStatus) && json.Unmarshal(in, &s) == nil
}

// Why returns the failure in words, "" if there is none.
func (s TaskState) Why() string {
	if s.Failure == nil {
		return ""
	}
	return s.Failure.Error()
}

// enter writes the phase to task.json, the first time with what the claim fixed.
func (r *run) enter(f flow.Flow, phase string) error {
	s := r.taskState(trellis.InProgress)
	s.Phase = phase
	r.addJob(&s)
	r.phase = phase
	_, err := writeStatus.Do(f, s)
	return err
}

// addJob adds branch, base and worktree to s, unless task.json has them already.
func (r *run) addJob(s *TaskState) {
	if r.writtenBase != r.job.BaseCommit {
		s.Job, r.writtenBase = &r.job, r.job.BaseCommit
	}
}

func (r *run) taskState(to trellis.Status) TaskState {
	return TaskState{Status: to, Phase: r.phase, Round: max(r.round, 1), Attempt: r.rep.Attempts + 1, Usage: r.rep.Usage}
}

// write writes the state of the run to task.json. Fields that people own stay; a status that an editor's old buffer or git brought
// back is corrected; a person's order (cancel, stop) is left to the mailbox, and not overwritten as long as it is in effect.
func (w *statusWriter) write(ctx context.Context, _ flow.Call, s TaskState) (int64, error) {
	t, err := w.writeOnce(ctx, s)
	for errors.Is(err, errOrdered) { // the mailbox ends or suspends the run, unless the order is withdrawn before
		if err := patience.Sleep(ctx, retryDelay); err != nil {
			return 0, err
		}
		t, err = w.writeOnce(ctx, s)
	}
	if err != nil {
		return 0, err
	}
	w.RecordSeen(t.Pipeline.Revision)
	if w.onState != nil {
		w.onState(s)
	}
	return t.Pipeline.Revision, nil
}

func (w *statusWriter) writeOnce(ctx context.Context, s TaskState) (*taskdir.Task, error) {
	return retryWhileSaving(ctx, func() (*taskdir.Task, error) {
		return w.store.Update(w.task.dir, func(t *taskdir.Task, e *taskdir.Edit) error {
			if endOrdered(t) && s.Status != trellis.Cancelled {
				return errOrdered
			}
			w.raiseRevision(t, e)
			s.set(t, e, w.now())
			return nil
		})
	})
}

// raiseRevision raises the revision of a task.json that git reverted above all that were written.
func (w *statusWriter) raiseRevision(t *taskdir.Task, e *taskdir.Edit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.Pipeline.Revision < w.revision {
		e.Set("pipeline.revision", w.revision+1)
	}
}

// RecordSeen records that task.json once had this revision.
func (w *statusWriter) RecordSeen(revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revision = max(w.revision, revision)
}

// statusWriter writes the state of the run to task.json.
type statusWriter struct {
	place
	onState  func(TaskState)
	now      func() time.Time
	revision int64
	mu       sync.Mutex
}

// set sets the fields of task.json.
func (s TaskState) set(t *taskdir.Task, e *taskdir.Edit, now time.Time) {
	e.SetFromJournal(s.Status)
	e.Set("pipeline.phase", s.Phase)
	e.Set("pipeline.round", s.Round)
	e.Set("pipeline.attempt", s.Attempt)
	e.Set("pipeline.outcome", s.Outcome)
	e.Set("pipeline.failure", failure(s.Failure))
	e.Set("pipeline.usage", s.Usage)
	e.Set("pipeline.resume_at", s.ResumeAt)
	if s.Asks && !t.Pipeline.Approval.Required {
		e.Set("pipeline.approval.required", true)
	}
	if s.Commit != "" {
		e.Set("commit", s.Commit)
	}
	if s.PRURL != "" {
		e.Set("pr_url", s.PRURL)
	}
	if s.Status == trellis.Completed {
		e.Set("completedAt", now.Format(time.DateOnly))
		e.Set("worktree_path", "")
	}
	if s.Job != nil {
		e.Set("worktree_path", s.Job.Worktree)
		e.Set("pipeline.base_commit", s.Job.BaseCommit)
		if t.Pipeline.StackedOn != s.Job.StackedOn {
			e.Set("pipeline.stacked_on", s.Job.StackedOn)
		}
		if t.Branch == "" {
			e.Set("branch", s.Job.Branch)
		}
		if t.BaseBranch == "" {
			e.Set("base_branch", s.Job.BaseBranch)
		}
	}
}

var errOrdered = errors.New("a person gave an order")

// endOrdered reports whether a person told the run to end: the task is cancelled, or paused although no run paused it.
func endOrdered(t *taskdir.Task) bool { return t.Status == trellis.Cancelled || Stopped(t) }

// Stopped reports whether a person paused the task.
func Stopped(t *taskdir.Task) bool {
	own := []trellis.Code{trellis.RateLimited, trellis.ProviderDown, trellis.BudgetTokens, trellis.BudgetCost, trellis.BudgetTime}
	return t.Status == trellis.Paused && !slices.Contains(own, t.Pipeline.Failure.Code)
}

func failure(f *flow.Failure) taskdir.Failure {
	if f == nil {
		return taskdir.Failure{}
	}
	return taskdir.Failure{Code: trellis.Code(f.Code), Detail: f.Detail, Retryable: f.Retryable, At: f.At}
}

// Saving is how long an editor, or git, may take to replace a task.json.
const Saving = time.Second

// retryDelay is the delay between two attempts to read a file that somebody is saving.
const retryDelay = Saving / 20

// retryWhileSaving calls do, which uses task.json, again as long as an editor may be saving that. See suspendIfUnusable.
func retryWhileSaving(ctx context.Context, do func() (*taskdir.Task, error)) (*taskdir.Task, error) {
	for end := time.Now().Add(Saving); ; {
		t, err := do()
		if err = suspendIfUnusable(err); !errors.Is(err, flow.ErrSuspended) || time.Now().After(end) {
			return t, err
		}
		if err := patience.Sleep(ctx, retryDelay); err != nil {
			return nil, err
		}
	}
}

// suspendIfUnusable suspends the run if its task.json is missing (another branch was checked out) or can't be read (a person is
// editing it): nothing is created or overwritten, and the run continues when the file is back.
func suspendIfUnusable(err error) error {
	if errors.Is(err, taskdir.ErrNotFound) || errors.As(err, new(*trellis.Problem)) {
		return fmt.Errorf("%w: %w", flow.ErrSuspended, err)
	}
	return err
}
