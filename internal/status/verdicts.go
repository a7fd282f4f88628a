package status

import (
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Verdicts returns what the last run of the task in a directory that judged found for each criterion, by its text.
func Verdicts(dir string) map[string]pipeline.CriterionResult {
	found := map[string]pipeline.CriterionResult{}
	if r := lastReport(dir); r != nil {
		for _, c := range r.Criteria {
			found[c.Text] = c
		}
	}
	return found
}

// changedCheckFiles returns the files that define the checks and that the last run of a task changed, by its report.
func changedCheckFiles(dir string) []string {
	if r := lastReport(dir); r != nil {
		return r.Checks.Defining
	}
	return nil
}

// lastReport returns the report of the last run in a directory that has one, or nil. For a journal
// that can't be read it returns nil too: the process that works on the task reports that.
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
