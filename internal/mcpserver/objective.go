package mcpserver

import (
	"context"
	"slices"

	"github.com/trellis-tasks/trellis/internal/app"
)

type objectiveArguments struct {
	Objective string `json:"objective,omitempty" jsonschema:"only this objective, with its open steps"`
	Cursor    string `json:"cursor,omitempty"`
}

type objectiveAnswer struct {
	Note       string      `json:"note"`
	Objectives []objective `json:"objectives"`
	Cursor     string      `json:"cursor,omitempty"`
}

// objective is the progress of a roadmap.
type objective struct {
	Name    string          `json:"objective"`
	Title   string          `json:"title,omitempty"`
	Done    int             `json:"done"`
	Total   int             `json:"total"`
	Next    *objectiveStep  `json:"next,omitempty"`
	Why     string          `json:"why,omitempty"`
	Problem string          `json:"problem,omitempty"`
	Open    []objectiveStep `json:"open,omitempty"`
	More    int             `json:"more_open,omitempty"`
}

type objectiveStep struct {
	Step  string   `json:"step"`
	Says  string   `json:"says,omitempty"`
	State string   `json:"state"`
	Task  string   `json:"task,omitempty"`
	On    []string `json:"depends_on,omitempty"`
}

// shownSteps is how many open steps of an objective are shown.
const shownSteps = 25

func (s *Server) objectives(_ context.Context, p *app.Project, in objectiveArguments) (any, error) {
	all, err := p.Objectives()
	if err != nil {
		return nil, err
	}
	if in.Objective != "" {
		i := slices.IndexFunc(all, func(o app.Objective) bool { return o.Name == in.Objective })
		if i < 0 {
			return nil, app.WithHints(app.AsKind(app.ErrNotFound, app.Usagef("there is no objective %q", brief(in.Objective, 60))), "objective_next {}")
		}
		one, err := newObjective(all[i], true)
		return objectiveAnswer{Note: dataNote, Objectives: []objective{one}}, err
	}
	from := cursor{source: "objectives"}
	if in.Cursor != "" {
		if from, err = parseCursor(in.Cursor, "objective_next"); err != nil {
			return nil, err
		}
	}
	at := min(from.offset, len(all))
	a := objectiveAnswer{Note: dataNote, Objectives: []objective{}}
	for _, o := range all[at:min(at+shownSteps, len(all))] {
		one, err := newObjective(o, false)
		if err != nil {
			return nil, err
		}
		a.Objectives = append(a.Objectives, one)
	}
	n, err := fittingCount(a.Objectives, shownSteps, maxPage)
	if err != nil {
		return nil, err
	}
	a.Objectives = a.Objectives[:n]
	if at += n; at < len(all) {
		a.Cursor = cursor{"objectives", at}.String()
	}
	return a, nil
}

func newObjective(o app.Objective, steps bool) (objective, error) {
	one := objective{Name: brief(o.Name, 100), Title: brief(o.Title, 150), Why: brief(o.Why, 300)}
	if len(o.Problems) > 0 {
		one.Problem = brief(o.Problems[0].Error(), 300)
	}
	for _, ph := range o.Phases {
		for _, step := range ph.Steps {
			one.Total++
			shown := objectiveStep{brief(step.ID, 60), brief(step.Description, 200), string(step.State), brief(step.Task, 100), briefs(step.DependsOn, 10, 60)}
			switch {
			case step.Over():
				one.Done++
			case steps:
				one.Open = append(one.Open, shown)
			}
			if step.ID == o.Next && o.Next != "" {
				one.Next = &shown
			}
		}
	}
	n, err := fittingCount(one.Open, shownSteps, maxPage/2)
	if err == nil {
		one.Open, one.More = one.Open[:n], len(one.Open)-n
	}
	return one, err
}
