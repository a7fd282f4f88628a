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

// noteFile lies in the run folder of a task, which git does not see.
const noteFile = "objective.json"

// Note is what was written into a roadmap for a task. By it, what people wrote is told from what Trellis did. The zero
// value is nothing.
type Note struct {
	Linked  bool   `json:"linked"`           // the step's cell named the task; noted once it did
	Blocked bool   `json:"blocked"`          // its Status was set to blocked; noted before it was
	Before  string `json:"before,omitempty"` // what that Status was until then
	Issue   int    `json:"issue,omitempty"`  // that holds the plan
}

// ReadNote is what is noted in a task's directory. One that can't be read is none: then nothing that is in the roadmap
// is taken for ours.
func ReadNote(dir string) (n Note) {
	data, err := durable.ReadBelow(dir, filepath.Join(taskdir.Run, noteFile), durable.MaxDocument)
	if err != nil || json.Unmarshal(data, &n) != nil {
		return Note{}
	}
	return n
}

func keepNote(s taskdir.Store, dir string, n Note) error {
	if ReadNote(dir) == n {
		return nil
	}
	run, err := s.RunDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the task is gone
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
