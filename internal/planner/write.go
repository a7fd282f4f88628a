package planner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Write: the files of the directory and the fields of task.json that planning decides are written, the directory is checked as
// everyone checks it, and the task becomes ready, or waits for people.

const write flow.Act[writeIn, written] = "write"

type writeIn struct {
	Input    Input          `json:"input"`
	Verdict  Verdict        `json:"verdict"`
	Findings Findings       `json:"findings"`
	Document Document       `json:"document"`
	Waits    bool           `json:"waits"`
	Plan     *agentcall.Ref `json:"plan,omitempty"`
	Research *agentcall.Ref `json:"research,omitempty"` // with a plan: its technical notes go into prd.md
	TaskSpec *agentcall.Ref `json:"taskspec,omitempty"`
	Priority string         `json:"priority,omitempty"` // that of the TaskSpec
	Judge    *Judgement     `json:"judge,omitempty"`
}

type written struct {
	Warnings []string `json:"warnings,omitempty"`
}

const check flow.Act[struct{}, checked] = "ready"

type checked struct {
	Problems []*trellis.Problem `json:"problems,omitempty"`
	Dropped  []string           `json:"dropped,omitempty"`
}

func (p *planning) writeInput(e exploration, d Draft) writeIn {
	p.rep.Title, p.rep.Steps = d.Title, d.Steps
	p.rep.Warnings = append(p.rep.Warnings, d.Warnings...)
	if len(d.Guarded) > 0 {
		p.addReason(agentcall.Truncate("it changes what the project protects: "+strings.Join(d.Guarded, ", "), maxProtected))
	}
	in := writeIn{Findings: e.findings, Plan: &d.Plan, Research: e.research, Judge: p.rep.Judge}
	if e.taskSpec != nil {
		in.TaskSpec = &e.taskSpec.Spec
		in.Priority = e.taskSpec.Said.Priority
	}
	return in
}

// finishDirectory writes the files of the task directory, checks them as `trellis validate` does, and sets the status.
func (p *planning) finishDirectory(f flow.Flow, in writeIn) error {
	if p.sv.Approval {
		p.addReason(config.EveryPlan)
	}
	if p.rep.Verdict.Size == trellis.Large {
		p.addReason("the work is large")
	}
	in.Input, in.Verdict, in.Waits = p.in, Verdict{Size: p.rep.Verdict.Size}, len(p.rep.Why) > 0
	in.Findings.Warnings = nil // the report has them
	w, err := write.Do(f, in)
	if err != nil {
		return err
	}
	p.rep.Warnings = append(p.rep.Warnings, w.Warnings...)
	ok, err := check.Do(f, struct{}{})
	if err != nil {
		return err
	}
	p.rep.Warnings, p.rep.Problems = append(p.rep.Warnings, ok.Dropped...), ok.Problems
	if len(ok.Problems) > 0 {
		return flow.Fail(string(trellis.InvalidTask), "the directory is not ready: %s", ok.Problems[0].Error())
	}
	p.rep.Status = trellis.Ready
	if in.Waits {
		p.rep.Status = trellis.Waiting
	}
	_, err = finish.Do(f, finishIn{p.rep.Status, p.rep.Usage})
	return err
}

type writer struct {
	files
	checkout
	store  taskdir.Store
	config *config.Config
}

// write writes prd.md and the fields of task.json that planning decides.
func (wr writer) write(ctx context.Context, c flow.Call, in writeIn) (w written, err error) {
	step := roadmapStep{objective: in.Input.Objective, verification: in.Findings.Commands}
	if in.Plan != nil {
		if in.Document, err = wr.documentFromPlan(in, &step); err != nil {
			return w, err
		}
	}
	t, err := wr.store.Load(wr.dir)
	if err != nil {
		return w, err
	}
	if title(in.Document.Title) == "" { // there are only marks
		in.Document.Title = t.Title
	}
	step.dependencies = t.Pipeline.DependsOn
	in.Document.addConstraints(in.Input.Constraints)
	w.Warnings = wr.leaveOutMissing(&in.Document)
	var notes []string
	if in.Findings.NewArea {
		notes = append(notes, "This is a new area: no existing patterns were found to follow.")
	}
	if err := wr.rewrite(c, taskdir.PRD, []byte(prd{in.Document, notes, in.Input.Background, step}.render())); err != nil {
		return w, err
	}
	if err := errors.Join(wr.writeOrRemove(c, taskdir.Plan, in.Plan), wr.writeOrRemove(c, taskdir.TaskSpec, in.TaskSpec)); err != nil {
		return w, err
	}
	branch, warning, err := wr.branch(ctx, t)
	if err != nil {
		return w, err
	}
	if warning != "" {
		w.Warnings = append(w.Warnings, warning)
	}
	base := in.Input.Base
	if base == "" {
		if base, err = wr.repo.Refs().CurrentBranch(ctx, wr.repo.Main); err != nil {
			return w, err
		}
	}
	return w, wr.writeDecisions(in, branch, base)
}

// leaveOutMissing removes from a document the commands that prove a criterion but can't be run, and returns a warning for each.
func (wr writer) leaveOutMissing(d *Document) (warnings []string) {
	for i, c := range d.Acceptance {
		if c.Verify == "" {
			continue
		}
		if why := wr.missing(c.Verify); why != "" {
			warnings = append(warnings, fmt.Sprintf("prd.md: `%s`, which was to prove %q, is left out: %s", c.Verify, c.Criterion, why))
			d.Acceptance[i].Verify = ""
		}
	}
	return agentcall.TruncateList(warnings, maxWarnings)
}

// writeDecisions sets the fields of task.json that planning decides.
func (wr writer) writeDecisions(in writeIn, branch, base string) error {
	_, err := wr.store.Update(wr.dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		e.Set("title", title(in.Document.Title))
		e.Set("description", text.OneLine(in.Document.Summary))
		e.Set("scope", in.Findings.Scope)
		if in.Findings.DevType != "" && t.DevType == "" {
			e.Set("dev_type", in.Findings.DevType)
		}
		e.Set("branch", branch)
		e.Set("base_branch", base)
		e.Set("pipeline.size", in.Verdict.Size)
		if p := (plan.TaskSpec{Priority: in.Priority}).TaskPriority(); p != "" && in.Input.Priority == "" {
			e.Set("priority", p)
		}
		if in.Judge != nil {
			e.Set("pipeline.judge", taskdir.Judge{Pass: in.Judge.Pass, Feedback: in.Judge.Feedback})
		} else if t.Pipeline.Judge != nil {
			e.Set("pipeline.judge", nil)
		}
		e.Set("pipeline.protected", in.Findings.Protected)
		e.Set("pipeline.verify", in.Input.Verify)
		e.Set("pipeline.approval", taskdir.Approval{Required: in.Waits, Approvers: max(1, wr.config.Planning.Approvers), Asked: t.Pipeline.Approval.Asked})
		return nil
	})
	return err
}

// branch returns the branch that a person named in task.json, or that has work on it, or else the first free one made from the
// task's name: no branch of the repository, nor of another task, even if that has not made it yet.
func (wr writer) branch(ctx context.Context, t *taskdir.Task) (name, warning string, err error) {
	const way = "%v: name another with `trellis task set-branch`, or start with --adopt-branch"
	own := t.BranchName()
	if err := git.CheckBranchName(own); err != nil {
		return own, fmt.Sprintf(way, err), nil
	}
	kept := t.Branch != "" && (t.Branch != (&taskdir.Task{Name: t.Name}).BranchName() || t.Pipeline.BaseCommit != "")
	all, err := wr.store.List()
	if err != nil {
		return "", "", err
	}
	others := func(e taskdir.Entry) bool { return e.Task != nil && e.Dir != wr.dir && e.Task.BranchName() == name }
	name = own
	for i := 2; ; i++ {
		err := wr.repo.Refs().BranchFree(ctx, name)
		taken, ok := errors.AsType[*git.BranchError](err)
		switch {
		case err != nil && !ok:
			return "", "", err
		case ok && (kept || strings.HasPrefix(name, taken.Taken+"/")): // another name for the task would not help
			return name, fmt.Sprintf(way, err), nil
		case kept, !ok && !slices.ContainsFunc(all, others):
			return name, warning, nil
		}
		name = fmt.Sprintf("%s-%d", own, i)
		warning = fmt.Sprintf("the branch %s is there, or another task's, so this one has %s: `trellis task set-branch` names it otherwise", own, name)
	}
}

// maxNotes is how much of the research's technical notes prd.md contains, in bytes.
const maxNotes = 8 << 10

func (wr writer) documentFromPlan(in writeIn, step *roadmapStep) (Document, error) {
	text, err := wr.read(*in.Plan)
	if err != nil {
		return Document{}, err
	}
	p, problems := plan.Parse([]byte(text))
	if p == nil {
		return Document{}, fmt.Errorf("reading the plan: %s", problems[0].ForModel())
	}
	d := Document{Title: title(p.Title), Summary: p.Summary, Requirements: p.Requirements, DesignDecisions: p.DesignDecisions, OutOfScope: p.OutOfScope}
	step.copyPlan(p)
	for _, c := range p.Acceptance {
		d.Acceptance = append(d.Acceptance, Criterion{Criterion: c.Criterion, Verify: c.Verify, Level: c.Level})
	}
	if in.Research == nil {
		return d, nil
	}
	text, err = wr.read(*in.Research)
	d.TechnicalNotes = agentcall.Truncate(research.Parse([]byte(text)).Notes, maxNotes)
	return d, err
}

type checker struct {
	files
	checkout
	store  taskdir.Store
	final  string
	config *config.Config
}

// check checks the directory as everyone does, after repairing or removing context rows that are not valid.
func (k checker) check(ctx context.Context, _ flow.Call, _ struct{}) (checked, error) {
	var out checked
	for _, name := range research.ContextFiles {
		path := filepath.Join(k.dir, name)
		var mends []contextfiles.Correction
		err := k.disk.Edit(path, func(data []byte) (fixed []byte, _ error) {
			if fixed, mends = contextfiles.Fix(name, data, contextfiles.Checker{Root: k.repo.Main}); len(mends) == 0 {
				return data, nil
			}
			return fixed, nil
		})
		if err != nil {
			return out, fmt.Errorf("checking %s: %w", name, err)
		}
		for _, m := range mends {
			if m.Now == "" {
				out.Dropped = append(out.Dropped, m.Problem.Error())
			}
		}
	}
	problems, err := ready.Check(ctx, ready.Input{Dir: k.dir, Store: k.store, Repo: k.repo, As: filepath.Base(k.final), Status: trellis.Ready,
		MaxSteps: k.config.Planning.MaxSteps, LookPath: k.lookPath})
	if err != nil {
		return out, err
	}
	for _, p := range problems {
		if p.Warning {
			out.Dropped = append(out.Dropped, p.Error())
		} else {
			out.Problems = append(out.Problems, &p)
		}
	}
	out.Dropped, out.Problems = agentcall.TruncateList(out.Dropped, maxWarnings), out.Problems[:min(len(out.Problems), maxWarnings)]
	return out, nil
}
