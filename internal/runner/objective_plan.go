package runner

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// StepOptions say which step of an objective to plan, and for whom.
type StepOptions struct {
	Step    string         // "": the next one
	Creator string         // creator of the task
	DevType string         // type of the task
	Agent   string         // agent that plans, whatever the config says
	Forge   *github.Client // not nil: the plan is put into an issue, too
}

// StepResult is the result of planning a step.
type StepResult struct {
	PlanResult
	Step  roadmap.Step  // as the roadmap has it now
	Task  string        // directory name
	Known bool          // the step was planned already, and nothing was planned now
	Dead  string        // if Known: why nothing comes of the task unless a person does something; "" otherwise
	Issue *github.Issue // issue that holds the plan; nil if there is none
}

// PlanStep plans a step of an objective and has the roadmap name the task. It does not make again what exists: it resumes a
// planning that was cut off, and links a task that its step does not name. Errors that callers tell apart, besides those of
// Plan: *StepError, *BusyError, *trellis.Problem, roadmap.ErrNotFound, roadmap.ErrNoStep, ErrOtherPlan, ErrNoIssue.
func (s Objectives) PlanStep(ctx context.Context, name string, o StepOptions) (StepResult, error) {
	works, err := roadmap.ReadStepTasks(s.Store, true)
	if err != nil {
		return StepResult{}, err
	}
	a, err := s.Advance(ctx, name, works, false)
	if err != nil {
		return StepResult{}, err
	}
	steps, err := a.pick(works, o.Step)
	if err != nil {
		return StepResult{}, err
	}
	var res StepResult
	for _, o.Step = range steps {
		if res, err = s.PlanOne(ctx, name, o, true); !errors.As(err, new(*BusyError)) {
			break
		}
	}
	if err == nil && o.Forge != nil && res.isPublished() && res.Dead == "" {
		err = s.openIssue(ctx, name, o.Forge, &res)
	}
	return res, err
}

func (r StepResult) isPublished() bool { return !r.Interrupted && len(r.Waits) == 0 }

// pick returns the step that a person names, if it can be planned, or else the steps that come next, of which the first that
// nobody plans yet is to be planned.
func (a Advance) pick(works *roadmap.StepTasks, id string) (ids []string, err error) {
	if id == "" {
		for _, step := range a.Ready {
			ids = append(ids, step.ID)
		}
		if len(ids) == 0 {
			return nil, &StepError{Objective: a.Name, Code: a.Decision.Code, Why: a.Decision.Why}
		}
		return ids, nil
	}
	step := a.Road.Step(id)
	if step == nil {
		return nil, fmt.Errorf("objective %s: %w: %s", a.Name, roadmap.ErrNoStep, id)
	}
	if _, planned := works.Of(a.Name, id); planned || step.State != roadmap.Pending {
		return []string{id}, nil // PlanOne decides, once it has claimed the step, whether it can be resumed
	}
	if on, why := a.Road.BlockingDependency(works, *step); on != "" {
		return nil, &StepError{a.Name, id, roadmap.Waiting, fmt.Sprintf("it depends on step %s, which %s", on, why)}
	}
	return []string{id}, nil
}

// PlanOne plans a step unless another process plans it. asked: a person wants it, and a planning that failed is tried again.
func (s Objectives) PlanOne(ctx context.Context, name string, o StepOptions, asked bool) (res StepResult, err error) {
	claim, err := s.roadmaps().Claim(name, o.Step)
	if held, ok := errors.AsType[*durable.HeldError](err); ok {
		return res, &BusyError{name, o.Step, held}
	}
	if err != nil {
		return res, err
	}
	defer claim.Unlock()
	works, err := roadmap.ReadStepTasks(s.Store, true)
	if err != nil {
		return res, err
	}
	src, err := roadmap.Read(s.Store.Root, name)
	if err != nil {
		return res, err
	}
	if err := s.guard().checkObjective(ctx, name, src); err != nil {
		return res, err
	}
	if err := s.guard().checkCheckout(ctx, s.Store.Root); err != nil {
		return res, err
	}
	road, err := roadmap.Parse(name, src)
	if err != nil {
		return res, err
	}
	step := road.Step(o.Step)
	if step == nil {
		return res, fmt.Errorf("objective %s: %w: %s", name, roadmap.ErrNoStep, o.Step)
	}
	j := stepPlanning{s.Site, road, *step, works, src, o}
	res.PlanResult, res.Known, err = j.plan(ctx, asked)
	if res.Step = *step; res.Dir != "" {
		res.Task = filepath.Base(publishedDir(res.Dir))
	}
	if work, _ := works.Of(name, o.Step); res.Known && work.Dead() {
		res.Dead = work.Why()
	}
	if err != nil || !res.isPublished() {
		return res, err
	}
	return res, s.link(ctx, name, &res)
}

// stepPlanning is the planning of a step that this process has claimed.
type stepPlanning struct {
	*Site
	road  *roadmap.Roadmap
	step  roadmap.Step
	works *roadmap.StepTasks
	src   []byte // text of the roadmap
	o     StepOptions
}

// plan plans the step, unless it was planned before: then plan resumes that planning, or has nothing to do.
func (p stepPlanning) plan(ctx context.Context, asked bool) (res PlanResult, known bool, err error) {
	work, ok := p.works.Of(p.road.Name, p.step.ID)
	failed := ok && work.Status == trellis.Planning && work.Pipeline.Failure.Code != ""
	stands := ok && !p.road.Free(p.works, p.step)
	switch {
	case (stands || ok && work.Draft) && p.o.DevType != "" && p.o.DevType != work.DevType:
		return res, false, &StepError{p.road.Name, p.step.ID, roadmap.Stuck, fmt.Sprintf("it is planned as %s already, of type %s", work.Name(), cmp.Or(work.DevType, "none"))}
	case ok && work.Draft, failed && asked:
		res, err = p.PlanRunner().Replan(ctx, work.Dir, PlanOptions{Agent: p.o.Agent})
		return res, false, err
	case stands:
		return PlanResult{Dir: work.Dir, Status: work.Status}, true, nil
	case p.step.State != roadmap.Pending:
		return res, false, &StepError{p.road.Name, p.step.ID, roadmap.Stuck, p.takenReason()}
	}
	if p.step.HasTemplateText() {
		return res, false, &StepError{p.road.Name, p.step.ID, roadmap.Stuck, fmt.Sprintf("%s:%d still says what a new objective says there: write what is to be done", roadmap.File(p.road.Name), p.step.Line)}
	}
	if err := p.road.CheckLinkable(p.step.ID); err != nil { // before anything is paid for
		return res, false, err
	}
	if err := p.Roles().CheckPlanners(ctx, p.o.Agent); err != nil {
		return res, false, err
	}
	o, draft, err := p.draft()
	if err != nil {
		return res, false, err
	}
	res, err = p.Site.PlanRunner().plan(ctx, draft, publishedDir(draft), func(j *journal.Run) (planner.Input, error) {
		return p.PlanRunner().beginPlan(ctx, j, publishedDir(draft), o, 0, trellis.Usage{})
	})
	return res, false, err
}

func (p stepPlanning) takenReason() string {
	why := fmt.Sprintf("it is %s", p.step.State)
	if p.step.Plan == "" {
		return why
	}
	why += ", and its cell says plan " + p.step.Plan
	if _, there := p.works.Planned(p.road.Name, p.step.Plan); !there && !strings.HasPrefix(p.step.Plan, "#") {
		why += ", which is not a task: empty the cell to plan it again"
	}
	return why
}

// maxNames is how many names are tried for the task of a step.
const maxNames = 100

// draft makes the folder in which the step is planned. From then on, the planning is found by the step that is recorded in the folder.
func (p stepPlanning) draft() (o PlanOptions, dir string, err error) {
	o.Requirement, o.Agent = roadmap.Requirement(p.road.Name, p.road.Title, p.step, p.src), p.o.Agent
	o.New = taskdir.New{Title: p.step.Title(), DevType: p.o.DevType, Creator: p.o.Creator, Assignee: p.o.Creator,
		DependsOn: p.road.DependencyTasks(p.works, p.step), Objective: taskdir.Objective{Name: p.road.Name, Step: p.step.ID}}
	name := p.step.TaskName()
	for n := 1; n <= maxNames; n++ {
		if o.New.Name = name; n > 1 {
			o.New.Name = fmt.Sprintf("%s-%d", name, n)
		}
		dir, err = p.PlanRunner().Draft(o)
		if !errors.Is(err, taskdir.ErrExists) && !errors.As(err, new(*DraftError)) && !errors.Is(err, durable.ErrHeld) {
			break
		}
	}
	return o, dir, err
}

// link makes the roadmap name the task of a step.
func (s Objectives) link(ctx context.Context, name string, res *StepResult) error {
	works, err := roadmap.ReadStepTasks(s.Store, false)
	if err != nil {
		return err
	}
	due, err := s.roadmaps().WriteDue(ctx, s.Store, name, works)
	if err != nil {
		return err
	}
	other := ""
	for _, d := range due {
		if d.Step == res.Step.ID {
			other = d.Other
		}
	}
	road, err := roadmap.Load(s.Store.Root, name)
	if err != nil {
		return err
	}
	if now := road.Step(res.Step.ID); now != nil {
		res.Step = *now
		if work, ok := works.Planned(name, now.Plan); ok && work.Name() != res.Task { // the cell names another existing task
			other = "plan " + now.Plan
		}
	}
	if other != "" {
		return fmt.Errorf("objective %s: step %s is planned as %s, and %w: %s", name, res.Step.ID, res.Task, ErrOtherPlan, other)
	}
	return nil
}

// openIssue puts the plan of a step into an issue, once, and makes the roadmap name the issue. Nothing is ever read back from it.
func (s Objectives) openIssue(ctx context.Context, name string, f *github.Client, res *StepResult) error {
	t, err := s.Store.Load(res.Dir)
	if err != nil {
		return err
	}
	if t.Status == trellis.Rejected || t.Status == trellis.Planning {
		return nil // there is no plan
	}
	text, err := taskdir.ReadFile(res.Dir, taskdir.PRD)
	if err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	sum := sha256.Sum256([]byte(name + "\x00" + res.Step.ID))
	n := github.NewIssue{Title: t.Title, Label: PlanLabel, Mark: fmt.Sprintf("<!-- trellis plan %s %s -->", hex.EncodeToString(sum[:8]), t.ID)}
	body := strings.ToValidUTF8(string(text[:min(len(text), maxIssue)]), "")
	if len(text) > maxIssue {
		body += "\n\n[cut here]"
	}
	n.Body = body + "\n\n" + n.Mark + "\n"
	if res.Issue, err = f.EnsureIssue(ctx, n); err != nil {
		return fmt.Errorf("step %s of %s is planned as %s, but %w: %w", res.Step.ID, name, res.Task, ErrNoIssue, err)
	}
	if err := s.roadmaps().NoteIssue(ctx, s.Store, name, res.Dir, res.Issue.Number); err != nil {
		return err
	}
	return s.link(ctx, name, res)
}

// PlanLabel is the label of issues that hold plans.
const PlanLabel = "trellis-plan"

// ErrNoIssue is returned if a step is planned, but its plan could not be put into an issue.
var ErrNoIssue = errors.New("its plan could not be put into an issue")

// maxIssue is how many bytes of a plan go into an issue. GitHub accepts 65536 characters.
const maxIssue = 60 << 10
