package roadmap

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/taskdir"
)

// noteFile is in the run folder of a task, which git ignores.
const noteFile = "objective.json"

// Note records what was written into a roadmap for a task, to distinguish what Trellis wrote from what people wrote. The zero
// value means nothing.
type Note struct {
	Linked  bool   `json:"linked"`           // the step's cell named the task; noted after it was written
	Blocked bool   `json:"blocked"`          // its Status was set to blocked; noted before it was written
	Before  string `json:"before,omitempty"` // the previous Status
	Issue   int    `json:"issue,omitempty"`  // number of the issue that holds the plan
}

// ReadNote returns the note in a task's directory. One that can't be read counts as the zero value: then nothing in the roadmap
// is taken to be written by Trellis.
func ReadNote(dir string) (n Note) {
	data, err := durable.ReadBelow(dir, filepath.Join(taskdir.Run, noteFile), durable.MaxDocument)
	if err != nil || json.Unmarshal(data, &n) != nil {
		return Note{}
	}
	return n
}

func writeNote(s taskdir.Store, dir string, n Note) error {
	if ReadNote(dir) == n {
		return nil
	}
	run, err := s.RunDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the task was removed
	}
	if err != nil {
		return fmt.Errorf("noting what is in the roadmap: %w", err)
	}
	data, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("noting what is in the roadmap: %w", err)
	}
	return s.Disk.WriteFile(filepath.Join(run, noteFile), append(data, '\n'), 0o600)
}
