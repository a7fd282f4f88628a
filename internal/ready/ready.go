// Package ready decides whether a task directory can be run: the one check that planning, starting, watching and `trellis
// validate` share. Its contract is "Ready means" in docs/reference/formats.md.
package ready

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/criteria"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/specs"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Input is a task directory and what to check it for.
type Input struct {
	Store taskdir.Store
	Dir   string    // absolute; may be a draft
	Repo  *git.Repo // nil: the content of the base commit is not checked
	// Begins is the repository in which a task that has not begun would begin: at its base, on its branch. Nil: whether it
	// can is not checked. Adopt says that a person lets it use the existing branch.
	Begins *git.Repo
	Adopt  bool
	As     string         // directory name that it will have; "" for its own
	Status trellis.Status // status that it will have; "" for the one in its task.json
	// MaxSteps is the most steps of a plan.json, 0: any number. LookPath looks for a program that its commands need; nil:
	// commands are not checked.
	MaxSteps int
	LookPath func(program string) error
	// KnowsPackage returns an error for a package that the project does not have; nil: packages are not checked.
	CheckPackage func(name string) error
	// Neighbours keeps what is known about the other tasks from one check to the next; nil: each is read again.
	Neighbours *Neighbours
}

// Check returns what is wrong, errors and warnings in the order of the files. A directory without errors can be run. In planning,
// a missing file is a warning; of a task that is over (review, completed, rejected, cancelled), only task.json is checked. The
// returned error says that the check itself failed: for a directory that does not exist, it matches taskdir.ErrNotFound.
func Check(ctx context.Context, in Input) ([]trellis.Problem, error) {
	if _, err := os.Stat(in.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", taskdir.ErrNotFound, in.Store.Rel(in.Dir))
	}
	t, err := in.Store.Load(in.Dir)
	if p, ok := errors.AsType[*trellis.Problem](err); ok {
		return []trellis.Problem{*p}, nil
	}
	if err != nil {
		return nil, err
	}
	c := &check{Input: in, task: t, problems: slices.Clone(t.Problems)}
	c.As, c.Status = cmp.Or(c.As, t.ID), cmp.Or(c.Status, t.Status)
	switch c.Status {
	case trellis.Review, trellis.Completed, trellis.Rejected, trellis.Cancelled:
		return c.problems, nil
	}
	if err := c.checkBase(ctx); err != nil {
		return nil, err
	}
	c.settings()
	c.documents()
	c.prd()
	if err := c.plan(); err != nil {
		return nil, err
	}
	c.warnNoCriteria()
	c.taskSpec()
	c.approvals()
	if err := c.contexts(ctx); err != nil {
		return nil, err
	}
	owned, err := c.neighbours()
	if err == nil && !owned {
		err = c.checkBranchFree(ctx)
	}
	return c.problems, err
}

// IgnoredWarnings returns the warnings about what somebody wrote and Trellis ignores, or did not mean: in task.json and documents, and
// about files whose names are nearly those of others. They are shown when the work begins, since it may be other work than was meant.
func IgnoredWarnings(problems []trellis.Problem) (list []trellis.Problem) {
	for _, p := range problems {
		name := filepath.Base(p.File)
		written := p.Line > 0 && (name == taskdir.TaskJSON || path.Ext(name) == ".md")
		if p.Warning && (written || contextfiles.LikelyContextFile(name) != "") {
			list = append(list, p)
		}
	}
	return list
}

type check struct {
	Input
	task        *taskdir.Task
	baseCommit  string // commit at which its work would begin, "" if that is not checked
	baseless    bool   // there is no such commit, which is in problems
	problems    []trellis.Problem
	hasText     bool // prd.md says something
	hasCriteria bool // prd.md or plan.json has criteria, or there is a problem with them
	steps       []plan.Step
}

// file returns the path of a file of the directory, as problems name it.
func (c *check) file(name string) string { return c.Store.Rel(filepath.Join(c.Dir, name)) }

func (c *check) add(name, hint, format string, args ...any) *trellis.Problem {
	c.problems = append(c.problems, trellis.Problem{File: c.file(name), Message: fmt.Sprintf(format, args...), Hint: hint})
	return &c.problems[len(c.problems)-1]
}

// addAt is add for a value of task.json, by its keys.
func (c *check) addAt(keys, hint, format string, args ...any) *trellis.Problem {
	p := c.add(taskdir.TaskJSON, hint, format, args...)
	p.Line = c.task.Line(keys)
	return p
}

// addMissing adds a problem for a file that does not exist or is empty: a warning in planning, which has yet to write the file.
func (c *check) addMissing(name, hint, format string, args ...any) *trellis.Problem {
	p := c.add(name, hint, format, args...)
	p.Warning = c.Status == trellis.Planning
	return p
}

// addUnread adds a problem for a file that can't be read.
func (c *check) addUnread(name string, err error) {
	c.problems = append(c.problems, *trellis.UnreadableProblem(c.file(name), err))
}

// documents checks the other files that a run reads: one that can't be read would end the run midway.
func (c *check) documents() {
	for _, name := range []string{taskdir.Requirement, taskdir.Info, taskdir.Design, taskdir.Research,
		taskdir.Approvals, taskdir.Proofs, taskdir.Rejected, taskdir.Report, taskdir.PlanLog} {
		if err := taskdir.CheckFile(c.Dir, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.addUnread(name, err)
		}
	}
	for _, name := range []string{taskdir.Info, taskdir.Design} {
		if data, err := taskdir.ReadFile(c.Dir, name); err == nil && c.checkText(name, data) {
			c.problems = append(c.problems, criteria.Conflicts(c.file(name), data)...)
		}
	}
	if err := durable.RealFolder(filepath.Join(c.Dir, taskdir.Run)); errors.Is(err, fs.ErrNotExist) {
		return
	} else if err != nil {
		c.addUnread(taskdir.Run, err)
		return
	}
	for _, name := range []string{taskdir.RunLock, taskdir.WriteLock, taskdir.Journal} {
		if err := durable.CheckOwn(filepath.Join(c.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.addUnread(name, err)
		}
	}
}

// approvals checks what people decided about the plan and its steps: a rejection that can't be read would not count.
func (c *check) approvals() {
	said, problems, err := proof.Read(c.Dir)
	if err != nil {
		return // documents reports why
	}
	for _, p := range problems {
		p.File = c.file(taskdir.Approvals)
		c.problems = append(c.problems, p)
	}
	for _, a := range said {
		id, _, _ := strings.Cut(a.Step, ".")
		if id != "" && a.Hash == "" && !slices.ContainsFunc(c.steps, func(s plan.Step) bool { return s.ID == id }) {
			p := c.add(taskdir.Approvals, `of the plan itself the step is ""`, "is about a step %s, which plan.json does not have: it decides nothing", a.Step)
			p.Line, p.Warning = a.Line, true
		}
	}
}

// checkText reports whether a document is text that an agent can be shown, and adds a problem if it isn't.
func (c *check) checkText(name string, data []byte) bool {
	if text.Valid(data) {
		return true
	}
	c.add(name, "save it as UTF-8, without NUL bytes", "is not UTF-8 text").Line = 1 + bytes.Count(data[:text.InvalidUTF8(string(data))], []byte("\n"))
	return false
}

func (c *check) prd() {
	hint := "write what is wanted into " + c.file(taskdir.PRD)
	data, err := taskdir.ReadFile(c.Dir, taskdir.PRD)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.addMissing(taskdir.PRD, hint, "there is no prd.md")
	case err != nil:
		c.addUnread(taskdir.PRD, err)
	case !c.checkText(taskdir.PRD, data):
	case blank(data):
		c.addMissing(taskdir.PRD, hint, "is blank")
	default:
		items, problems := criteria.Parse(c.file(taskdir.PRD), data)
		c.problems, c.hasCriteria = append(c.problems, problems...), len(items)+len(problems) > 0
		c.hasText = true
		for _, line := range taskdir.PlaceholderLines(data) {
			c.add(taskdir.PRD, "trellis edit "+trellis.ShellWord(c.As), "is not filled in here: it still has the text of a new one").Line = line
		}
		if size := sizeOf(items); size > criteria.MaxBytes {
			c.add(taskdir.PRD, "shorten them, or split the task", "the %d acceptance criteria are %d bytes long, at most %d are taken", len(items), size, criteria.MaxBytes)
		}
	}
}

// sizeOf returns the size in bytes that criteria have at least, as a run stores them.
func sizeOf(items []criteria.Item) (n int) {
	for _, it := range items {
		n += len(`{"id":"A1","text":""},`) + len(it.Text) + len(it.Verify)
	}
	return n
}

// warnNoCriteria warns of a task whose documents have no acceptance criterion.
func (c *check) warnNoCriteria() {
	if c.hasText && !c.hasCriteria {
		c.add(taskdir.PRD, "write a heading Acceptance Criteria and a list below it", "names no acceptance criteria: the work is judged by one, that prd.md is met").Warning = true
	}
}

// blank reports whether a text has nothing but white space, a byte order mark included.
func blank(data []byte) bool { return strings.Trim(string(data), " \t\r\n\ufeff\u00a0") == "" }

// contexts checks every context file, and that the two that a run needs have rows.
func (c *check) contexts(ctx context.Context) error {
	names, err := taskdir.ContextFiles(c.Dir)
	if err != nil {
		return err
	}
	checker := contextfiles.Checker{Root: c.Store.Root, Git: c.Repo.CommandPrefix(), InBase: c.inBase(ctx)}
	for _, name := range []string{taskdir.ImplementContext, taskdir.CheckContext, taskdir.DebugContext} {
		if slices.Contains(names, name) {
			continue
		}
		if err := taskdir.CheckFile(c.Dir, name); errors.Is(err, fs.ErrNotExist) {
			p := c.addMissing(name, c.fillCommand(name), "there is no %s", name)
			p.Warning = p.Warning || name == taskdir.DebugContext
		} else if err != nil { // a folder
			c.addUnread(name, err)
		}
	}
	for _, name := range names {
		if near := contextfiles.LikelyContextFile(name); near != "" {
			c.add(name, "did you mean: "+near, "no phase reads this").Warning = true
		}
		c.context(checker, name)
	}
	return nil
}

func (c *check) context(checker contextfiles.Checker, name string) {
	data, err := taskdir.ReadFile(c.Dir, name)
	if err != nil {
		c.addUnread(name, err)
		return
	}
	rows, wrong := contextfiles.Parse(c.file(name), data)
	_, found := checker.Check(c.file(name), rows)
	for _, p := range append(wrong, found...) {
		if !slices.Contains(c.problems, p) { // such as one with a page that each phase reads
			c.problems = append(c.problems, p)
		}
	}
	if len(rows)+len(wrong) == 0 && (name == taskdir.ImplementContext || name == taskdir.CheckContext) {
		c.addMissing(name, c.fillCommand(name), "names no file yet")
	}
}

// fillCommand returns the command that fills a context file: with all that tasks of the kind read or, if the project has none of
// that, with what a person knows.
func (c *check) fillCommand(name string) string {
	kind := cmp.Or(c.task.DevType, "fullstack") // fullstack has the guidelines of both sides
	if base, err := specs.Base(c.Store.Root, kind, c.task.Package, nil); err == nil && len(base) == 0 {
		return fmt.Sprintf("trellis task add-context %s %s PATH REASON", trellis.ShellWord(c.As), strings.TrimSuffix(name, ".jsonl"))
	}
	return fmt.Sprintf("trellis task init-context %s %s", trellis.ShellWord(c.As), kind)
}
