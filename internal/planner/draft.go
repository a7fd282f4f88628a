package planner

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// How often a plan is asked for again. The two are counted apart.
const (
	maxFaults  = 2 // it could not be read, or the code checks found something
	maxRefused = 2 // the judge said no
)

// Who sends a plan back.
const (
	byChecks = "checks"
	byJudge  = "judge"
)

// plan asks for a plan until the code checks and the judge find nothing wrong with it. Each further try sees
// what all earlier ones were sent back for, and the last of them. A plan that the judge still refuses in the
// end is kept, and a person decides; one that the checks refuse is none.
func (p *planning) plan(f flow.Flow, e explored) (Draft, error) {
	a := p.brief(e)
	a.Plan = p.sv.Previous
	for faults, refused := 0, 0; ; {
		a.Round++
		reply, err := p.ask(f, trellis.Plan, 0, a)
		if wrong := unusable(reply, err); wrong != nil {
			if faults++; faults > maxFaults {
				return Draft{}, err
			}
			a = p.back(a, byChecks, fmt.Sprintf("%d of %d", faults, maxFaults), wrong, &reply.Text)
			continue
		}
		if err != nil {
			return Draft{}, err
		}
		d, err := draft.Do(f, draftIn{reply.Answer, *a.Ground})
		if err != nil {
			return d, err
		}
		if err := p.judge(f, e, d); err != nil {
			return d, err
		}
		if p.rep.Judge == nil || p.rep.Judge.Pass {
			return d, nil
		}
		if refused++; refused > maxRefused {
			p.waits(fmt.Sprintf("the judge refused it %d times: %s", refused, oneLine(p.rep.Judge.Feedback)))
			return d, nil
		}
		a = p.back(a, byJudge, fmt.Sprintf("%d of %d", refused, maxRefused), []string{p.rep.Judge.Feedback}, &d.Plan)
	}
}

// brief is what plan and judge are told of what was found out. A stub says no more than the requirement, which they
// are told anyway.
func (p *planning) brief(e explored) about {
	g := &ground{Commands: e.found.Commands, Protected: e.found.Protected}
	if e.spec != nil && !e.spec.Said.Stub {
		g.TaskSpec = &e.spec.Spec
	}
	return about{Verdict: &p.rep.Verdict, Research: e.text, Ground: g}
}

// unusable says why an answer is no plan, nil when it is one or when asking again would not mend it.
func unusable(r agentcall.Reply, err error) []string {
	switch fail := (*flow.Failure)(nil); {
	case !errors.As(err, &fail):
		return nil
	case r.Failure == nil && len(r.Problems) > 0:
		return r.Problems
	case fail.Code == string(trellis.EmptyOutput):
		return []string{"/: there was no answer"}
	}
	return nil
}

// back sends a plan back.
func (p *planning) back(a about, by, count string, said []string, before *agentcall.Ref) about {
	var kept []string
	for _, s := range said {
		kept = append(kept, agentcall.Within(s, maxSaid-100))
	}
	kept, left := part(kept, maxSaid)
	if left > 0 {
		kept = append(slices.Clip(kept), fmt.Sprintf("and %d more", left))
	}
	a.Tries = append(a.Tries, try{by, kept})
	a.Plan = before
	a.Why = agentcall.Within(fmt.Sprintf("%s, %s: %s", by, count, oneLine(first(kept))), 400)
	p.rep.Retries = append(p.rep.Retries, a.Why)
	return a
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// Opinion is the answer of the judge agent.
type Opinion struct {
	Pass     bool            `json:"pass"`
	Feedback string          `json:"feedback"`
	Criteria map[string]bool `json:"criteria"`
}

// judge has a plan judged. Nobody who can't answer passes it.
func (p *planning) judge(f flow.Flow, e explored, d Draft) error {
	if !p.sv.Judge {
		p.skip("judge: planning.judge is false")
		return nil
	}
	a := p.brief(e)
	a.Plan = &d.Plan
	if p.rep.Judge != nil {
		a.Round = p.rep.Judge.Rounds
	}
	a.Round++
	reply, err := p.ask(f, trellis.Judge, 1, a)
	if err != nil {
		return err
	}
	o, err := agentcall.Decode[Opinion](reply)
	p.rep.Judge = &Judgement{Pass: o.Pass, Feedback: agentcall.Within(o.Feedback, maxSaid), Rounds: a.Round}
	return err
}

// planned is what is written of a plan.
func (p *planning) planned(e explored, d Draft) writeIn {
	p.rep.Title, p.rep.Steps = d.Title, d.Steps
	p.rep.Warnings = append(p.rep.Warnings, d.Warnings...)
	if len(d.Guarded) > 0 {
		p.waits(agentcall.Within("it changes what the project protects: "+strings.Join(d.Guarded, ", "), maxGuards))
	}
	in := writeIn{Findings: e.found, Plan: &d.Plan, Research: e.text, Judge: p.rep.Judge}
	if e.spec != nil {
		in.TaskSpec = &e.spec.Spec
		in.Priority = e.spec.Said.Priority
	}
	return in
}

func (p *planning) skip(what string) { p.rep.Skipped = append(p.rep.Skipped, what) }
