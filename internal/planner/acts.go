package planner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/specs"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Acts are the effects of planning one task.
type Acts struct {
	Dir      string // the task directory, while planning a `.new-*` folder or the directory itself
	Final    string // where it is published; the same as Dir when a task is planned again
	Repo     *git.Repo
	Store    taskdir.Store
	Config   *config.Config
	Cast     agentcall.Cast
	LookPath func(program string) error
	Disk     *durable.Disk
	Now      func() time.Time
	// Trusted says why no agent is told these files of the checkout, as they were read by their paths, nor is at work in it; nil:
	// each may be. It is asked before each call.
	Trusted func(ctx context.Context, texts map[string][]byte) error

	mu   sync.Mutex
	seen *git.Looks // of the main checkout after the last call
}

// Activities are all that a planning does besides its agents' calls, which are those of the roles given
// through Slots, Check and Watch to package ask.
func (a *Acts) Activities() []flow.Activity {
	return []flow.Activity{survey.With(a.survey), reject.With(a.reject), digest.With(a.digest),
		settle.With(a.settle), draft.With(a.draft), write.With(a.write), check.With(a.check), finish.With(a.finish), giveUp.With(a.giveUp)}
}

// Roles are the roles that a planning asks.
func Roles() []trellis.Role {
	return []trellis.Role{trellis.Evaluate, trellis.Research, trellis.TaskSpec, trellis.Plan, trellis.Judge, trellis.PRD}
}

// survey finds out what is fixed for the whole planning: who plays each role, and what the project is.
func (a *Acts) survey(_ context.Context, c flow.Call, in Input) (Survey, error) {
	s := Survey{Choices: map[trellis.Role]agentcall.Choice{}, Dir: a.Repo.Main, Approval: a.Config.Planning.Approval == "plan",
		TaskSpec: a.Config.Planning.TaskSpec, Judge: a.Config.Planning.Judge,
		Limits: agentcall.Limits{Wall: a.Config.Limits.Evaluate, Idle: a.Config.Limits.Idle, Tokens: a.Config.Limits.Tokens, CostUSD: a.Config.Limits.CostUSD}}
	for _, role := range Roles() {
		choice, err := a.Cast.Choose(role, "", in.Agent)
		if err != nil {
			return s, err
		}
		s.Choices[role] = choice
	}
	kept, err := a.keepReplaced(c)
	if err != nil {
		return s, err
	}
	if before, ok := kept[taskdir.Plan]; ok && in.Feedback != "" {
		s.Previous = &before
	}
	text, files := a.describe()
	s.HasFiles = files
	s.Project, err = a.keep(c, "project.md", []byte(text))
	return s, err
}

// digest turns the research answer into research.md and the three context files.
func (a *Acts) digest(ctx context.Context, c flow.Call, in digestIn) (f Findings, err error) {
	var res research.Report
	if in.Research != nil {
		text, err := a.read(*in.Research)
		if err != nil {
			return f, err
		}
		if err := a.rewrite(c, taskdir.Research, []byte(text)); err != nil {
			return f, err
		}
		res = research.Parse([]byte(text))
	}
	f.Contexts, f.NewArea = map[string]int{}, len(res.Context) == 0
	var found []string
	for _, name := range research.ContextFiles {
		rows, warnings := a.rows(name, res.Context[name])
		f.Warnings = append(f.Warnings, warnings...)
		for _, r := range rows {
			found = append(found, r.Path)
		}
		rows, err := a.withBase(ctx, in.Input, rows, found)
		if err != nil {
			return f, err
		}
		f.Contexts[name] = len(rows)
		if err := a.rewrite(c, name, contextfiles.Render(rows)); err != nil {
			return f, err
		}
	}
	f.Scope = res.Scope
	if f.Scope == "" || len(f.Scope) > trellis.MaxName {
		f.Scope, _, _ = strings.Cut(in.Input.Name, "-")
	}
	a.confirm(a.decided(in.Input.Verify), res, &f)
	f.Warnings = agentcall.Few(f.Warnings, maxNoted)
	return f, nil
}

// decided are the commands that a person says decide: of the task, or else of the configuration.
func (a *Acts) decided(task []string) []string {
	if len(task) > 0 {
		return task
	}
	return a.Config.Verify
}

// confirm takes the commands that can run here, first those of a person, then those of the research, and the paths
// that the research says are not to be modified. What is too much is left out with a warning.
func (a *Acts) confirm(verify []string, res research.Report, f *Findings) {
	var left int
	a.runnable("verify", verify, f)
	a.runnable("research.md", res.Commands, f)
	if f.Commands, left = part(f.Commands, maxFound); left > 0 {
		f.Warnings = slices.Insert(f.Warnings, 0, fmt.Sprintf("there are so many verification commands that the last %d of them are left out", left))
	}
	if f.Protected, left = part(res.Protected, maxGuards); left > 0 {
		f.Warnings = slices.Insert(f.Warnings, 0, fmt.Sprintf("research.md: it names so many paths that are not to be modified that the last %d of them are left out", left))
	}
}

// runnable adds the commands that can run here; from is where they were said.
func (a *Acts) runnable(from string, commands []string, f *Findings) {
	for _, c := range commands {
		c = strings.TrimSpace(c)
		if why := a.project().Missing(c); why != "" {
			f.Warnings = append(f.Warnings, fmt.Sprintf("%s: verification command `%s` is left out: %s", from, c, why))
			continue
		}
		if !slices.Contains(f.Commands, c) {
			f.Commands = append(f.Commands, c)
		}
	}
}

func (a *Acts) project() research.Project {
	return research.Project{Root: a.Repo.Main, LookPath: a.LookPath}
}

// rows are the cited paths that can be context.
func (a *Acts) rows(name string, list []research.Cited) (rows []contextfiles.Row, warnings []string) {
	for _, c := range list {
		row := contextfiles.Row{Line: c.Line, Path: c.Path, Reason: c.Reason, Type: "file"}
		if strings.HasSuffix(c.Path, "/") {
			row.Type = "directory"
		}
		rows = append(rows, row)
	}
	valid, problems := contextfiles.Checker{Root: a.Repo.Main}.Check(taskdir.Research, rows)
	for _, p := range problems {
		if !p.Warning {
			warnings = append(warnings, fmt.Sprintf("%s:%d: left out of %s: %s", taskdir.Research, p.Line, name, p.Message))
		}
	}
	return valid, warnings
}

// named are the rows of files that a person named.
func named(paths []string) (rows []contextfiles.Row) {
	for _, p := range paths {
		row := contextfiles.Row{Path: p, Reason: "named with --context", Type: "file"}
		if strings.HasSuffix(p, "/") {
			row.Type = "directory"
		}
		rows = append(rows, row)
	}
	return rows
}

// withBase puts the entries that every task of this kind gets before those that were found.
func (a *Acts) withBase(_ context.Context, in Input, rows []contextfiles.Row, found []string) ([]contextfiles.Row, error) {
	rows = append(named(in.Context), rows...)
	base, err := specs.Base(a.Repo.Main, in.DevType, in.Package, found)
	if err != nil {
		return nil, err
	}
	var all []contextfiles.Row
	for _, b := range base {
		all = append(all, contextfiles.Row{Path: b.Path, Reason: b.Reason, Type: "file"})
	}
	for _, r := range rows {
		if !slices.ContainsFunc(all, func(o contextfiles.Row) bool { return o.Path == r.Path }) {
			all = append(all, r)
		}
	}
	return all, nil
}

// write makes prd.md and the fields of task.json that planning decides.
func (a *Acts) write(ctx context.Context, c flow.Call, in writeIn) (w written, err error) {
	var notes []string
	if in.Findings.NewArea {
		notes = append(notes, "This is a new area: no existing patterns were found to follow.")
	}
	of := roadmapStep{of: in.Input.Objective, verification: in.Findings.Commands}
	if in.Plan != nil {
		if in.Document, err = a.plannedDocument(in, &of); err != nil {
			return w, err
		}
	}
	t, err := a.Store.Load(a.Dir)
	if err != nil {
		return w, err
	}
	if title(in.Document.Title) == "" { // marks alone
		in.Document.Title = t.Title
	}
	of.dependencies = t.Pipeline.DependsOn
	in.Document.constrain(in.Input.Constraints)
	for i, c := range in.Document.Acceptance {
		if c.Verify == "" {
			continue
		}
		if why := a.project().Missing(c.Verify); why != "" {
			w.Warnings = append(w.Warnings, fmt.Sprintf("prd.md: `%s`, which was to prove %q, is left out: %s", c.Verify, c.Criterion, why))
			in.Document.Acceptance[i].Verify = ""
		}
	}
	w.Warnings = agentcall.Few(w.Warnings, maxNoted)
	if err := a.rewrite(c, taskdir.PRD, []byte(prd{in.Document, notes, in.Input.Background, of}.render())); err != nil {
		return w, err
	}
	if err := errors.Join(a.place(c, taskdir.Plan, in.Plan), a.place(c, taskdir.TaskSpec, in.TaskSpec)); err != nil {
		return w, err
	}
	if err := a.Repo.BranchFree(ctx, "feature/"+in.Input.Name); err != nil {
		w.Warnings = append(w.Warnings, fmt.Sprintf("%v: name another with `trellis task set-branch`, or start with --adopt-branch", err))
	}
	base := in.Input.Base
	if base == "" {
		if base, err = a.Repo.CurrentBranch(ctx, a.Repo.Main); err != nil {
			return w, err
		}
	}
	_, err = a.Store.Update(a.Dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		e.Set("title", title(in.Document.Title))
		e.Set("description", oneLine(in.Document.Summary))
		e.Set("scope", in.Findings.Scope)
		e.Set("branch", "feature/"+in.Input.Name)
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
		e.Set("pipeline.approval", taskdir.Approval{Required: in.Waits, Approvers: max(1, a.Config.Planning.Approvers)})
		return nil
	})
	return w, err
}

// check runs the check that everyone runs; context rows that fail are taken out, and it runs again.
func (a *Acts) check(ctx context.Context, _ flow.Call, _ struct{}) (checked, error) {
	var out checked
	for _, name := range research.ContextFiles {
		path := filepath.Join(a.Dir, name)
		var dropped []trellis.Problem
		err := a.Disk.Edit(path, func(data []byte) (fixed []byte, _ error) {
			if fixed, dropped = contextfiles.Fix(name, data, contextfiles.Checker{Root: a.Repo.Main}); len(dropped) == 0 {
				return data, nil
			}
			return fixed, nil
		})
		if err != nil {
			return out, fmt.Errorf("checking %s: %w", name, err)
		}
		for _, p := range dropped {
			out.Dropped = append(out.Dropped, p.Error())
		}
	}
	problems, err := ready.Check(ctx, ready.Input{Dir: a.Dir, Store: a.Store, Repo: a.Repo, As: filepath.Base(a.Final), Status: trellis.Ready,
		MaxSteps: a.Config.Planning.MaxSteps, LookPath: a.LookPath})
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
	out.Dropped, out.Problems = agentcall.Few(out.Dropped, maxNoted), out.Problems[:min(len(out.Problems), maxNoted)]
	return out, nil
}

// finish sets the status; a plan that a person has to agree to says for which content.
func (a *Acts) finish(_ context.Context, _ flow.Call, in finishIn) (int64, error) {
	return a.update(func(t *taskdir.Task, e *taskdir.Edit) error {
		hash, err := taskdir.PlanHash(a.Dir, t)
		if err != nil {
			return err
		}
		e.Set("pipeline.plan_hash", hash)
		e.Set("pipeline.usage", in.Usage)
		e.Set("pipeline.outcome", "")
		e.Set("pipeline.failure", taskdir.Failure{})
		e.Set("status", in.Status)
		return nil
	})
}

// reject records the verdict as a page for people and as data.
func (a *Acts) reject(_ context.Context, _ flow.Call, in rejectIn) (int64, error) {
	return a.update(func(t *taskdir.Task, e *taskdir.Edit) error {
		r := Rejection{Category: in.Verdict.Category, Details: in.Verdict.Details, Suggestions: in.Verdict.Suggestions,
			Dir: a.relative(), Name: t.Name, DevType: t.DevType}
		if err := a.Disk.WriteFile(filepath.Join(a.Dir, taskdir.Rejected), []byte(r.Render()), 0o644); err != nil {
			return err
		}
		e.Set("pipeline.rejection", taskdir.Rejection{Category: in.Verdict.Category, Details: in.Verdict.Details, Suggestions: in.Verdict.Suggestions})
		e.Set("pipeline.outcome", trellis.OutcomeReject)
		e.Set("pipeline.usage", in.Usage)
		e.Set("status", trellis.Rejected)
		return nil
	})
}

// giveUp records why the planner failed. The status stays planning.
func (a *Acts) giveUp(_ context.Context, _ flow.Call, in giveUpIn) (int64, error) {
	fail := in.Failure
	return a.update(func(_ *taskdir.Task, e *taskdir.Edit) error {
		e.Set("pipeline.usage", in.Usage)
		e.Set("pipeline.failure", taskdir.Failure{Code: trellis.Code(fail.Code), Detail: fail.Detail, Retryable: fail.Retryable, At: a.Now()})
		return nil
	})
}

func (a *Acts) update(change func(*taskdir.Task, *taskdir.Edit) error) (int64, error) {
	t, err := a.Store.Update(a.Dir, change)
	if err != nil {
		return 0, err
	}
	return t.Pipeline.Revision, nil
}

// relative is where the task directory will be, as people type it.
func (a *Acts) relative() string {
	rel, err := filepath.Rel(a.Repo.Main, a.Final)
	if err != nil {
		return a.Final
	}
	return filepath.ToSlash(rel)
}

// KeepRejection moves REJECTED.md of an earlier planning out of the way: REJECTED-1.md, -2, …
func KeepRejection(disk *durable.Disk, dir string) error {
	old := filepath.Join(dir, taskdir.Rejected)
	if _, err := os.Lstat(old); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for n := 1; ; n++ {
		to := filepath.Join(dir, fmt.Sprintf("REJECTED-%d.md", n))
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			return disk.Rename(old, to)
		}
	}
}
