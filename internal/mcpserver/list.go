package mcpserver

import (
	"context"
	"fmt"
	"slices"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

type listArguments struct {
	Status   []string `json:"status,omitempty" jsonschema:"only these statuses, such as ready or review"`
	Archived bool     `json:"archived,omitempty"`
	Limit    int      `json:"limit,omitempty" jsonschema:"1 to 100, default 30"`
	Cursor   string   `json:"cursor,omitempty"`
}

type listAnswer struct {
	Note    string       `json:"note"`
	Tasks   []listedTask `json:"tasks"`
	Total   int          `json:"total"`
	Cursor  string       `json:"cursor,omitempty"` // cursor of the next page
	Watcher string       `json:"watcher"`          // whether a watcher starts tasks that are ready
}

type listedTask struct {
	Task    string         `json:"task"`
	Title   string         `json:"title,omitempty"`
	Status  trellis.Status `json:"status"`
	Phase   string         `json:"phase,omitempty"`
	Waits   string         `json:"waiting_for,omitempty"`
	Failure string         `json:"failure,omitempty"`
	Problem string         `json:"problem,omitempty"`
	Works   bool           `json:"works,omitempty"` // a process works on it now
}

func (s *Server) list(_ context.Context, p *app.Project, in listArguments) (any, error) {
	most, err := pageLimit(in.Limit, 30, 100)
	if err != nil {
		return nil, err
	}
	f := status.Filter{Archived: in.Archived}
	if len(in.Status) > len(trellis.Statuses) {
		return nil, app.Usagef("status names %d statuses, and there are %d", len(in.Status), len(trellis.Statuses))
	}
	for _, name := range in.Status {
		one, err := trellis.ParseStatus(brief(name, 40))
		if err != nil {
			return nil, app.AsKind(app.ErrUsage, err)
		}
		f.Statuses = append(f.Statuses, one)
	}
	from := cursor{source: "list"}
	if in.Cursor != "" {
		if from, err = parseCursor(in.Cursor, "task_list"); err != nil {
			return nil, err
		}
	}
	r := p.Reader()
	tasks, err := r.Tasks(f)
	if err != nil {
		return nil, err
	}
	a := listAnswer{Note: dataNote, Tasks: []listedTask{}, Total: len(tasks), Watcher: r.Watcher.String()}
	at := min(from.offset, len(tasks))
	for _, t := range tasks[at:min(at+most, len(tasks))] {
		a.Tasks = append(a.Tasks, newListedTask(t))
	}
	n, err := fittingCount(a.Tasks, most, maxPage)
	if err != nil {
		return nil, err
	}
	a.Tasks = slices.Clip(a.Tasks[:n])
	if at += n; at < len(tasks) {
		a.Cursor = cursor{"list", at}.String()
	}
	return a, nil
}

func newListedTask(t status.Task) listedTask {
	l := listedTask{Task: nameOf(t.Dir), Title: brief(t.Title, 120), Status: t.Status, Phase: t.Phase, Waits: brief(t.WaitingFor, 160), Works: t.HeldBy != nil, Failure: failure(t, 160)}
	if len(t.Problems) > 0 {
		l.Problem = brief(t.Problems[0].Error(), 200)
	}
	return l
}

// failure returns why a task failed, "" if it did not.
func failure(t status.Task, letters int) string {
	if t.Failure.Code == "" {
		return ""
	}
	return brief(fmt.Sprintf("%s: %s", t.Failure.Code, t.Failure.Detail), letters)
}
