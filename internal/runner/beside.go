package runner

import (
	"fmt"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// touches are the globs of what a task changes, as task.json says or else its plan.
func (s Assessor) Touches(t *taskdir.Task) []string {
	if len(t.Pipeline.Touches) > 0 {
		return t.Pipeline.Touches
	}
	p, err := pipeline.ReadPlan(s.Store, t.Dir)
	if err != nil || p == nil {
		return nil // what is wrong with it is said when the task is checked
	}
	return p.Touches
}

func SameFiles(dir, glob string) string {
	return fmt.Sprintf("%s, which changes the same files (%s)", filepath.Base(dir), glob)
}

// others says which task that runs changes the same files as one that a person starts, "" when none does.
func (s Assessor) others(t *taskdir.Task) string {
	own := s.Touches(t)
	if len(own) == 0 {
		return ""
	}
	entries, err := s.Store.List()
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if e.Task == nil || e.Dir == t.Dir || e.Task.Status != trellis.InProgress {
			continue
		}
		if glob, both := ready.Overlap(own, s.Touches(e.Task)); both && IsHeld(e.Dir) {
			return SameFiles(e.Dir, glob)
		}
	}
	return ""
}
