package runner

import (
	"errors"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// mailbox returns a function that reads people's messages to a run from the files of its task, which commands and people edit.
func (s TaskRunner) mailbox(dir string) func(*journal.Run) []journal.Message {
	var missing time.Time // since when task.json is missing
	return func(j *journal.Run) []journal.Message {
		t, err := s.Store.Load(dir)
		switch {
		case !errors.Is(err, taskdir.ErrNotFound):
			missing = time.Time{}
		case missing.IsZero():
			missing = time.Now()
		case time.Since(missing) > pipeline.Saving:
			return []journal.Message{{Suspend: ErrVanished}}
		}
		if err != nil {
			return nil // half-written by hand: it is read again, and the next phase reports what is wrong
		}
		switch {
		case t.Status == trellis.Cancelled:
			return []journal.Message{{ID: "cancel", Cancel: true}}
		case pipeline.Stopped(t):
			return []journal.Message{{Suspend: ErrStopped}}
		}
		return s.Approvals().messagesForWaits(dir, j)
	}
}
