// Package roadmap reads objectives, which are prose with a roadmap of steps, says which step comes next,
// and changes single cells of a roadmap.
package roadmap

import (
	"errors"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// State is where a step stands, as its row says.
type State string

const (
	Pending    State = "pending"
	Planning   State = "planning"
	InProgress State = "in_progress"
	Done       State = "done"
	Blocked    State = "blocked"
	Skipped    State = "skipped"
)

// States are all states, in the order a step goes through them.
var States = []State{Pending, Planning, InProgress, Done, Blocked, Skipped}

// Cell names one of the cells of a step that are written to.
type Cell string

const (
	Status Cell = "Status"
	PR     Cell = "PR"
	Plan   Cell = "Plan" // of a table with a PR column too; else the PR cell says the plan
)

// Roadmap is an objective's file as it was read.
type Roadmap struct {
	Name   string
	Title  string // of the first heading, without "Objective:"; else the name
	Auto   bool   // auto_advance in the front matter: steps may be planned without a person's asking
	Phases []Phase
	Steps  []Step // in the order of the document, which is the order of work

	src      []byte
	yaml     *yamlBlock     // nil: the steps stand in tables
	index    map[string]int // of the first step with an id
	problems []trellis.Problem
}

// Phase is a heading of the roadmap with the steps below it. A roadmap without headings has one, without a title.
type Phase struct {
	ID    string // 1A of "Phase 1A: Infrastructure"; may be ""
	Title string // the whole heading
	Line  int    // of the heading; 0 when there is none
	Steps []int  // indexes into Roadmap.Steps
}

// Step is a row of the roadmap.
type Step struct {
	ID          string
	Description string // Markdown, as it was written
	Phase       string // the title of its phase
	State       State
	Plan        string   // the task directory or issue (#12) that it was planned as; "" when none is known
	PRs         []string // #12, owner/repo#12, or an address
	DependsOn   []string // ids: those stated, else the step before it
	Stated      bool     // DependsOn is what the row says
	Line        int

	status, pr, plan string // what the cells say
	where            source
}

// Text is what a cell of the step says now, without comments; "" also when the step has no such cell.
func (s *Step) Text(c Cell) string {
	switch c {
	case Status:
		return s.status
	case Plan:
		return s.plan
	}
	return s.pr
}

// Linked is the cell that says what the step was made into.
func (s *Step) Linked() Cell {
	if dash(plain(s.pr)) && !dash(plain(s.plan)) {
		return Plan
	}
	return PR
}

// Link is what the step says of its plan or its pull requests, whichever cell it is in.
func (s *Step) Link() string {
	if s.Linked() == Plan {
		return "plan " + s.Plan
	}
	return s.pr
}

// source is where a step stands in the file, and how its cells are changed there.
type source interface {
	// spell is a value as such a cell says it.
	spell(c Cell, value string) string
	// set returns the change that makes a cell say value.
	set(src []byte, c Cell, value string) (change, error)
}

// change replaces the bytes from one offset to another.
type change struct {
	from, to int
	text     string
}

// Step is the step with that id, which may be spelled as a cell spells it (Step 1.2), or nil.
func (r *Roadmap) Step(id string) *Step {
	for _, id := range []string{id, stepID(id)} {
		if i, ok := r.index[id]; ok {
			return &r.Steps[i]
		}
	}
	return nil
}

// Parse reads the objective of that name. When the file can't be relied on, the error holds a
// *trellis.Problem for everything that is wrong, and the roadmap is what could be read. Without an error no id
// stands twice, all dependencies are known, and none goes in a circle.
func Parse(name string, src []byte) (*Roadmap, error) {
	r := &Roadmap{Name: name, Title: name, src: src, index: map[string]int{}}
	if p := unreadable(src); p != nil {
		r.problems = append(r.problems, *p)
	} else {
		r.read()
		r.link()
		r.findProblems()
	}
	for i := range r.problems {
		r.problems[i].File = File(name)
	}
	return r, r.err()
}

// err is every problem that is no warning, as one error.
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
	return several(all)
}

// several problems are told by the first of them. [Problems] has them all.
type several []error

func (s several) Error() string   { return fmt.Sprintf("%v, and %d more", s[0], len(s)-1) }
func (s several) Unwrap() []error { return s }

// Problems are what an error of Parse or Load says is wrong with the file, all of it. Another error has none.
func Problems(err error) (list []trellis.Problem) {
	var all several
	if !errors.As(err, &all) {
		all = several{err}
	}
	for _, one := range all {
		if p, ok := errors.AsType[*trellis.Problem](one); ok {
			list = append(list, *p)
		}
	}
	return list
}

// Check is all that is wrong with the file or may be, by line. Warnings keep nobody from working on it.
func (r *Roadmap) Check() []trellis.Problem { return r.problems }

func (r *Roadmap) errorf(line int, hint, format string, args ...any) {
	r.problems = append(r.problems, trellis.Problem{Line: line, Message: fmt.Sprintf(format, args...), Hint: hint})
}

func (r *Roadmap) warnf(line int, hint, format string, args ...any) {
	r.problems = append(r.problems, trellis.Problem{Line: line, Message: fmt.Sprintf(format, args...), Hint: hint, Warning: true})
}
