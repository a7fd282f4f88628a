package workflow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// finished reports whether an earlier run finished a step, or a round of its loop, as it is now.
func (r *run) finished(path string, s plan.Step, sc scope) bool {
	hash := r.o.Finished[path]
	return hash != "" && hash == r.mark(s, sc)
}

// mark is a hash of all that decides what a step does: its definition, the values that it gets, and the files
// that it calls.
func (r *run) mark(s plan.Step, sc scope) string {
	hash, called := r.b.Plan(sc.place.File).StepHash(s), r.called(sc.place.File, []plan.Step{s}, nil)
	if len(sc.values) == 0 && len(called) == 0 {
		return hash
	}
	raw, err := json.Marshal(struct {
		Step   string
		Values map[string]string
		Called []*plan.Plan
	}{hash, sc.values, called})
	if err != nil {
		panic(fmt.Sprintf("a plan has no JSON form: %v", err)) // it was read from one
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// called are the plans that steps of a file call, at any depth. That no file calls itself was found out when they were read.
func (r *run) called(file string, steps []plan.Step, list []*plan.Plan) []*plan.Plan {
	for _, s := range steps {
		list = r.called(file, s.Steps, list)
		if s.Kind() != plan.Workflow {
			continue
		}
		other := r.b.Called(file, s.Workflow)
		if p := r.b.Plan(other); p != nil {
			list = r.called(other, p.Steps, append(list, p))
		}
	}
	return list
}
