package taskdir

import (
	"encoding/json"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Project sets the status of a task that a run holds. While it does, the journal is the truth and the status
// its projection: what an old buffer of an editor or a git checkout wrote over it is put right, so the move
// is not checked against the table.
func (e *Edit) Project(status trellis.Status) {
	if e.err != nil {
		return
	}
	raw, err := json.Marshal(status)
	if err == nil {
		err = e.set("status", raw)
	}
	if err != nil {
		e.err = fmt.Errorf("projecting the status: %w", err)
	}
}
