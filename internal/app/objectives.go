package app

import (
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Objective is a roadmap with the state of its steps' tasks.
type Objective struct {
	Name     string
	Title    string
	Auto     bool // its steps may be planned without a person asking
	Phases   []ObjectivePhase
	Problems []trellis.Problem
	Next     string // id of the next step; "" if there is none
	Why      string
}

// ObjectivePhase is a heading of a roadmap with the steps below it.
type ObjectivePhase struct {
	Title string
	Steps []ObjectiveStep
}

// ObjectiveStep is a step of a roadmap.
type ObjectiveStep struct {
	ID          string
	Description string // Markdown
	State       roadmap.State
	Task        string         // directory name of its task, set already during planning; "": there is none
	Status      trellis.Status // of that task; "" if unknown
	DependsOn   []string
	Stated      bool // the row states DependsOn, which else follows from the order of the rows
}

// Over reports whether nothing is left to do for the step.
func (s ObjectiveStep) Over() bool { return s.State == roadmap.Done || s.State == roadmap.Skipped }

// Objectives returns the objectives of the project, ordered by name. One that can't be read has only its problems.
func (p *Project) Objectives() ([]Objective, error) {
	names, err := roadmap.Names(p.Root)
	if err != nil {
		return nil, err
	}
	works, err := roadmap.ReadStepTasks(p.Store, false)
	if err != nil {
		return nil, err
	}
	var list []Objective
	for _, name := range names {
		list = append(list, objective(p.Root, name, works))
	}
	return list, nil
}

func objective(root, name string, works *roadmap.StepTasks) Objective {
	r, err := roadmap.Load(root, name)
	if r == nil {
		return Objective{Name: name, Title: name, Problems: []trellis.Problem{{File: roadmap.File(name), Message: err.Error()}}}
	}
	o := Objective{Name: name, Title: r.Title, Auto: r.Auto, Problems: r.Check()}
	if err == nil {
		next := r.Next(works.Tasks(name))
		if o.Why = next.Why; next.Step != nil {
			o.Next = next.Step.ID
		}
	}
	for _, ph := range r.Phases {
		phase := ObjectivePhase{Title: ph.Title}
		for _, i := range ph.Steps {
			phase.Steps = append(phase.Steps, objectiveStep(name, r.Steps[i], works))
		}
		o.Phases = append(o.Phases, phase)
	}
	return o
}

func objectiveStep(objective string, s roadmap.Step, works *roadmap.StepTasks) ObjectiveStep {
	step := ObjectiveStep{ID: s.ID, Description: s.Description, State: s.State, DependsOn: s.DependsOn, Stated: s.Stated}
	if work, ok := works.Of(objective, s.ID); ok {
		step.Task = work.Name()
	}
	if s.Plan != "" {
		status, here := works.Tasks(objective)(s.Plan)
		if step.Status = status; here && step.Task == "" {
			step.Task = s.Plan
		}
	}
	return step
}
