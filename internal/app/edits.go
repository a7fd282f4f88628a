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

// Edits are changes of a task's files by hand, with the checks of `trellis validate` before they count.
type Edits struct{ p *Project }

// Edits are those of the project.
func (p *Project) Edits() Edits { return Edits{p} }

// EditedFiles are the words for the files that a person edits, in the order of their use.
var EditedFiles = []string{"prd", "plan", "task", "implement", "check", "debug"}

// EditedFile is the name of a file of a task by the word for it, or by its name.
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

// Text is what a file of a task says, and what a person begins with: a prd.md that is not there is one to fill in. There
// is none where was is nil.
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

// Check says what would be wrong with a task if a file of it had this text: what is wrong with that file, and what the
// text makes wrong elsewhere.
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

// problems are those of the task in dir, as its files stand in another folder.
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

// copyTo copies what a check looks at: the regular files of a task, without what its runs left.
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

// MayKeep reports whether a text with mistakes may be kept: of a task that is not begun, where no run takes it in.
func (e Edits) MayKeep(dir string) bool {
	t, err := e.p.Store.Load(dir)
	return err != nil || t.Pipeline.BaseCommit == "" && slices.Contains([]trellis.Status{trellis.Planning, trellis.Ready, trellis.Waiting, trellis.Rejected}, t.Status)
}

// Save gives a file of a task its text, where it still says what it said; else the error matches [durable.ErrChanged].
// What a person's command changes counts while an agent is at work too.
func (e Edits) Save(dir, name string, was, text []byte) error {
	edit := func() error { return e.p.Store.Disk.Replace(filepath.Join(dir, name), was, text) }
	return e.p.Gate.RecordEdit(dir, name, func() (before, after []byte, err error) {
		if _, broken := e.p.Store.Load(dir); broken != nil { // nobody runs it, and no update can read it
			return was, text, edit()
		}
		_, err = e.p.Store.Update(dir, func(*taskdir.Task, *taskdir.Edit) error {
			return edited(e.p, dir, edit)
		})
		return was, text, err
	})
}
