package pipeline

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

const conclude flow.Act[concludeIn, struct{}] = "report"

type concludeIn struct {
	Task    string        `json:"task"`
	Job     Job           `json:"job"`
	Report  Report        `json:"report"`
	Failure *flow.Failure `json:"failure,omitempty"`
}

// Report describes how a run ended, including one that failed.
type Report struct {
	Outcome  trellis.Outcome   `json:"outcome"`
	Branch   string            `json:"branch,omitempty"`
	Base     string            `json:"base,omitempty"`       // base commit
	Stacked  string            `json:"stacked_on,omitempty"` // the task on whose branch Base is
	Worktree string            `json:"worktree,omitempty"`
	Commit   string            `json:"commit,omitempty"`
	Rounds   int               `json:"rounds"`
	Attempts int               `json:"attempts"`
	Usage    trellis.Usage     `json:"usage"`
	Executed bool              `json:"executed"` // a command decided at least one check or criterion
	Baseline Checks            `json:"baseline"`
	Checks   Checks            `json:"checks"`
	Criteria []CriterionResult `json:"criteria,omitempty"`
	Notes    []string          `json:"notes,omitempty"`
	Steps    workflow.Report   `json:"steps,omitzero"`   // of the plan's steps
	Proofs   string            `json:"proofs,omitempty"` // head of the chain in proofs.jsonl, if everything is proven
	Delivery Delivery          `json:"delivery,omitzero"`
	// Implemented is the content hash for which implement finished, "" if it did not.
	Implemented string `json:"implemented,omitempty"`
	// Content is the hash of what people wrote, as it was last taken in.
	Content string `json:"content,omitempty"`
}

// Undecided says, in words, that no command decided the verdict, and why; both are "" if a command did.
func (r Report) Undecided() (what, why string) {
	switch {
	case r.Executed:
		return "", ""
	case slices.ContainsFunc(r.Checks.Results, func(c CommandResult) bool { return c.Forgiven }):
		return "No command decided", "all that check it failed before the work too, and are forgiven"
	}
	return "Nothing was executed", "the project names no command that checks it"
}

// maxNotes is the maximum number of notes in a report.
const maxNotes = 30

// note adds the notes that the report does not have yet, up to maxNotes in all.
func (r *Report) note(notes []string) {
	for _, n := range notes {
		if n = shortText(n); len(r.Notes) < maxNotes && !slices.Contains(r.Notes, n) {
			r.Notes = append(r.Notes, n)
		}
	}
}

// trimmed returns the report without what report.md does not show.
func (r Report) trimmed() Report {
	bare := func(list []CommandResult, all bool) (out []CommandResult) {
		for _, c := range list {
			if all || c.Code == 0 {
				c.Tail = ""
			}
			out = append(out, c)
		}
		return out
	}
	r.Baseline.Results, r.Baseline.Stat = bare(r.Baseline.Results, true), ""
	r.Checks.Results = bare(r.Checks.Results, false)
	return r
}

// reporter is the effect of report.
type reporter struct {
	place
	guard  *worktreeGuard
	inputs *inputs
}

// conclude writes report.md.
func (w *reporter) conclude(ctx context.Context, _ flow.Call, in concludeIn) (struct{}, error) {
	if err := w.repo.Index().EndRun(ctx, w.guard.worktree()); err != nil { // the report is written in any case
		in.Report.Notes = append(slices.Clone(in.Report.Notes), "what git add left outside the worktree could not be undone: "+err.Error())
	}
	h, err := journal.Read(w.task.runDir)
	if err != nil {
		return struct{}{}, err
	}
	p, err := w.planOf(in.Report)
	if err != nil {
		return struct{}{}, err
	}
	text := trellis.Visible(w.task.redact(page(in, h, p, w.initialFeedback(h))))
	return struct{}{}, w.task.disk.WriteFile(filepath.Join(w.task.dir, taskdir.Report), []byte(text), 0o644)
}

// planOf returns the plan that a run used, or the current one if it took none in. It returns nil if there is none, or if it is
// not valid, which is then why the run failed.
func (w *reporter) planOf(r Report) (*plan.Plan, error) {
	read := func() (*plan.Plan, error) { return ReadPlan(w.store, w.task.dir) }
	if r.Content != "" {
		read = func() (*plan.Plan, error) { return w.inputs.frozenPlan(r.Content) }
	}
	p, err := read()
	if errors.As(err, new(*flow.Failure)) {
		return nil, nil
	}
	return p, err
}

// Rewrite writes report.md again, with the result of a delivery after the run.
func (w *reporter) Rewrite(ctx context.Context, in DeliverIn, d Delivery) error {
	in.Report.Delivery = d
	in.Report.note(d.Notes)
	_, err := w.conclude(ctx, flow.Call{}, concludeIn{Task: in.Task, Job: in.Job, Report: in.Report})
	return err
}
