package app

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/taskref"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// OrderResult is the result of a person's order. Its JSON is what the commands print.
type OrderResult struct {
	Task   string         `json:"task"` // the directory's name, or a run's id
	Step   string         `json:"step,omitempty"`
	Status trellis.Status `json:"status"`          // of the task after the order; "" for a run
	Says   string         `json:"says"`            // the result in words
	Next   string         `json:"next"`            // the command to type next; "" for none
	Waits  bool           `json:"waits,omitempty"` // the approval of other people is still needed
}

// Orders carries out what people ask for an existing task.
type Orders struct{ p *Project }

// Orders returns the orders of the project.
func (p *Project) Orders() Orders { return Orders{p} }

// siteToEnd returns the site for ending work in progress. Invalid settings are printed, but do not prevent it.
func (o Orders) siteToEnd(ctx context.Context) (*runner.Site, error) {
	s, err := o.p.SiteForOrders(ctx)
	if !errors.As(err, new(*PlacesError)) {
		return s, err
	}
	o.p.Env.say("%v", err)
	usable, _ := o.p.Config()
	return withoutSideEffects(o.p.Wire(ctx, usable, o.p)), nil
}

// Stop pauses a running task. Its work is kept; the task resumes when somebody starts it.
func (o Orders) Stop(ctx context.Context, dir string) (done OrderResult, err error) {
	s, err := o.siteToEnd(ctx)
	if err != nil {
		return done, err
	}
	id := filepath.Base(dir)
	sent, err := o.changeOrSend(ctx, s, dir, taskref.Order{What: orderStop}, func() error { return s.Orders().Stop(dir) })
	if err != nil || sent != "" {
		return o.sentResult(dir, sent), err
	}
	return o.orderResult(dir, id+" is paused", "trellis start "+trellis.ShellWord(id)), nil
}

// Cancel cancels a task. Its agents are ended; its worktree and branch are kept.
func (o Orders) Cancel(ctx context.Context, dir string) (done OrderResult, err error) {
	s, err := o.siteToEnd(ctx)
	if err != nil {
		return done, err
	}
	sent, err := o.changeOrSend(ctx, s, dir, taskref.Order{What: orderCancel}, func() error {
		o.p.Undo().recordCancel(dir)
		return s.Orders().Cancel(dir)
	})
	if err != nil || sent != "" {
		return o.sentResult(dir, sent), err
	}
	s.Event = func(e runner.Event) { o.p.Env.say("%s", e.Message) }
	s.Hooks().RunAfterCancel(ctx, dir)
	return o.orderResult(dir, filepath.Base(dir)+" is cancelled"+o.leftoverClause(ctx, dir)+"; it comes back with: trellis undo", ""), nil
}

// leftoverClause returns a clause about the worktree and branch that a cancelled task leaves behind, or "".
func (o Orders) leftoverClause(ctx context.Context, dir string) string {
	t, err := o.p.Store.Load(dir)
	if err != nil {
		return ""
	}
	var list []string
	if _, err := os.Lstat(t.WorktreePath); err == nil {
		list = append(list, "worktree")
	}
	if tip, err := o.p.Repo.Refs().Branch(ctx, t.BranchName()); err == nil && tip != "" && t.Pipeline.BaseCommit != "" {
		list = append(list, "branch")
	}
	if len(list) == 0 {
		return ""
	}
	return "; its " + strings.Join(list, " and ") + map[int]string{1: " stays", 2: " stay"}[len(list)]
}

// Admit makes a task runnable, as starting it does, and notifies the machines that share it. Nothing is run. It reports whether
// there is something to run; the result holds the task's current state.
func (o Orders) Admit(ctx context.Context, dir string) (runs bool, r runner.Result, err error) {
	s, err := o.p.Site(ctx)
	if err != nil {
		return false, r, err
	}
	_, err = o.changeOrSend(ctx, s, dir, taskref.Order{}, func() (err error) {
		runs, r, err = s.Starter().Admit(ctx, dir)
		return err
	})
	return runs, r, err
}

// Retry requests another run of a task in its worktree; with fresh, the worktree is backed up and the run begins at the base.
func (o Orders) Retry(ctx context.Context, dir string, fresh bool) (done OrderResult, err error) {
	s, err := o.p.Site(ctx)
	if err != nil {
		return done, err
	}
	will := o.describeRetry(ctx, dir, fresh)
	if _, err := o.changeOrSend(ctx, s, dir, taskref.Order{}, func() error { return s.Orders().Retry(ctx, dir, fresh, runner.RunOptions{}) }); err != nil {
		return done, err
	}
	return o.retryResult(ctx, s, dir, will)
}

// maxSentBack is the maximum size of a person's feedback on the work of a task, in bytes.
const maxSentBack = 48 << 10

// RetryWithFeedback requests another run of a task, which may also be in review, that begins with a person's feedback on its work.
func (o Orders) RetryWithFeedback(ctx context.Context, dir, feedback string) (done OrderResult, err error) {
	switch err := o.p.Env.RequirePerson("say what should be different"); {
	case err != nil:
		return done, err
	case strings.TrimSpace(feedback) == "":
		return done, Usagef("there is no feedback in it: say what should be different")
	case len(feedback) > maxSentBack:
		return done, WithHints(Usagef("the feedback is %d bytes long, at most %d are taken: shorten it, or change what the task asks for", len(feedback), maxSentBack), "trellis edit "+trellis.ShellWord(filepath.Base(dir))+" prd")
	}
	if err := CheckText("the feedback", feedback); err != nil {
		return done, err
	}
	s, err := o.p.Site(ctx)
	if err != nil {
		return done, err
	}
	if _, err := o.changeOrSend(ctx, s, dir, taskref.Order{}, func() error { return s.Orders().SendBack(ctx, dir, feedback) }); err != nil {
		return done, err
	}
	return o.retryResult(ctx, s, dir, "be worked on with what you said")
}

// retryResult returns the result of an order that requests another run; will says what that run does.
func (o Orders) retryResult(ctx context.Context, s *runner.Site, dir, will string) (OrderResult, error) {
	says := filepath.Base(dir) + " will " + will
	if _, ok := s.Starter().Watcher(); ok {
		return o.orderResult(dir, says+"; the watcher picks it up", ""), nil
	}
	next, err := s.Assessor().Next(ctx, dir)
	return o.orderResult(dir, says, next), err
}

// describeRetry describes what another run of a task will do, and what to fix before, by what exists at its worktree's path.
func (o Orders) describeRetry(ctx context.Context, dir string, fresh bool) string {
	t, err := o.p.Store.Load(dir)
	if err != nil {
		return "run again"
	}
	if t.WorktreePath == "" {
		return describeNextRun(t, fresh, "")
	}
	at := t.WorktreePath
	w, err := o.p.Repo.Worktrees().ForTask(ctx, t.ID, t.BranchName(), at)
	if w != nil {
		at = w.Path
	}
	there := false
	if err == nil {
		there, err = o.p.Repo.Worktrees().Resumable(ctx, at)
	}
	if there && !fresh && o.p.Repo.Worktrees().CheckGitFile(ctx, at) == nil { // a fresh run needs no branch, and a run relinks the worktree
		_, err = o.p.Repo.Refs().Head(ctx, at)
	}
	switch {
	case err != nil:
		return describeNextRun(t, fresh, "") + ", once this is fixed: " + err.Error()
	case !there:
		return describeNextRun(t, fresh, "")
	}
	return describeNextRun(t, fresh, ShortPath(o.p.Root, at))
}

// describeNextRun describes what another run of a task does. worktree is the path of its worktree, "" for none.
func describeNextRun(t *taskdir.Task, fresh bool, worktree string) string {
	code := t.Pipeline.Failure.Code
	switch {
	case fresh:
		return "restart from " + cmp.Or(t.BaseBranch, "its base") + "; the work so far is saved below refs/trellis/backup"
	case t.Status == trellis.Review && (code == "" || code == trellis.CIFailed || code == trellis.ChangesRequested):
		return "fix what is wrong with its pull request, in its worktree; what was pushed stays, and the next commit comes on top"
	case t.Status == trellis.Review:
		return "resume what ended with " + string(code) + ", in its worktree; what was pushed stays until the new work is verified"
	case code == trellis.PushFailed || code == trellis.PRFailed:
		return "deliver what was verified; agents are asked only if something was changed since"
	case worktree != "":
		return "resume in " + worktree + ", keeping the work done so far"
	}
	return "run again"
}

// ShortPath returns path as one would type it in the main checkout at root.
func ShortPath(root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil && strings.Count(rel, "..") <= 1 {
		return rel
	}
	return path
}

// Decision is a person's approval or rejection.
type Decision struct {
	By     string             // "": the developer of this checkout, or git's user
	Step   string             // path of a waiting step; "": the plan, or the one step that the run of a file waits for
	IsRun  bool               // the directory belongs to the run of a file
	Reason string             // for a rejection
	Shown  string             // hash of the plan or request that the person saw; "": the current one
	Sign   ed25519.PrivateKey // nil: it is not signed
}

// Approve approves a plan or a waiting step. The error matches [runner.ErrPlanChanged] if the plan is not the one shown.
func (o Orders) Approve(ctx context.Context, dir string, d Decision) (OrderResult, error) {
	return o.decide(ctx, dir, d, proof.Approve)
}

// Reject rejects a plan, and with it the task, or a step, which then fails.
func (o Orders) Reject(ctx context.Context, dir string, d Decision) (OrderResult, error) {
	if strings.TrimSpace(d.Reason) == "" {
		return OrderResult{}, Usagef("a rejection needs its reason: --reason TEXT")
	}
	return o.decide(ctx, dir, d, proof.Reject)
}

func (o Orders) decide(ctx context.Context, dir string, d Decision, word proof.Decision) (done OrderResult, err error) {
	s, err := o.p.Site(ctx)
	if err != nil {
		return done, err
	}
	s.SignWith = d.Sign
	if d.By, err = o.decider(ctx, d.By); err != nil {
		return done, err
	}
	approval := proof.Approval{Decision: word, Step: d.Step, Reason: d.Reason, By: d.By, Hash: d.Shown}
	if d.IsRun {
		return o.decideStep(ctx, s, dir, true, approval)
	}
	if approval.Hash == "" {
		approval.Hash = o.knownHash(s, dir, d.Step)
	}
	order := taskref.Order{What: string(word), By: approval.By, Reason: approval.Reason, Step: approval.Step, Hash: approval.Hash}
	sent, err := o.changeOrSend(ctx, s, dir, order, func() (err error) {
		if d.Step != "" {
			done, err = o.decideStep(ctx, s, dir, false, approval)
			return err
		}
		done, err = o.decidePlan(ctx, s, dir, approval)
		return err
	})
	if errors.Is(err, runner.ErrPlanChanged) {
		err = WithHints(err, map[bool]string{true: "trellis review ", false: "trellis status "}[d.Step == ""]+filepath.Base(dir))
	}
	if sent != "" {
		return o.sentResult(dir, sent), err
	}
	return done, err
}

// knownHash returns the hash of what a decision without a hash is about, as this clone knows it: other machines may have changed it
// since. "", the current one, is for tasks that nobody else can have changed, and for a step that this clone has not heard of.
func (o Orders) knownHash(s *runner.Site, dir, step string) (hash string) {
	if s.Sharing == nil {
		return ""
	}
	if step != "" {
		q, err := s.Approvals().Request(dir, step)
		if err != nil {
			return ""
		}
		return q.Hash
	}
	t, err := o.p.Store.Load(dir)
	if err == nil {
		hash, err = taskdir.PlanHash(dir, t)
	}
	if err != nil {
		return "" // the decision itself reports what is wrong with it
	}
	return hash
}

// sentResult returns the result of an order that another machine carries out.
func (o Orders) sentResult(dir, says string) OrderResult {
	if says == "" {
		return OrderResult{}
	}
	return o.orderResult(dir, says, "trellis status "+trellis.ShellWord(filepath.Base(dir)))
}

// decideStep records a person's decision about a waiting step. The first approval or rejection counts.
func (o Orders) decideStep(ctx context.Context, s *runner.Site, dir string, isRun bool, approval proof.Approval) (done OrderResult, err error) {
	q, now, err := s.Approvals().DecideStep(dir, approval)
	if err != nil {
		return done, err
	}
	id := filepath.Base(dir)
	next := "trellis run --resume " + trellis.ShellWord(id)
	if !isRun {
		if next, err = s.Assessor().Next(ctx, dir); err != nil {
			return done, err
		}
	}
	switch {
	case now.State == workflow.Pending:
		done = o.orderResult(dir, q.Path+" of "+id+" has the approval of "+approval.By+" and waits for others", "")
		done.Waits = true
	case now.State == workflow.Rejected && approval.Decision == proof.Approve:
		return done, &runner.RefusedError{Why: q.Path + " was " + now.Why, Hint: next}
	case now.State == workflow.Approved && approval.Decision == proof.Reject:
		return done, &runner.RefusedError{Why: q.Path + " was approved before", Hint: next}
	default:
		done = o.orderResult(dir, q.Path+" of "+id+" is "+string(now.State)+" by "+approval.By, next)
	}
	done.Step = q.Path
	return done, nil
}

// decidePlan records a person's decision about the plan of a task.
func (o Orders) decidePlan(ctx context.Context, s *runner.Site, dir string, approval proof.Approval) (done OrderResult, err error) {
	id := filepath.Base(dir)
	became := id + " is rejected"
	if approval.Decision == proof.Reject {
		err = s.Approvals().Reject(dir, approval.By, approval.Reason, approval.Hash)
	} else {
		var v proof.ApprovalState
		v, err = s.Approvals().Approve(dir, approval.By, approval.Hash)
		switch {
		case err == nil && v.State == proof.Rejected:
			next, err := s.Assessor().Next(ctx, dir)
			if err != nil {
				return done, err
			}
			return done, &runner.RefusedError{Why: id + " was rejected by " + strings.Join(v.By, ", ") + ": " + v.Reason, Hint: next}
		case err == nil && v.State != proof.Approved:
			done = o.orderResult(dir, partialApproval(id, approval.By, v), "")
			done.Waits = true
			return done, nil
		}
		became = id + " is approved by " + approval.By
	}
	if err != nil {
		return done, err
	}
	next, err := s.Assessor().Next(ctx, dir)
	return o.orderResult(dir, became, next), err
}

// partialApproval describes a plan that still lacks approvals: that somebody approved it, or why the new approval doesn't add to them.
func partialApproval(id, by string, v proof.ApprovalState) string {
	if len(v.By) == 0 || slices.ContainsFunc(v.By, func(s string) bool { return strings.EqualFold(s, by) }) {
		return id + " has the approval of " + by + " and waits for others"
	}
	return id + " has the approval of " + strings.Join(v.By, ", ") + "; that of " + by +
		" does not count in addition, since it comes from the same account: it waits for others, from an account or with a --key of their own"
}

// decider returns who decides: the given name, the developer of this checkout, or git's user. A process that runs inside a task
// can't decide about it.
func (o Orders) decider(ctx context.Context, given string) (string, error) {
	if err := o.p.Env.RequirePerson("approve or reject"); err != nil {
		return "", err
	}
	if given != "" {
		return given, nil
	}
	if name, err := Developer(o.p.Root); err == nil && name != "" {
		return name, nil
	}
	name, err := o.p.Repo.Author().Identity(ctx)
	if err != nil {
		return "", WithHints(AsKind(ErrUsage, err), "add --by NAME, or git config user.name NAME")
	}
	return name, nil
}

// orderResult returns the result of an order for the task in dir, with the task's current status.
func (o Orders) orderResult(dir, says, next string) OrderResult {
	done := OrderResult{Task: filepath.Base(dir), Says: says, Next: next}
	if t, err := o.p.Store.Load(dir); err == nil {
		done.Status = t.Status
	}
	return done
}
