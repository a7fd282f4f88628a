package planner

import (
	"errors"
	"slices"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// explored is what is known of the work before it is planned.
type explored struct {
	text  *agentcall.Ref // the research as it was given, nil when it was of no use
	found Findings
	spec  *settled // nil: nobody was asked
}

// explore looks at the code base and, at the same time, puts the requirement into a fixed form.
func (p *planning) explore(f flow.Flow) (explored, error) {
	var e explored
	var looked, specified tally
	branches := []flow.Branch{{Name: "research", Run: func(f flow.Flow) (err error) {
		e.text, e.found, err = p.look(f, &looked)
		return err
	}}}
	switch {
	case p.in.NoTaskSpec:
		p.skip("TaskSpec: --no-taskspec")
	case !p.sv.TaskSpec:
		p.skip("TaskSpec: planning.taskspec is false")
	default:
		branches = append(branches, flow.Branch{Name: "taskspec", Run: func(f flow.Flow) (err error) {
			e.spec, err = p.specify(f, &specified)
			return err
		}})
	}
	err := f.All(0, branches...)
	p.take(looked)
	p.take(specified)
	p.rep.Contexts, p.rep.Commands = e.found.Contexts, e.found.Commands
	if e.spec != nil {
		p.rep.TaskSpec = &e.spec.Said
	}
	return e, err
}

// research is look by itself.
func (p *planning) research(f flow.Flow, t *tally) (e explored, err error) {
	e.text, e.found, err = p.look(f, t)
	p.rep.Contexts, p.rep.Commands = e.found.Contexts, e.found.Commands
	return e, err
}

// look looks at the code base. An answer that was given without a look at a repository that has files is
// sent back once, unless it came back before; no usable answer leaves the base entries.
func (p *planning) look(f flow.Flow, t *tally) (*agentcall.Ref, Findings, error) {
	a := about{Verdict: &p.rep.Verdict}
	reply, err := p.askInto(f, t, trellis.Research, 1, a)
	if repaired := t.calls > 1 && p.in.Code > 1; err == nil && reply.ToolCalls == 0 && p.sv.HasFiles {
		if !repaired {
			a.Sent, a.Research = 1, &reply.Text
			reply, err = p.askInto(f, t, trellis.Research, 0, a)
		}
		if err == nil && reply.ToolCalls == 0 {
			t.warn("the research agent looked at no file, also when asked again")
		}
	}
	ref := &reply.Text
	if fail := (*flow.Failure)(nil); errors.As(err, &fail) && useless(fail) {
		t.warn("the research gave nothing usable (" + fail.Error() + "): base context only")
		ref, err = nil, nil
	}
	if err != nil {
		return nil, Findings{}, err
	}
	found, err := digest.Do(f, digestIn{p.in, ref})
	t.warnings = append(t.warnings, found.Warnings...)
	return ref, found, err
}

// useless reports whether the agent ran but gave no answer; other failures end the planning.
func useless(fail *flow.Failure) bool {
	return slices.Contains([]trellis.Code{trellis.AgentProtocol, trellis.EmptyOutput}, trellis.Code(fail.Code))
}

// specify asks for the TaskSpec. It is a hint: whatever goes wrong, a stub takes its place and planning goes on.
func (p *planning) specify(f flow.Flow, t *tally) (*settled, error) {
	reply, err := p.askInto(f, t, trellis.TaskSpec, 1, about{})
	in := settleIn{Answer: reply.Answer, Constraints: p.in.Constraints}
	if fail := (*flow.Failure)(nil); errors.As(err, &fail) {
		t.warn("there is no TaskSpec but a stub (" + fail.Error() + ")")
		in.Answer, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	out, err := settle.Do(f, in)
	out.Said.Repaired = in.Answer != nil && t.calls > 1
	t.warnings = append(t.warnings, out.Warnings...)
	return &out, err
}

func (t *tally) warn(s string) { t.warnings = append(t.warnings, s) }
