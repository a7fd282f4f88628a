package ready

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// plan checks plan.json, if there is one: whoever wrote it, an agent is going to work by it.
func (c *check) plan() error {
	data, err := durable.ReadBelow(c.Dir, taskdir.Plan, plan.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		c.addUnread(taskdir.Plan, err)
		return nil
	}
	root, err := os.OpenRoot(c.Store.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	bundle, problems := plan.Load(plan.LoadOptions{File: c.file(taskdir.Plan), Task: true, Facts: c.facts(root), Read: func(path string) ([]byte, error) {
		if path == taskdir.Plan {
			return data, nil
		}
		return durable.ReadBelow(c.Store.Root, path, plan.MaxBytes)
	}})
	if bundle != nil {
		c.steps = bundle.Plan("").Steps
	}
	c.hasCriteria = c.hasCriteria || bundle == nil || len(bundle.Plan("").Acceptance) > 0
	for _, wrong := range problems {
		wrong.Hint = cmp.Or(wrong.Hint, "trellis validate "+trellis.ShellWord(c.As))
		c.problems = append(c.problems, wrong)
	}
	return nil
}

// taskSpec checks taskspec.json, if there is one. The file is a hint: its faults are warnings for a task in progress, which
// goes on without a file that can't be read.
func (c *check) taskSpec() {
	data, err := durable.ReadBelow(c.Dir, taskdir.TaskSpec, plan.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		c.addUnread(taskdir.TaskSpec, err)
		return
	}
	for _, wrong := range plan.CheckTaskSpec(c.file(taskdir.TaskSpec), data) {
		wrong.Warning = wrong.Warning || c.Status == trellis.InProgress
		c.problems = append(c.problems, wrong)
	}
}

// facts returns what a plan is checked against here. What other tasks are to bring first can't be checked yet.
func (c *check) facts(root *os.Root) plan.Facts {
	f := plan.Facts{MaxSteps: c.MaxSteps, GlobFault: func(glob string) string { return config.GlobFault(c.Store.Root, glob) }}
	if len(c.task.Pipeline.DependsOn) > 0 {
		return f
	}
	f.Exists = func(path string) (bool, error) {
		_, err := root.Stat(filepath.FromSlash(path))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	if c.LookPath != nil {
		f.Missing = research.Project{Root: c.Store.Root, LookPath: c.LookPath}.Missing
	}
	return f
}
