package workflow

import (
	"maps"
	"slices"
	"strconv"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// frame is a file of a bundle with the values that its steps see.
type frame struct {
	file   string
	values map[string]string
}

// resolveCall returns the file that a step calls, and its plan: nil if there is none, or if the file depends on a round that is
// not known.
func (fr frame) resolveCall(b *plan.Bundle, s plan.Step) (frame, *plan.Plan) {
	file := b.FileKey(fr.file, plan.Fill(s.Workflow, fr.values))
	p := b.Plan(file)
	if p == nil {
		return frame{file: file}, nil
	}
	given := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Vars)) {
		if v := s.Vars[name]; v != nil {
			given[name] = plan.Fill(*v, fr.values)
		}
	}
	return frame{file, values(p.Vars, given)}, p
}

// walk follows a path of steps.
type walk struct {
	b    *plan.Bundle
	in   frame
	step *plan.Step // that was reached; nil: the whole plan
	loop bool       // the number of a round of step comes next
}

func newWalk(b *plan.Bundle) *walk {
	return &walk{b: b, in: frame{values: values(b.Plan("").Vars, b.Given)}}
}

// steps returns the steps within the step that was reached.
func (w *walk) steps() []plan.Step {
	switch {
	case w.step == nil:
		return w.b.Plan("").Steps
	case w.step.Kind() != plan.Workflow:
		return w.step.Steps
	}
	in, p := w.in.resolveCall(w.b, *w.step)
	if p == nil {
		return nil
	}
	w.in = in
	return p.Steps
}

func (w *walk) enter(s *plan.Step) { w.step, w.loop = s, s.Loop() != "" }

// roundCount returns how many rounds the step's loop has, 0 if that is not known since a command finds them.
func (w *walk) roundCount() int {
	if each := w.step.ForEach; each != nil {
		return len(each.Items)
	}
	return w.step.Repeat
}

// enterRound enters a round of the step's loop. Its item is known only if no command finds it.
func (w *walk) enterRound(n int) {
	w.loop = false
	item := strconv.Itoa(n)
	if each := w.step.ForEach; each != nil {
		if n > len(each.Items) {
			return
		}
		item = plan.Fill(each.Items[n-1], w.in.values)
	}
	w.in.values = maps.Clone(w.in.values)
	w.in.values[w.step.Loop()] = item
}
