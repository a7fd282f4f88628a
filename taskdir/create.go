package taskdir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/sjson"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// New holds the values of a new task. Only Name is required.
type New struct {
	Name              string // trellis.ValidName; trellis.Slug makes one of any title
	Title             string // "": the name
	Description       string
	Status            trellis.Status // "": planning
	DevType           string
	Scope             string
	Package           string
	Priority          string // "": P2
	Creator, Assignee string
	Branch            string
	BaseBranch        string
	Parent            string // only recorded here; AddSubtask links both ways
	Notes             string
	Verify            []string
	DependsOn         []string
	Agent             string
	Size              trellis.Size
	Objective         Objective
	Source            Source
	Approval          Approval
	Created           time.Time         // zero: the time of the Store
	Force             bool              // a taken name gets a suffix: -2, -3, …
	Files             map[string][]byte // further files of the directory, by name
}

// ExistsError tells what uses the name of a new task. It matches ErrExists.
type ExistsError struct {
	ID    string
	Dir   string // the task that has the name
	Draft bool   // it is still being planned, or its planner died
}

func (e *ExistsError) Error() string {
	if e.Draft {
		return fmt.Sprintf("the name %s is being planned in %s", e.ID, e.Dir)
	}
	return fmt.Sprintf("a task %s exists: %s", e.ID, e.Dir)
}

// Is makes errors.Is(err, ErrExists) true.
func (e *ExistsError) Is(target error) bool { return target == ErrExists }

// Create creates a task directory and returns its task. It appears under its name in one step and complete. If a task of the
// same day has the name, archived ones included, the error is an *ExistsError unless n.Force.
func (s Store) Create(n New) (t *Task, err error) {
	c := creator{s}
	if n, err = c.prepare(n); err != nil {
		return nil, err
	}
	err = n.tryNames(func(n New) error {
		t, err = c.createTask(n)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("making task: %w", err)
	}
	if s.Changed != nil {
		s.Changed(nil, t)
	}
	return t, nil
}

// creator creates the directories of new tasks in a store.
type creator struct{ Store }

// createTask creates the directory under a temporary name that nobody reads, and then renames it. So a process that is killed in
// between takes up no name.
func (s creator) createTask(n New) (*Task, error) {
	id := n.ID()
	draft, dir := filepath.Join(s.Tasks(), DraftPrefix+id), filepath.Join(s.Tasks(), id)
	if err := s.checkFree(id); err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp(s.Tasks(), durable.TempPrefix+id+"-")
	if err != nil {
		return nil, err
	}
	if err = errors.Join(os.Chmod(temp, 0o755), s.writeFiles(temp, n)); err == nil {
		if _, draftErr := os.Lstat(draft); draftErr == nil {
			err = &ExistsError{id, draft, true}
		} else if err = s.Disk.Rename(temp, dir); errors.Is(err, fs.ErrExist) {
			err = &ExistsError{id, dir, false}
		}
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(temp))
	}
	return s.Load(dir)
}

// Draft creates the directory of a task that is still to be planned, and returns it. Its name begins with DraftPrefix until
// Publish. Errors are those of Create.
func (s Store) Draft(n New) (dir string, err error) {
	c := creator{s}
	if n, err = c.prepare(n); err != nil {
		return "", err
	}
	err = n.tryNames(func(n New) error {
		if dir, err = c.makeDraft(n); err != nil {
			return err
		}
		if err = c.writeFiles(dir, n); err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("making task: %w", err)
	}
	return dir, nil
}

// prepare checks n, and creates the folder for tasks.
func (s creator) prepare(n New) (New, error) {
	if n.Created.IsZero() {
		n.Created = s.Clock()
	}
	if err := n.check(); err != nil {
		return n, err
	}
	return n, s.MakeFolder()
}

// tryNames calls do with one name after the other until one is free, if n.Force allows more than one.
func (n New) tryNames(do func(New) error) error {
	name := n.Name
	for i := 2; ; i++ {
		if err := do(n); !n.Force || !errors.Is(err, ErrExists) {
			return err
		}
		n.Name = withSuffix(name, i)
	}
}

// ID returns the name of the new directory on the day of Created, without a suffix.
func (n New) ID() string { return n.Created.Format("01-02") + "-" + n.Name }

func (n New) check() error {
	if !trellis.ValidName(n.Name) {
		return fmt.Errorf("the name %q is not legal: small letters and digits with single dashes between them, at most %d", n.Name, trellis.MaxName)
	}
	if day, name := SplitID(n.Name); day != "" {
		return fmt.Errorf("the name %q begins with a date, which Trellis adds by itself: use %q", n.Name, name)
	}
	for name := range n.Files {
		if name != filepath.Base(name) || name == TaskJSON || name == "." || name == ".." {
			return fmt.Errorf("%q can't be a file of a new task", name)
		}
	}
	return nil
}

// withSuffix returns name with -i at its end, within the maximum length of a name.
func withSuffix(name string, i int) string {
	suffix := fmt.Sprintf("-%d", i)
	return strings.TrimRight(name[:min(len(name), trellis.MaxName-len(suffix))], "-") + suffix
}

// makeDraft creates the draft's folder if the name is free. Its mkdir decides between concurrent callers.
func (s creator) makeDraft(n New) (string, error) {
	id := n.ID()
	draft := filepath.Join(s.Tasks(), DraftPrefix+id)
	if err := s.checkFree(id); err != nil {
		return "", err
	}
	err := s.Disk.Mkdir(draft, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return "", &ExistsError{id, draft, true}
	}
	if err != nil {
		return "", err
	}
	if err := s.checkFree(id); err != nil { // published in between
		return "", errors.Join(err, os.Remove(draft))
	}
	return draft, nil
}

// checkFree returns an *ExistsError if a task has the directory name id.
func (s creator) checkFree(id string) error {
	dirs, err := s.archivedDirs(id)
	if err != nil {
		return err
	}
	for _, dir := range append(dirs, filepath.Join(s.Tasks(), id)) {
		if durable.Exists(dir) {
			return &ExistsError{id, dir, false}
		}
	}
	return nil
}

// writeFiles writes the files of a new task, task.json last.
func (s creator) writeFiles(dir string, n New) error {
	for _, name := range slices.Sorted(maps.Keys(n.Files)) {
		if err := s.Disk.WriteFile(filepath.Join(dir, name), n.Files[name], 0o644); err != nil {
			return err
		}
	}
	data, err := render(n)
	if err != nil {
		return err
	}
	return s.Disk.WriteFile(filepath.Join(dir, TaskJSON), data, 0o644)
}

// Publish renames a draft to its final name and returns the task. The error is an *ExistsError if the name was taken meanwhile.
func (s Store) Publish(draft string) (*Task, error) {
	id, ok := strings.CutPrefix(filepath.Base(draft), DraftPrefix)
	if !ok {
		return nil, fmt.Errorf("publishing %s: it is not a draft", draft)
	}
	dir := filepath.Join(filepath.Dir(draft), id)
	err := s.Disk.Rename(draft, dir)
	if errors.Is(err, fs.ErrExist) {
		err = &ExistsError{id, dir, false}
	}
	if err != nil {
		return nil, fmt.Errorf("publishing task: %w", err)
	}
	t, err := s.Load(dir)
	if err == nil && s.Changed != nil {
		s.Changed(nil, t)
	}
	return t, err
}

func render(n New) ([]byte, error) {
	doc := shape
	for path, value := range n.fields() {
		raw, err := encodeFor(path, value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if doc, err = sjson.SetRaw(doc, path, string(raw)); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(doc), "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// fields returns the values of a new task that differ from shape.
func (n New) fields() map[string]any {
	fields := map[string]any{
		"id": n.Name, "name": n.Name, "title": n.Title, "description": n.Description,
		"status": n.Status, "dev_type": n.DevType, "scope": n.Scope, "package": n.Package,
		"priority": n.Priority, "creator": n.Creator, "assignee": n.Assignee,
		"branch": n.Branch, "base_branch": n.BaseBranch, "parent": n.Parent, "notes": n.Notes,
		"pipeline.agent": n.Agent, "pipeline.size": string(n.Size),
		"pipeline.objective.name": n.Objective.Name, "pipeline.objective.step": n.Objective.Step,
	}
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == "" || v == trellis.Status("") })
	if n.Title == "" {
		fields["title"] = n.Name
	}
	if !n.Created.IsZero() {
		fields["createdAt"] = n.Created.Format(time.DateOnly)
	}
	if n.Source != (Source{}) {
		fields["meta.source"] = n.Source
	}
	if n.Approval != (Approval{}) {
		fields["pipeline.approval.required"] = n.Approval.Required
		fields["pipeline.approval.approvers"] = max(n.Approval.Approvers, 1)
	}
	fields["pipeline.verify"] = n.Verify
	fields["pipeline.depends_on"] = n.DependsOn
	return fields
}
