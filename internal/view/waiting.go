package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// waitingFor says what a task that stands still waits for, "" when it does not.
func (r Reader) waitingFor(t *taskdir.Task, known map[string]trellis.Status) string {
	p := t.Pipeline
	switch t.Status {
	case trellis.Ready:
		if p.NotBefore.After(r.Now) {
			return "time " + p.NotBefore.UTC().Format(time.RFC3339)
		}
		return r.dependencies(p.DependsOn, known)
	case trellis.Paused:
		if !p.ResumeAt.IsZero() {
			return "time " + p.ResumeAt.UTC().Format(time.RFC3339)
		}
		return "start"
	case trellis.Waiting:
		if open := r.dependencies(p.DependsOn, known); open != "" {
			return open
		}
		if p.Judge != nil && !p.Judge.Pass {
			return "decision: the judge was not satisfied"
		}
		if unmerged := inReview(p.DependsOn, known); len(unmerged) > 1 && !p.Approval.Required {
			return "merge of all but one of " + strings.Join(unmerged, ", ")
		}
		return "approval"
	}
	return ""
}

// inReview are the dependencies that may have to be merged: a task begins on one of them, not on several.
func inReview(ids []string, known map[string]trellis.Status) (list []string) {
	for _, id := range ids {
		if known[id] == trellis.Review {
			list = append(list, id)
		}
	}
	return list
}

// asks says what a task waits for that waits for approval: of a step of its run, or else of the plan. When people have
// decided about the step it is for the run to go on.
func (r Reader) asks(dir string) (step, what string) {
	switch q, asked := asking(dir, r.Now); {
	case q != nil:
		return q.Path, strings.TrimSuffix("approval of step "+q.Path+": "+oneLine(q.Title), ": "+q.Path)
	case asked:
		return "", "start"
	}
	return "", "approval"
}

// dependencies are those that a task still waits for, with where they stand.
func (r Reader) dependencies(ids []string, known map[string]trellis.Status) string {
	var open []string
	for _, id := range ids {
		status, there := known[id]
		if !there || status == trellis.Completed || status == trellis.Review && !r.Merged {
			continue // one that is not there is archived or a problem of its own
		}
		open = append(open, fmt.Sprintf("%s (%s)", id, status))
	}
	if len(open) == 0 {
		return ""
	}
	return "dependency " + strings.Join(open, ", ")
}
