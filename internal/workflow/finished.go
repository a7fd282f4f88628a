package workflow

import (
	"encoding/json"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/plan"
)

// finishedBefore reports whether an earlier run finished a step, or a round of its loop, in its current form.
func (r *run) finishedBefore(path string, s plan.Step, sc scope) bool {
	hash := r.o.Finished[path]
	return hash != "" && hash == r.fullStepHash(s, sc)
}

// StepsFinished returns how many top-level steps of a bundle's plan are finished, and how many a run with these options does.
func StepsFinished(b *plan.Bundle, o Options) (done, of int) {
	r, p := &run{b: b, o: o}, b.Plan("")
	sc := scope{values: values(p.Vars, b.Given)}
	for i, s := range p.Steps {
		if o.Verified && r.isVerification(i) {
			continue
		}
		if of++; r.finishedBefore(s.ID, s, sc) {
			done++
		}
	}
	return done, of
}

// fullStepHash returns a hash of all that determines what a step does: its definition, the values that it gets, and the files
// that it calls. An approval is of the whole plan: after an edit people are asked again.
func (r *run) fullStepHash(s plan.Step, sc scope) string {
	hash, called := r.b.Plan(sc.place.File).StepHash(s), r.calledPlans(frame{sc.place.File, sc.values}, []plan.Step{s}, nil)
	raw, err := json.Marshal(struct {
		Step   string
		Values map[string]string
		Called []any
	}{hash, sc.values, called})
	if err != nil {
		panic(fmt.Sprintf("a plan has no JSON form: %v", err)) // it was read from JSON
	}
	return agentcall.SHA256Hex(raw)[:32]
}

// calledPlans returns the plans that steps of a file call, at any depth, and for a call that is not known yet, or an approval,
// the hash of the bundle. No file calls itself, as was checked when they were read.
func (r *run) calledPlans(in frame, steps []plan.Step, list []any) []any {
	for _, s := range steps {
		list = r.calledPlans(in, s.Steps, list)
		if s.Kind() == plan.Approval {
			list = append(list, r.b.Hash)
		}
		if s.Kind() != plan.Workflow {
			continue
		}
		other, p := in.resolveCall(r.b, s)
		if p == nil {
			list = append(list, r.b.Hash)
			continue
		}
		list = r.calledPlans(other, p.Steps, append(list, p))
	}
	return list
}
