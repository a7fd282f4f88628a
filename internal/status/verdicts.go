package status

import (
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Verdict is what the last run of a task found of a criterion.
type Verdict struct {
	ID       string
	Text     string
	Verdict  string // met, unmet, unknown
	Evidence string
	Proven   bool // by its command
}

// Verdicts are those of the last run of the task in a directory that came to judge, in the order of the criteria. A journal
// that can't be read has none: whoever works on the task says so.
func Verdicts(dir string) (list []Verdict) {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil {
		return nil
	}
	p, err := pipeline.ReadProgress(h)
	if err != nil || p.Report == nil {
		return nil
	}
	for _, c := range p.Report.Criteria {
		list = append(list, Verdict{ID: c.ID, Text: c.Text, Verdict: c.Verdict, Evidence: c.Evidence, Proven: c.Proven})
	}
	return list
}
