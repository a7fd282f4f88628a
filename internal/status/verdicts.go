package status

import (
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Verdicts are what the last run of the task in a directory that came to judge found of its criteria, by their texts.
func Verdicts(dir string) map[string]pipeline.CriterionResult {
	found := map[string]pipeline.CriterionResult{}
	if r := lastReport(dir); r != nil {
		for _, c := range r.Criteria {
			found[c.Text] = c
		}
	}
	return found
}

// defining are the files that say what the checks do, and that the last run of a task changed, by its report.
func defining(dir string) []string {
	if r := lastReport(dir); r != nil {
		return r.Checks.Defining
	}
	return nil
}

// lastReport is that of the last run of the task in a directory that has one, nil without. A journal that can't be read
// has none: whoever works on the task says so.
func lastReport(dir string) *pipeline.Report {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil {
		return nil
	}
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return nil
	}
	return p.Report
}
