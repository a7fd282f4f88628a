package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Acts are the effects of one task's run.
type Acts struct {
	Dir        string // the task directory
	RunDir     string // its run/
	Repo       *git.Repo
	Store      taskdir.Store
	Config     *config.Config
	Cast       agentcall.Cast
	LookPath   func(program string) error
	Neighbours *ready.Neighbours // what is known of other tasks; nil: they are read anew
	Merges     *Merges           // what is known of merged work; nil: git is asked anew
	Environ    []string          // of the project's own commands
	Box        *sandbox.Box      // that they run in
	Marker     string            // of the run's processes
	Redact     func(string) string
	Secrets    []string // values that must not be committed
	Deliver    func(context.Context, flow.Call, DeliverIn) (Delivery, error)
	// TrustedClaim says why a task can't begin at base here, and TrustedBase why nothing of base can be brought into its work:
	// it came from somebody whom nobody here trusts. begun: a run of this clone made its branch. Nil: all is trusted.
	TrustedClaim func(ctx context.Context, t *taskdir.Task, base Base, begun bool) error
	TrustedBase  func(ctx context.Context, base Base) error
	// TrustedTexts says why files of the checkout, as they were read, count for nothing. Nil: all is trusted.
	TrustedTexts func(ctx context.Context, texts map[string][]byte) error
	Counts       proof.Counting      // which decisions count; nil: all
	Committed    func(commit string) // told what was committed; nil: nobody is

	Stand func(Standing)       // told what task.json says now; nil: nobody is
	Step  func(workflow.Event) // told what the steps of a plan do; nil: nobody is
	Disk  *durable.Disk
	Now   func() time.Time

	chain    *proof.Chain            // proofs.jsonl
	bundles  map[string]*plan.Bundle // by content hash
	mu       sync.Mutex
	revision int64             // highest that this run wrote, or knows of
	snap     *git.Snapshot     // of a call that may only read, while it runs
	seen     *git.Looks        // how the main checkout looked after a call
	hooks    map[string]string // before any agent was at work, nil: nobody knows
	lastBase string
	made     git.Made // the worktree, since this run made or found it
	objects  objects
}

// Activities are all that a run does besides its agents' calls.
func (a *Acts) Activities() []flow.Activity {
	list := []flow.Activity{claim.With(a.claim), project.With(a.project), prepare.With(a.prepare), baseline.With(a.recheck), observe.With(a.observe),
		verify.With(a.checks), final.With(a.final), prove.With(a.prove), ground.With(a.ground), changed.With(a.changed), commit.With(a.commit), discard.With(a.discard), seal.With(a.seal), deliver.With(a.deliver), conclude.With(a.conclude),
		update.With(a.update), unmended.With(a.unmended), probe.With(a.probe)}
	return a.guarded(append(list, a.steps().Activities()...))
}

// Roles are the roles that a run asks.
func Roles() []trellis.Role {
	return []trellis.Role{trellis.Implement, trellis.Check, trellis.Debug, trellis.Accept, trellis.Grade, trellis.Heal}
}

// project makes task.json say how the run stands. What people own in it stays; a status that an editor's
// old buffer or git brought back is put right; a person's order (cancel, stop) is left for the mailbox, and nothing
// written over it as long as it stands.
func (a *Acts) project(ctx context.Context, _ flow.Call, s Standing) (int64, error) {
	t, err := a.writeStanding(ctx, s)
	for errors.Is(err, errOrdered) { // the mailbox ends the run, or lets it sleep, unless the order was taken back before
		if err := breathe(ctx); err != nil {
			return 0, err
		}
		t, err = a.writeStanding(ctx, s)
	}
	if err != nil {
		return 0, err
	}
	a.Seen(t.Pipeline.Revision)
	if a.Stand != nil {
		a.Stand(s)
	}
	return t.Pipeline.Revision, nil
}

func (a *Acts) writeStanding(ctx context.Context, s Standing) (*taskdir.Task, error) {
	return a.steady(ctx, func() (*taskdir.Task, error) {
		return a.Store.Update(a.Dir, func(t *taskdir.Task, e *taskdir.Edit) error {
			if ordered(t) && s.Status != trellis.Cancelled {
				return errOrdered
			}
			a.catchUp(t, e)
			s.write(t, e, a.Now())
			return nil
		})
	})
}

var errOrdered = errors.New("a person gave an order")

// ordered reports whether a person told the run to end: cancelled, or paused for no reason of ours.
func ordered(t *taskdir.Task) bool { return t.Status == trellis.Cancelled || Stopped(t) }

// Stopped reports whether a person paused the task.
func Stopped(t *taskdir.Task) bool {
	own := []trellis.Code{trellis.RateLimited, trellis.ProviderDown, trellis.BudgetTokens, trellis.BudgetCost, trellis.BudgetTime}
	return t.Status == trellis.Paused && !slices.Contains(own, t.Pipeline.Failure.Code)
}

// catchUp lifts the revision of a task.json that git took back above all that were written.
func (a *Acts) catchUp(t *taskdir.Task, e *taskdir.Edit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.Pipeline.Revision < a.revision {
		e.Set("pipeline.revision", a.revision+1)
	}
}

// Seen tells that task.json once had this revision.
func (a *Acts) Seen(revision int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revision = max(a.revision, revision)
}

// write makes the fields say how the run stands.
func (s Standing) write(t *taskdir.Task, e *taskdir.Edit, now time.Time) {
	e.Project(s.Status)
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

func failure(f *flow.Failure) taskdir.Failure {
	if f == nil {
		return taskdir.Failure{}
	}
	return taskdir.Failure{Code: trellis.Code(f.Code), Detail: f.Detail, Retryable: f.Retryable, At: f.At}
}

// Saving is how long an editor, or git, may take to replace a task.json.
const Saving = time.Second

// steady does something with task.json, again as long as an editor may be saving it. See unusable.
func (a *Acts) steady(ctx context.Context, do func() (*taskdir.Task, error)) (*taskdir.Task, error) {
	for end := time.Now().Add(Saving); ; {
		t, err := do()
		if err = unusable(err); !errors.Is(err, flow.ErrSuspended) || time.Now().After(end) {
			return t, err
		}
		if err := breathe(ctx); err != nil {
			return nil, err
		}
	}
}

// unusable suspends the run when its task.json is not there (another branch was checked out) or can't be read
// (a person is at it): nothing is made anew or written over, and the run goes on when it is back.
func unusable(err error) error {
	if errors.Is(err, taskdir.ErrNotFound) || errors.As(err, new(*trellis.Problem)) {
		return fmt.Errorf("%w: %w", flow.ErrSuspended, err)
	}
	return err
}
