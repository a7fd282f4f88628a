package outcome

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Planning is how a planning ended, and how long it took.
type Planning struct {
	runner.PlanResult
	Seconds float64
	Asked   bool // a person is asked about the plan right after the output
}

// IsPlanned reports whether there is a plan now, which is ready to run or waits for approval.
func (end Planning) IsPlanned() bool {
	return (end.Status == trellis.Waiting || end.Status == trellis.Ready) && end.Failure == nil && !end.Interrupted && len(end.Waits) == 0
}

// warnings returns the warnings of the report, with the current name of the directory.
func (end Planning) warnings() (list []string) {
	id := filepath.Base(end.Dir)
	for _, w := range end.Report.Warnings {
		list = append(list, strings.ReplaceAll(w, taskdir.DraftPrefix+id, id))
	}
	return list
}

// Document is what plan --json prints.
type Document struct {
	Dir         string           `json:"dir"`
	ID          string           `json:"id"`
	Status      trellis.Status   `json:"status"`
	Decision    string           `json:"decision"`
	Category    string           `json:"category"`
	Details     string           `json:"details"`
	Suggestions []string         `json:"suggestions"`
	Size        trellis.Size     `json:"size"`
	Confidence  *float64         `json:"confidence"` // of evaluate in its decision, 0 to 1; null: no decision
	Title       string           `json:"title"`
	Goals       int              `json:"goals"`
	Steps       int              `json:"steps"`
	TaskSpec    *planSpec        `json:"taskspec"` // null: none was asked for
	Judge       *planJudge       `json:"judge"`    // null: the plan was not judged
	Why         []string         `json:"why"`      // why it waits
	Retries     []string         `json:"retries"`  // why the plan was asked for again
	Calls       int              `json:"calls"`
	Seconds     float64          `json:"seconds"`
	Usage       trellis.Usage    `json:"usage"`
	Estimate    *status.Forecast `json:"estimate"` // of the work; null: too few earlier tasks to tell
	Files       []string         `json:"files"`
	Contexts    map[string]int   `json:"contexts"`
	Commands    []string         `json:"commands"`
	Warnings    []string         `json:"warnings"`
	Skipped     []string         `json:"skipped"`
	Failure     *status.Failure  `json:"failure"`
	Source      *taskdir.Source  `json:"source"` // null: the task was not made from an issue
}

// planSpec is the result of asking for the TaskSpec.
type planSpec struct {
	Valid    bool `json:"valid"`
	Repaired bool `json:"repaired"`
	Stub     bool `json:"stub"`
}

// planJudge is the final verdict of the judge.
type planJudge struct {
	Pass     bool   `json:"pass"`
	Feedback string `json:"feedback"`
	Rounds   int    `json:"rounds"` // plans judged
}

// PrintPlanning prints how a planning ended and what to do next, and returns the error for the exit code.
func PrintPlanning(ctx context.Context, a *command.Console, p *app.Project, s *runner.Site, end Planning, asJSON bool) error {
	rel := p.Store.Rel(end.Dir)
	doc := end.Document(rel)
	if asJSON && end.IsPlanned() {
		doc.Estimate = app.Forecast(ctx, p, end.Dir)
	}
	if t, err := p.Store.Load(end.Dir); err == nil && t.Source.Issue != "" {
		doc.Source = &t.Source
	}
	err := a.Print(asJSON, doc, func() error {
		if !end.Interrupted && len(end.Waits) == 0 {
			end.Say(ctx, a, p, s)
		} else if end.Report.Calls > 0 {
			a.Say("%s", usageWords(end))
		}
		return a.Result(rel)
	})
	if err != nil {
		return err
	}
	return end.ExitError("trellis plan --retry " + trellis.ShellWord(rel))
}

// ExitError returns the error for the exit code after a planning; again is the command that goes on with it.
func (end Planning) ExitError(again string) error {
	switch {
	case end.Interrupted:
		return app.WithHints(context.Canceled, again)
	case len(end.Waits) > 0:
		return app.WithHints(app.AsKind(app.ErrWaiting, errors.New(end.WaitsUntil())), again)
	case end.Failure != nil:
		next := []string{"trellis logs " + trellis.ShellWord(filepath.Base(end.Dir)), again}
		if _, err := os.Lstat(filepath.Join(end.Dir, taskdir.Requirement)); errors.Is(err, fs.ErrNotExist) && end.Failure.Code == string(trellis.InvalidTask) {
			next = []string{again + " --requirement 'what is wanted'"}
		}
		if isBudgetFailure(end.Failure) {
			next = []string{ResumeHint(end.Failure, again)}
		}
		return app.AsKind(app.ErrPlanner, app.WithHints(fmt.Errorf("planning failed: %w", end.Failure), next...))
	case end.Status == trellis.Rejected:
		return app.Quiet(app.ErrRejected)
	case end.Status == trellis.Waiting:
		return app.Quiet(app.ErrWaiting)
	}
	return nil
}

// ResumeHint returns what to do after a failure before the command again: a limit that is used up has to be raised first.
func ResumeHint(f *flow.Failure, again string) string {
	if isBudgetFailure(f) {
		return "raise the limit that it names in .trellis/config.yaml; then " + again
	}
	return again
}

func isBudgetFailure(f *flow.Failure) bool {
	return slices.Contains([]trellis.Code{trellis.BudgetTokens, trellis.BudgetCost, trellis.BudgetTime}, trellis.Code(f.Code))
}

// WaitsUntil returns why a planning does not go on, and until when.
func (end Planning) WaitsUntil() string {
	why := "the provider limits requests"
	switch f := end.Failure; {
	case end.Until.IsZero():
		return "the planning waits"
	case f != nil && f.Code != string(trellis.RateLimited):
		why = f.Error()
	}
	return why + ": the planning can continue at " + end.Until.Local().Format(time.RFC3339)
}

// Document returns the end of a planning as JSON. rel is the current path of its directory.
func (end Planning) Document(rel string) Document {
	r := end.Report
	d := Document{Dir: rel, ID: strings.TrimPrefix(filepath.Base(rel), taskdir.DraftPrefix), Status: end.Status,
		Decision: r.Verdict.Decision, Category: r.Verdict.Category, Details: r.Verdict.Details, Suggestions: orEmpty(r.Verdict.Suggestions),
		Size: r.Verdict.Size, Title: r.Title, Steps: r.Steps, Why: orEmpty(r.Why), Retries: orEmpty(r.Retries),
		Calls: r.Calls, Seconds: end.Seconds, Usage: r.Usage, Files: orEmpty(writtenFiles(end.Dir)), Contexts: r.Contexts,
		Commands: orEmpty(r.Commands), Warnings: orEmpty(end.warnings()), Skipped: orEmpty(r.Skipped)}
	if r.TaskSpec != nil {
		d.Goals, d.TaskSpec = r.TaskSpec.Goals, &planSpec{r.TaskSpec.Valid, r.TaskSpec.Repaired, r.TaskSpec.Stub}
	}
	if j := r.Judge; j != nil {
		d.Judge = (*planJudge)(j)
	}
	if r.Verdict.Decision != "" {
		d.Confidence = &r.Verdict.Confidence
	}
	if d.Contexts == nil {
		d.Contexts = map[string]int{}
	}
	switch f := end.Failure; {
	case len(end.Waits) > 0:
		d.Status, d.Failure = trellis.Planning, &status.Failure{Code: trellis.RateLimited, Detail: end.WaitsUntil()}
		if f != nil {
			d.Failure.Code = trellis.Code(f.Code)
		}
	case f != nil:
		d.Failure = &status.Failure{Code: trellis.Code(f.Code), Detail: f.Detail}
	case end.Interrupted:
		d.Status, d.Failure = trellis.Planning, &status.Failure{Code: trellis.Interrupted, Detail: "stopped by Ctrl-C or a signal"}
	}
	return d
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// writtenFiles returns the existing files of a planned task, the context files last.
func writtenFiles(dir string) (names []string) {
	for _, name := range []string{taskdir.TaskJSON, taskdir.Requirement, taskdir.Rejected, taskdir.TaskSpec, taskdir.Research, taskdir.Plan, taskdir.PRD,
		taskdir.ImplementContext, taskdir.CheckContext, taskdir.DebugContext} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// Say prints the result of a planning that has ended, for people.
func (end Planning) Say(ctx context.Context, a *command.Console, p *app.Project, s *runner.Site) {
	r, id := end.Report, filepath.Base(end.Dir)
	for _, w := range end.warnings() {
		a.Say("warning: %s", w)
	}
	switch {
	case end.Failure != nil:
		a.Say("%s", usageWords(end))
		return
	case end.Status == trellis.Rejected:
		sayRejected(a, p, end.PlanResult)
		a.Say("%s", usageWords(end))
		a.Say("next: trellis plan --retry %s --requirement 'what is wanted instead'", trellis.ShellWord(id))
		a.Say("next: trellis plan --retry %s --feedback 'why it can be done'", trellis.ShellWord(id))
		return
	}
	a.Say("%s: %s (%s)", id, r.Title, strings.Join(sizeWords(r), ", "))
	if where := p.Store.Rel(end.Dir); a.SeesAll() {
		a.Say("wrote %s: %s", where, fileWords(end))
	} else {
		a.Say("wrote %s", fileWords(end))
	}
	a.Say("%s", usageWords(end))
	if f := app.Forecast(ctx, p, end.Dir); f != nil {
		a.Say("estimate: %s", terminal.Forecast(*f))
	}
	for _, why := range r.Skipped {
		a.Say("skipped: %s", why)
	}
	SayUncommitted(ctx, a, p)
	sayNext(a, s, end, p.Store.Rel(end.Dir))
}

// sayNext prints the commands that come next, and why a waiting plan waits.
func sayNext(a *command.Console, s *runner.Site, end Planning, rel string) {
	id := filepath.Base(rel)
	if end.Asked {
		return
	}
	if end.Status == trellis.Waiting {
		for _, why := range end.Report.Why {
			a.Say("waits: %s", why)
		}
		a.Say("next: trellis review %s", trellis.ShellWord(id))
		a.Say("next: trellis approve %s", trellis.ShellWord(id))
		a.Say("next: trellis plan --retry %s --feedback 'what should be different'", trellis.ShellWord(id))
		return
	}
	if h, ok := s.Starter().Watcher(); ok {
		a.Say("the watcher (pid %d) picks it up; next: trellis start %s", h.PID, trellis.ShellWord(id))
		return
	}
	a.Say("no watcher is running; next: trellis start %s", trellis.ShellWord(id))
}

// sizeWords returns the size of the work, for people.
func sizeWords(r planner.Report) []string {
	list := []string{"size " + string(r.Verdict.Size)}
	if c := r.Verdict.Confidence; c > 0 { // 0 if evaluate did not state it
		list = append(list, "confidence "+percent(c))
	}
	if r.Steps > 0 {
		list = append(list, text.Count(r.Steps, "step"))
	}
	if t := r.TaskSpec; t != nil && !t.Stub {
		list = append(list, text.Count(t.Goals, "goal"))
	}
	return list
}

func percent(part float64) string { return fmt.Sprintf("%.0f%%", 100*part) }

// fileWords returns the files that were written, with the number of entries of context files.
func fileWords(end Planning) string {
	names := writtenFiles(end.Dir)
	for i, name := range names {
		if n, ok := end.Report.Contexts[name]; ok {
			names[i] = fmt.Sprintf("%s (%d)", name, n)
		}
	}
	return strings.Join(names, ", ")
}

// usageWords returns what a planning took, without what the task had used before.
func usageWords(end Planning) string {
	u, before := end.Report.Usage, end.Before
	cost := "cost unknown"
	if u.CostUSD != nil && before.CostUSD != nil {
		cost = text.AtLeast(u.CostPartial) + text.USD(*u.CostUSD-*before.CostUSD, u.CostEstimated)
	} else if u.CostUSD != nil {
		cost = text.Cost(u)
	}
	said := fmt.Sprintf("%s in %.1fs, agents' time %.1fs, %s tokens, %s", text.Count(end.Report.Calls, "call"), end.Seconds,
		max(0, u.Seconds-before.Seconds), text.Tokens(max(0, u.Tokens()-before.Tokens())), cost)
	if before.Tokens() > 0 || before.Seconds > 0 {
		said += "; the task in all: " + text.Usage(u)
	}
	return said
}

func sayRejected(a *command.Console, p *app.Project, res runner.PlanResult) {
	v := res.Report.Verdict
	fmt.Fprintf(a.Stderr, "=== PLAN REJECTED ===\nReason: %s\nDetails: %s\n", planner.Rejection{Category: v.Category}.Reason(), trellis.Visible(v.Details))
	for _, s := range v.Suggestions {
		fmt.Fprintf(a.Stderr, "  - %s\n", trellis.Visible(s))
	}
	if v.Confidence > 0 {
		fmt.Fprintf(a.Stderr, "Confidence: %s\n", percent(v.Confidence))
	}
	fmt.Fprintf(a.Stderr, "See: %s\n", p.Store.Rel(filepath.Join(res.Dir, taskdir.Rejected)))
}

// SayUncommitted warns of uncommitted files, which a worktree won't have.
func SayUncommitted(ctx context.Context, a *command.Console, p *app.Project) {
	list, err := p.Repo.Index().Status(ctx, p.Root, ".trellis/tasks", ".trellis/objectives", ".trellis/.runtime")
	switch {
	case err != nil:
		command.Note(a, "looking for uncommitted files: %v", err)
	case len(list) == 1:
		command.Note(a, "1 uncommitted file in this checkout, %s: the worktree won't have it", list[0].Path)
	case len(list) > 1:
		command.Note(a, "%d uncommitted files in this checkout, such as %s: the worktree won't have them", len(list), list[0].Path)
	}
}

// PlanError adds exit codes and hints to the errors of planning.
func PlanError(p *app.Project, err error) error {
	var draft *runner.DraftError
	if untrusted, ok := errors.AsType[*trust.UntrustedError](err); ok {
		if dir, found := p.Store.Find(untrusted.Verdict.Subject); found == nil && strings.HasPrefix(filepath.Base(dir), taskdir.DraftPrefix) {
			return app.WithHints(err, untrusted.Next(), "trellis plan --retry "+trellis.ShellWord(untrusted.Verdict.Subject))
		}
	}
	switch {
	case durable.IsDiskError(err): // the same command would find the draft and fail
		return app.WithHints(err, "fix the disk, then trellis list, which shows how to continue a planning that was cut off")
	case errors.As(err, &draft):
		return app.WithHints(app.AsKind(app.ErrUsage, err), "trellis plan --retry "+trellis.ShellWord(draft.Dir), "trellis task rm "+trellis.ShellWord(draft.Dir))
	case errors.Is(err, taskdir.ErrExists):
		return app.WithHints(app.AsKind(app.ErrUsage, err), "choose another --name, or add --force-new")
	case errors.As(err, new(*trellis.MoveError)):
		return app.AsKind(app.ErrUsage, err)
	case errors.As(err, new(*durable.HeldError)):
		return err
	}
	return AgentError(err)
}
