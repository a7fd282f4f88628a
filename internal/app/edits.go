package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Edits changes a task's files by hand, after the checks of `trellis validate`.
type Edits struct{ p *Project }

// Edits returns the edits of the project.
func (p *Project) Edits() Edits { return Edits{p} }

// EditedFiles are the short names of the files that a person edits, in the order of their use.
var EditedFiles = []string{"prd", "plan", "task", "implement", "check", "debug"}

// EditedFile returns the name of a task's file, given its short name or the name itself.
func EditedFile(word string) (string, error) {
	names := map[string]string{"prd": taskdir.PRD, "plan": taskdir.Plan, "task": taskdir.TaskJSON, "implement": taskdir.ImplementContext,
		"check": taskdir.CheckContext, "debug": taskdir.DebugContext}
	for w, name := range names {
		if word == w || word == name {
			return name, nil
		}
	}
	return "", WithNearest(Usagef("%q is not a file of a task that can be edited (one of %s)", word, strings.Join(EditedFiles, ", ")), word, EditedFiles)
}

// Text returns the content of a task's file and the text that an editor begins with, which for a missing prd.md is a blank one
// to fill in. was is nil if the file does not exist.
func (e Edits) Text(dir, name string) (was, text []byte, err error) {
	if filepath.Dir(dir) != e.p.Store.Tasks() {
		return nil, nil, Usagef("%s is archived, and an archive keeps what it has", filepath.Base(dir))
	}
	was, err = taskdir.ReadFile(dir, name)
	switch {
	case err == nil:
		return append([]byte{}, was...), was, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, nil, err
	case name == taskdir.PRD:
		t, err := e.p.Store.Load(dir)
		if err != nil {
			return nil, nil, err
		}
		return nil, taskdir.BlankPRD(t.Title, t.Description), nil
	}
	return nil, nil, nil
}

// Check returns the problems that a task would have if one of its files had this text: those in that file, and those that the
// text causes elsewhere.
func (e Edits) Check(ctx context.Context, dir, name string, text []byte) ([]trellis.Problem, error) {
	before, err := e.problems(ctx, dir, dir)
	if err != nil {
		return nil, err
	}
	runtime, err := e.p.RuntimeDir()
	if err != nil {
		return nil, err
	}
	shadow, err := os.MkdirTemp(runtime, "edit-")
	if err != nil {
		return nil, fmt.Errorf("checking %s: %w", name, err)
	}
	defer os.RemoveAll(shadow)
	if err := e.copyTo(dir, shadow); err != nil {
		return nil, err
	}
	if err := e.p.Store.Disk.WriteFile(filepath.Join(shadow, name), text, 0o600); err != nil {
		return nil, err
	}
	after, err := e.problems(ctx, shadow, dir)
	if err != nil {
		return nil, err
	}
	file := e.p.Store.Rel(filepath.Join(dir, name))
	return slices.DeleteFunc(after, func(now trellis.Problem) bool {
		return now.File != file && slices.ContainsFunc(before, func(was trellis.Problem) bool { return was.File == now.File && was.Message == now.Message })
	}), nil
}

// problems returns the problems of the task in dir, with its files read from the folder in.
func (e Edits) problems(ctx context.Context, in, dir string) ([]trellis.Problem, error) {
	input := e.p.Readiness(dir)
	input.Dir, input.As = in, filepath.Base(dir)
	list, err := ready.Check(ctx, input)
	for i := range list {
		if rest, inside := strings.CutPrefix(list[i].File, e.p.Store.Rel(in)+"/"); inside {
			list[i].File = e.p.Store.Rel(dir) + "/" + rest
		}
		list[i].Hint = strings.ReplaceAll(list[i].Hint, e.p.Store.Rel(in), e.p.Store.Rel(dir))
	}
	return list, err
}

// copyTo copies the files that a check reads: the regular files of a task, except those of its runs.
func (e Edits) copyTo(dir, to string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(dir, path)
		switch err = errors.Join(err, relErr); {
		case err != nil:
			return fmt.Errorf("looking at %s: %w", e.p.Store.Rel(dir), err)
		case rel == taskdir.Run:
			return fs.SkipDir
		case d.IsDir():
			return e.p.Store.Disk.MkdirAll(filepath.Join(to, rel), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := durable.ReadBelow(dir, rel, durable.MaxRecords)
		if err != nil {
			return err
		}
		return e.p.Store.Disk.WriteFile(filepath.Join(to, rel), data, 0o600)
	})
}

// MaySaveInvalid reports whether a text with mistakes may be saved, as no run reads it: the task has not begun, or can't be loaded.
func (e Edits) MaySaveInvalid(dir string) bool {
	t, err := e.p.Store.Load(dir)
	return err != nil || t.Pipeline.BaseCommit == "" && slices.Contains([]trellis.Status{trellis.Planning, trellis.Ready, trellis.Waiting, trellis.Rejected}, t.Status)
}

// Save writes text to a file of a task if the file still contains was; otherwise the error matches [durable.ErrChanged]. A
// change by a person's command also counts while an agent is at work.
func (e Edits) Save(dir, name string, was, text []byte) error {
	edit := func() error { return e.p.Store.Disk.Replace(filepath.Join(dir, name), was, text) }
	return e.p.Gate.RecordEdit(dir, name, func() (before, after []byte, err error) {
		if _, broken := e.p.Store.Load(dir); broken != nil { // nobody runs such a task, and Update can't read it
			return was, text, edit()
		}
		_, err = e.p.Store.Update(dir, func(*taskdir.Task, *taskdir.Edit) error {
			return editTaskFile(e.p, dir, edit)
		})
		return was, text, err
	})
}
