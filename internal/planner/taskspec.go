package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// TaskSpec: one agent puts the requirement into a fixed form, at the same time as the research. The result is a hint: whatever
// goes wrong, a stub replaces it.

const settle flow.Act[settleIn, settled] = "settle" // writes the TaskSpec

type settleIn struct {
	Answer      json.RawMessage `json:"answer,omitempty"` // none: make a stub from the requirement
	Constraints []string        `json:"constraints,omitempty"`
}

type settled struct {
	Spec agentcall.Ref `json:"spec"` // taskspec.json
	Said Spec          `json:"said"`

	Warnings []string `json:"warnings,omitempty"`
}

// Spec describes how asking for the TaskSpec went.
type Spec struct {
	Valid      bool   `json:"valid"`
	Repaired   bool   `json:"repaired,omitempty"`
	Stub       bool   `json:"stub,omitempty"` // the TaskSpec says no more than the requirement
	Goals      int    `json:"goals"`
	Acceptance int    `json:"acceptance"`
	Priority   string `json:"priority"`
}

// specify asks for the TaskSpec. It is a hint: whatever goes wrong, a stub replaces it and planning goes on.
func (p *planning) specify(f flow.Flow, t *tally) (*settled, error) {
	reply, err := p.askWithTally(f, t, trellis.TaskSpec, 1, promptData{})
	in := settleIn{Answer: reply.Answer, Constraints: p.in.Constraints}
	if fail, ok := errors.AsType[*flow.Failure](err); ok {
		t.warn("there is no TaskSpec but a stub (" + fail.Error() + ")")
		in.Answer, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	out, err := settle.Do(f, in)
	out.Said.Repaired = in.Answer != nil && t.isRepeated()
	t.warnings = append(t.warnings, out.Warnings...)
	return &out, err
}

type specifier struct{ record }

// maxConstraints is the maximum number of constraints in a TaskSpec.
const maxConstraints = 12

// settle keeps the TaskSpec, or a stub made from the requirement. Constraints that a person gave are in it in any case.
func (s specifier) settle(_ context.Context, c flow.Call, in settleIn) (out settled, err error) {
	var spec plan.TaskSpec
	if out.Said.Stub = in.Answer == nil; out.Said.Stub {
		requirement, err := s.requirement()
		if err != nil {
			return out, err
		}
		spec = plan.MinimalTaskSpec(agentcall.Truncate(string(requirement), plan.MaxBytes/2)) // a larger one could not be read
	} else {
		s, problems := plan.ParseTaskSpec(in.Answer)
		if s == nil {
			return out, fmt.Errorf("reading the TaskSpec: %v", problems)
		}
		spec = *s
	}
	all := append([]string{}, in.Constraints...)
	for _, constraint := range spec.Constraints {
		switch {
		case slices.Contains(all, constraint):
		case len(all) < maxConstraints:
			all = append(all, constraint)
		default:
			out.Warnings = append(out.Warnings, fmt.Sprintf("taskspec.json has no room for its constraint %q in addition to those that were given", constraint))
		}
	}
	spec.Constraints, out.Warnings = all, agentcall.TruncateList(out.Warnings, maxWarnings)
	out.Said.Valid, out.Said.Goals, out.Said.Acceptance, out.Said.Priority = !out.Said.Stub, len(spec.Goals), len(spec.Acceptance), spec.Priority
	doc, err := text.Indented(spec)
	if err == nil {
		out.Spec, err = s.keep(c, taskdir.TaskSpec, doc)
	}
	return out, err
}

// answerFaults returns what is wrong with an answer: that it is too large to be recorded beside what people say, and for a
// TaskSpec what keeps it from being read.
func answerFaults(role trellis.Role, answer json.RawMessage) (wrong []string) {
	if n := agentcall.RecordSize(answer); n > maxAnswer {
		return []string{agentcall.TooLong(n, maxAnswer)}
	}
	if role == trellis.TaskSpec {
		_, wrong = plan.ParseTaskSpec(answer)
	}
	return wrong
}
