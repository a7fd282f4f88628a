// Package roadmap reads objectives, which are prose with a roadmap of steps, determines which step comes next, and changes
// single cells of a roadmap.
package roadmap

import (
	"errors"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// State is the state of a step according to its row.
type State string

const (
	Pending    State = "pending"
	Planning   State = "planning"
	InProgress State = "in_progress"
	Done       State = "done"
	Blocked    State = "blocked"
	Skipped    State = "skipped"
)

// States lists all states, in the order a step goes through them.
var States = []State{Pending, Planning, InProgress, Done, Blocked, Skipped}

// Cell is the name of a cell that Trellis writes to.
type Cell string

const (
	Status Cell = "Status"
	PR     Cell = "PR"
	Plan   Cell = "Plan" // only in a table that also has a PR column; otherwise PR names the plan
)

// Roadmap is the parsed file of an objective.
type Roadmap struct {
	Name   string
	Title  string // the first heading, without "Objective:"; otherwise the name
	Auto   bool   // auto_advance in the front matter: steps may be planned without a person asking
	Phases []Phase
	Steps  []Step // in the order of the document, which is the order of work

	src      []byte
	yaml     *yamlBlock     // nil: the steps are in tables
	index    map[string]int // index of the first step with an id
	problems []trellis.Problem
}

// Phase is a heading of the roadmap with the steps below it. A roadmap without headings has one phase without a title.
type Phase struct {
	ID    string // 1A of "Phase 1A: Infrastructure"; may be ""
	Title string // the whole heading
	Line  int    // line of the heading; 0 if there is none
	Steps []int  // indexes into Roadmap.Steps
}

// Step is a row of the roadmap.
type Step struct {
	ID          string
	Description string // Markdown, as written
	Phase       string // the title of its phase
	State       State
	Plan        string   // the task directory or issue (#12) that it was planned as; "" if unknown
	PRs         []string // #12, owner/repo#12, or a URL
	DependsOn   []string // ids: those in the row, otherwise the previous step
	Stated      bool     // DependsOn is stated in the row
	Line        int

	status, pr, plan string // the texts of the cells
	source           source
}

// Text returns the text of a cell of the step, without comments; "" also if the step has no such cell.
func (s *Step) Text(c Cell) string {
	switch c {
	case Status:
		return s.status
	case Plan:
		return s.plan
	}
	return s.pr
}

// Linked returns the cell that names the step's plan or pull request.
func (s *Step) Linked() Cell {
	if isEmptyCell(plainText(s.pr)) && !isEmptyCell(plainText(s.plan)) {
		return Plan
	}
	return PR
}

// Link returns the step's plan or pull requests, whichever cell they are in.
func (s *Step) Link() string {
	if s.Linked() == Plan {
		return "plan " + s.Plan
	}
	return s.pr
}

// source is a step's position in the file, through which its cells are changed.
type source interface {
	// format returns a value as it is written into such a cell.
	format(c Cell, value string) string
	// set returns the change that sets a cell to value.
	set(src []byte, c Cell, value string) (change, error)
}

// change replaces the bytes from one offset to another.
type change struct {
	from, to int
	text     string
}

// Step returns the step with that id, which may be spelled as in a cell (Step 1.2), or nil.
func (r *Roadmap) Step(id string) *Step {
	for _, id := range []string{id, stepID(id)} {
		if i, ok := r.index[id]; ok {
			return &r.Steps[i]
		}
	}
	return nil
}

// Parse parses the objective of that name. If the file has errors, the returned error holds a *trellis.Problem for each of
// them, and the roadmap is what could be read. Without an error, ids are unique, all dependencies are known, and there are no
// cycles.
func Parse(name string, src []byte) (*Roadmap, error) {
	r := &Roadmap{Name: name, Title: name, src: src, index: map[string]int{}}
	if p := textProblem(src); p != nil {
		r.problems = append(r.problems, *p)
	} else {
		r.read()
		r.addImplicitDependencies()
		r.findProblems()
	}
	for i := range r.problems {
		r.problems[i].File = File(name)
	}
	return r, r.err()
}

// err returns the problems that are not warnings as one error.
func (r *Roadmap) err() error {
	var all []error
	for _, p := range r.problems {
		if !p.Warning {
			all = append(all, &p)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return problemList(all)
}

// problemList is a list of problems whose message is that of the first. [Problems] returns all of them.
type problemList []error

func (s problemList) Error() string   { return fmt.Sprintf("%v, and %d more", s[0], len(s)-1) }
func (s problemList) Unwrap() []error { return s }

// Problems returns all problems in an error of Parse or Load. It returns nil for other errors.
func Problems(err error) (list []trellis.Problem) {
	var all problemList
	if !errors.As(err, &all) {
		all = problemList{err}
	}
	for _, one := range all {
		if p, ok := errors.AsType[*trellis.Problem](one); ok {
			list = append(list, *p)
		}
	}
	return list
}

// Check returns all errors and warnings about the file, sorted by line. Warnings don't prevent work on it.
func (r *Roadmap) Check() []trellis.Problem { return r.problems }

func (r *Roadmap) errorf(line int, hint, format string, args ...any) {
	r.problems = append(r.problems, trellis.Problem{Line: line, Message: fmt.Sprintf(format, args...), Hint: hint})
}

func (r *Roadmap) warnf(line int, hint, format string, args ...any) {
	r.problems = append(r.problems, trellis.Problem{Line: line, Message: fmt.Sprintf(format, args...), Hint: hint, Warning: true})
}
