package subject

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/text"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/criteria"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Task returns the subject of the task in dir, a path from the root of a checkout: .trellis/tasks/11-22-name.
func Task(root, dir string) (trust.Subject, error) {
	dir = filepath.ToSlash(dir)
	s := trust.Subject{Name: strings.TrimPrefix(path.Base(dir), taskdir.DraftPrefix)}
	whole := filepath.Join(root, filepath.FromSlash(dir))
	context, err := taskdir.ContextFiles(whole)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	for _, name := range slices.Concat(documents, rejectionFiles(whole), context) {
		s.Files = append(s.Files, path.Join(dir, name))
	}
	for _, file := range slices.Concat(calledFiles(root, whole), shownFiles(root, whole, context)) {
		if !slices.Contains(s.Files, file) {
			s.Files = append(s.Files, file)
		}
	}
	s.Read = func(file string, data []byte) ([]trust.Item, []string) { return readTask(dir, file, data), nil }
	return s, nil
}

// documents are the files of a task that say what is to be done, besides its context files.
var documents = []string{taskdir.TaskJSON, taskdir.Requirement, taskdir.PRD, taskdir.Plan, taskdir.TaskSpec, taskdir.Info, taskdir.Design, taskdir.Research}

// rejectionFiles returns the files with the reasons of earlier rejections of the task, which a planning with feedback is told.
func rejectionFiles(dir string) (names []string) {
	for n := 1; ; n++ {
		name := fmt.Sprintf("REJECTED-%d.md", n)
		if taskdir.CheckFile(dir, name) != nil {
			return names
		}
		names = append(names, name)
	}
}

// calledFiles returns the files of the checkout whose steps the plan calls, found as a run finds them.
func calledFiles(root, dir string) (files []string) {
	plan.Load(plan.LoadOptions{File: taskdir.Plan, Task: true, Read: func(file string) ([]byte, error) {
		if file == taskdir.Plan {
			return taskdir.ReadFile(dir, file)
		}
		if filepath.IsLocal(filepath.FromSlash(file)) {
			files = append(files, file)
		}
		return durable.ReadBelow(root, file, plan.MaxBytes)
	}})
	return files
}

// shownFiles returns the files below .trellis of the checkout that agents are shown according to the rows of context files.
func shownFiles(root, dir string, context []string) (files []string) {
	for _, name := range context {
		data, err := taskdir.ReadFile(dir, name)
		if err != nil {
			continue // reading it for an agent reports the error
		}
		rows, _ := contextfiles.Parse(name, data)
		files = append(files, contextfiles.ProjectFiles(root, rows)...)
	}
	return files
}

func readTask(dir, file string, data []byte) []trust.Item {
	name := path.Base(file)
	switch {
	case len(data) == 0:
		return nil
	case path.Dir(file) != dir:
		return fromOutside(file, data)
	case name == taskdir.TaskJSON:
		return fromTaskJSON(file, data)
	case name == taskdir.PRD:
		return fromPRD(file, data)
	case name == taskdir.Plan:
		return fromPlan(file, data, true)
	case path.Ext(name) == ".jsonl":
		return fromContext(file, data)
	}
	return wholeFile(trust.Requirement, file, data)
}

// ContextFiles returns the subject of files that tasks may have agents be shown, by their paths from the root of the checkout.
func ContextFiles(files ...string) trust.Subject {
	return trust.Subject{Name: trust.Settings, Files: files, Read: func(file string, data []byte) ([]trust.Item, []string) {
		if len(data) == 0 {
			return nil, nil
		}
		return fromOutside(file, data), nil
	}}
}

// fromOutside reads a file from outside the task's directory: steps that its plan calls, or what agents are shown.
func fromOutside(file string, data []byte) (items []trust.Item) {
	if slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(file)) {
		items = fromPlan(file, data, false)
	}
	return append(items, trust.Item{Kind: trust.Context, Text: file + " " + trust.Digest(data), File: file})
}

// fromTaskJSON leaves out what Trellis itself writes there during a run.
func fromTaskJSON(file string, data []byte) (items []trust.Item) {
	t, err := taskdir.Parse(file, data)
	if err != nil {
		return nil // and a task with an invalid task.json is not run
	}
	for _, command := range t.Pipeline.Verify {
		add(&items, trust.Verify, file, lineOf(data, command), "", command)
	}
	for _, glob := range t.Pipeline.Protected {
		add(&items, trust.Setting, file, lineOf(data, glob), "may change", glob)
	}
	add(&items, trust.Base, file, lineOf(data, t.BaseBranch), "base", t.BaseBranch)
	add(&items, trust.Agent, file, 0, "agent", t.Pipeline.Agent)
	add(&items, trust.Requirement, file, 0, "title", t.Title)
	add(&items, trust.Requirement, file, 0, "description", t.Description)
	return append(items, startItems(file, t)...)
}

// startItems returns the items that say whether and when a task may run: one for its status, as far as Trellis does not change
// that during a run, and one with everything that makes the task wait.
func startItems(file string, t *taskdir.Task) (items []trust.Item) {
	if slices.Contains([]trellis.Status{trellis.Ready, trellis.InProgress, trellis.Waiting, trellis.Paused}, t.Status) {
		add(&items, trust.Start, file, t.Line("status"), "", "it is ready to run")
	}
	var waits []string
	for _, on := range slices.Sorted(slices.Values(t.Pipeline.DependsOn)) {
		waits = append(waits, "after "+on)
	}
	if at := t.Pipeline.NotBefore; !at.IsZero() {
		waits = append(waits, "not before "+at.UTC().Format(time.RFC3339))
	}
	if a := t.Pipeline.Approval; a.Required || a.Approvers > 1 {
		waits = append(waits, fmt.Sprintf("approved by %d, required %t", a.Approvers, a.Required))
	}
	add(&items, trust.Start, file, 0, "start", cmp.Or(strings.Join(waits, ", "), "at once"))
	return items
}

func fromPRD(file string, data []byte) (items []trust.Item) {
	items = wholeFile(trust.Requirement, file, data)
	list, _ := criteria.Parse(file, data)
	for _, c := range list {
		add(&items, trust.Criterion, file, c.Line, "", c.Verify)
	}
	return items
}

// fromContext returns an item for each row, so that a row that Trellis adds does not make the others foreign.
func fromContext(file string, data []byte) (items []trust.Item) {
	rows, _ := contextfiles.Parse(file, data)
	for _, r := range rows {
		add(&items, trust.Context, file, r.Line, path.Base(file), strings.TrimSpace(r.Path+" "+r.Reason))
	}
	return items
}

// fromPlan reads plan.json or, without main, a file of steps that one of its steps calls.
func fromPlan(file string, data []byte, main bool) (items []trust.Item) {
	p, _ := plan.Read(file, data, main)
	if p == nil {
		if !main {
			items = wholeFile(trust.Step, file, data)
		}
		return items
	}
	for _, c := range p.Preconditions {
		if c.Command == "" {
			add(&items, trust.Prompt, file, 0, "precondition", c.Text)
		} else {
			add(&items, trust.Condition, file, lineOf(data, c.Command), "", c.Command)
		}
	}
	for _, c := range p.Acceptance {
		add(&items, trust.Criterion, file, lineOf(data, c.Verify), "", c.Verify)
	}
	for _, command := range p.Rollback {
		add(&items, trust.Rollback, file, lineOf(data, command), "", command)
	}
	items = addSteps(file, data, p.Steps, items)
	add(&items, trust.Requirement, file, 0, path.Base(file), trust.Digest(asJSON(p))) // the order of its steps, and what was left out
	if len(p.Vars) > 0 {
		add(&items, trust.Step, file, 0, "values that are put into commands", string(asJSON(p.Vars)))
	}
	return items
}

// addSteps adds an item for each step: what it does in the first line, and below that everything that it says.
func addSteps(file string, data []byte, list []plan.Step, items []trust.Item) []trust.Item {
	for _, s := range list {
		inner := s.Steps
		s.Steps = nil
		kind, text := headline(s)
		add(&items, kind, file, lineOf(data, s.ID), "", text+"\n"+string(asJSON(s)))
		items = addSteps(file, data, inner, items)
	}
	return items
}

// headline returns what a step does. A step without a command is read by an agent alone.
func headline(s plan.Step) (trust.Kind, string) {
	var commands []string
	for _, c := range []string{s.Command, s.Verify} {
		if c != "" {
			commands = append(commands, c)
		}
	}
	if s.ForEach != nil && s.ForEach.Command != "" {
		commands = append(commands, s.ForEach.Command)
	}
	if s.Workflow != "" {
		commands = append(commands, "the steps of "+s.Workflow)
	}
	if len(commands) > 0 {
		return trust.Step, "step " + s.ID + ": " + strings.Join(commands, " ; ")
	}
	return trust.Prompt, "step " + s.ID + ": " + text.OneLine(s.Title+" "+s.Prompt+s.Message+s.Description)
}

func asJSON(v any) []byte {
	raw, err := text.JSON(v)
	if err != nil {
		return []byte(err.Error()) // nothing else says so
	}
	return raw
}
