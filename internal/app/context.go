package app

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// ChangeContext changes a context file under the task's write lock, so that two concurrent changes are both kept. If a person
// saves the file meanwhile, change is called again. A change by a person's command also counts while an agent is at work.
func (p *Project) ChangeContext(dir, name string, change func([]byte) ([]byte, error)) error {
	return p.Gate.RecordEdit(dir, name, func() (before, after []byte, err error) {
		_, err = p.Store.Update(dir, func(*taskdir.Task, *taskdir.Edit) error {
			return editTaskFile(p, dir, func() error {
				return p.Store.Disk.Edit(filepath.Join(dir, name), func(data []byte) (_ []byte, err error) {
					before = slices.Clone(data)
					after, err = change(data)
					if wrong, ok := errors.AsType[*trellis.Problem](err); ok { // a problem in the data that change was given
						wrong.File = p.Store.Rel(filepath.Join(dir, name))
					}
					return after, err
				})
			})
		})
		return before, after, err
	})
}

// editTaskFile changes a file of a task. A change by a person's command also counts while an agent is at work.
func editTaskFile(p *Project, dir string, edit func() error) error {
	if p.Env.InsideRun() {
		return edit()
	}
	return pipeline.DoRecorded(p.Store, dir, edit)
}
