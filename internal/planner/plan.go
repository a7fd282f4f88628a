package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Plan: one agent plans, until the checks of this file and the judge find nothing wrong.

const draft flow.Act[draftIn, Draft] = "draft" // returns a plan in which the code checks found no fault

// Draft is a plan that passed the code checks.
type Draft struct {
	Plan     agentcall.Ref `json:"plan"` // in the form of plan.json
	Title    string        `json:"title"`
	Steps    int           `json:"steps"`
	Warnings []string      `json:"warnings,omitempty"`
	Guarded  []string      `json:"guarded,omitempty"` // protected paths that it says it changes
}

type draftIn struct {
	Answer json.RawMessage `json:"answer"`
	Ground ground          `json:"ground"`
}

// ground is what a plan is checked against.
type ground struct {
	TaskSpec  *agentcall.Ref `json:"taskspec,omitempty"`
	Commands  []string       `json:"commands"` // confirmed by the research, in order
	Protected []string       `json:"protected,omitempty"`
}

// rejectedPlan is a plan that was sent back.
type rejectedPlan struct {
	By   string   `json:"by"`
	Said []string `json:"said"`
}

// How often another plan is asked for. The two are counted separately.
const (
	maxFaults  = 2 // the plan could not be read, or the code checks found faults
	maxRefused = 2 // the judge refused the plan
)

// Who sends a plan back.
const (
	byChecks = "checks"
	byJudge  = "judge"
)

// plan asks for a plan until the code checks and the judge find nothing wrong with it. The code checks don't run here, but on each
// answer: agentcall.Policy.Call has prompts.check call drafter.faults, and the faults come back as the problems of the reply. Each
// further try gets the reasons for which all previous plans were sent back, and the last of these plans. If the judge refuses the
// last plan too, it is kept, and a person decides; if the checks do, there is no plan.
func (p *planning) plan(f flow.Flow, e exploration) (Draft, error) {
	a := p.planPromptData(e)
	a.Plan = p.sv.Previous
	for faults, refused := 0, 0; ; {
		a.Round++
		reply, err := p.ask(f, trellis.Plan, 0, a)
		if wrong := answerProblems(reply, err); wrong != nil {
			if faults++; faults > maxFaults {
				return Draft{}, err
			}
			a = p.sendBack(a, byChecks, fmt.Sprintf("%d of %d", faults, maxFaults), wrong, &reply.Text)
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
			p.addReason(fmt.Sprintf("the judge refused it %d times: %s", refused, text.OneLine(p.rep.Judge.Feedback)))
			return d, nil
		}
		a = p.sendBack(a, byJudge, fmt.Sprintf("%d of %d", refused, maxRefused), []string{p.rep.Judge.Feedback}, &d.Plan)
	}
}

// planPromptData returns what plan and judge get of the findings. A stub says no more than the requirement, which they get anyway.
func (p *planning) planPromptData(e exploration) promptData {
	g := &ground{Commands: e.findings.Commands, Protected: e.findings.Protected}
	if e.taskSpec != nil && !e.taskSpec.Said.Stub {
		g.TaskSpec = &e.taskSpec.Spec
	}
	return promptData{Verdict: &p.rep.Verdict, Research: e.research, Ground: g}
}

// answerProblems says why an answer is not a plan. It returns nil if it is one, or if asking again would not help.
func answerProblems(r agentcall.Reply, err error) []string {
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

func (p *planning) sendBack(a promptData, by, count string, reasons []string, before *agentcall.Ref) promptData {
	var kept []string
	for _, s := range reasons {
		kept = append(kept, agentcall.Truncate(s, maxFaultText-100))
	}
	kept, left := cutList(kept, maxFaultText)
	if left > 0 {
		kept = append(slices.Clip(kept), fmt.Sprintf("and %d more", left))
	}
	a.Tries = append(a.Tries, rejectedPlan{by, kept})
	a.Plan = before
	a.Why = agentcall.Truncate(fmt.Sprintf("%s, %s: %s", by, count, text.OneLine(strings.Join(kept[:min(1, len(kept))], ""))), 400)
	p.rep.Retries = append(p.rep.Retries, a.Why)
	return a
}

// drafter checks plans, and keeps those without faults.
type drafter struct {
	files
	checkout
	config *config.Config
}

// facts returns what a plan is checked against in this project.
func (dr drafter) facts(g ground) (plan.Facts, error) {
	f := plan.Facts{MaxSteps: dr.config.Planning.MaxSteps, Exists: dr.exists, GlobFault: dr.globFault, Missing: dr.missing, Confirmed: &g.Commands}
	if g.TaskSpec == nil {
		return f, nil
	}
	text, err := dr.read(*g.TaskSpec)
	if err != nil {
		return f, err
	}
	var problems []string
	if f.Spec, problems = plan.ParseTaskSpec([]byte(text)); f.Spec == nil {
		return f, fmt.Errorf("reading the TaskSpec: %v", problems)
	}
	return f, nil
}

// faults returns what is wrong with the answer of a plan agent.
func (dr drafter) faults(g ground, answer json.RawMessage) []string {
	f, err := dr.facts(g)
	if err != nil {
		return []string{"/: " + err.Error()}
	}
	p, problems := plan.Parse(answer)
	if p != nil {
		problems = append(problems, p.Check(f)...)
		if len(p.Requirements) == 0 {
			problems = append(problems, plan.Problem{Pointer: "/requirements", Message: "name at least one: they become prd.md"})
		}
		if text.OneLine(p.Summary) == "" {
			problems = append(problems, plan.Problem{Pointer: "/summary", Message: "say in a paragraph what is done, for whom and why: it becomes prd.md"})
		}
	}
	var wrong []string
	for _, p := range problems {
		if !p.Warning {
			wrong = append(wrong, p.ForModel())
		}
	}
	return wrong
}

// convertTascer converts a plan that is in the format of tascer.
func (dr drafter) convertTascer(r agentcall.Request, answer json.RawMessage) (json.RawMessage, []string) {
	var d promptData
	if json.Unmarshal(r.Data, &d) != nil || d.Ground == nil {
		return answer, nil
	}
	f, err := dr.facts(*d.Ground)
	if err != nil {
		return answer, nil // the check reports the error
	}
	ours, passed, adopted := plan.ConvertTascer(answer, f)
	if !adopted {
		return answer, nil
	}
	notes := []string{"the plan came in the form of tascer: it is taken over as a plan.json"}
	for _, p := range passed {
		notes = append(notes, "tascer: "+p.ForModel())
	}
	return ours, notes
}

// draft keeps a plan in which the checks found no fault, in the form of plan.json.
func (dr drafter) draft(_ context.Context, c flow.Call, in draftIn) (d Draft, err error) {
	text, err := plan.Format(in.Answer)
	if err != nil {
		return d, err
	}
	facts, err := dr.facts(in.Ground)
	if err != nil {
		return d, err
	}
	p, problems := plan.Parse(text)
	if p == nil {
		return d, flow.Fail(string(trellis.Internal), "plan.json can't be read any more: %s", problems[0].ForModel())
	}
	for _, p := range append(problems, p.Check(facts)...) {
		d.Warnings = append(d.Warnings, taskdir.Plan+": "+p.ForModel())
	}
	d.Warnings = agentcall.TruncateList(d.Warnings, maxWarnings)
	d.Title, d.Steps = title(p.Title), len(p.Steps)
	d.Guarded = p.Protected(func(path string) bool {
		return config.Protects(append(slices.Clone(dr.config.Protected), in.Ground.Protected...), path)
	})
	d.Plan, err = dr.keep(c, taskdir.Plan, text)
	return d, err
}

func (s *slotBuilder) addPlan(d promptData) {
	s.addFile("research", d.Research)
	s.addFile("previous", d.Plan)
	s.addContextFiles(d.Input.Context)
	s.values["specs"], s.values["max_steps"] = s.specIndex(), strconv.Itoa(s.config.Planning.MaxSteps)
	s.addGround(d.Ground)
	s.values["problems"], s.values["verdicts"] = sentBackReasons(d.Tries, byChecks), sentBackReasons(d.Tries, byJudge)
}

// sentBackReasons lists why plans were sent back, round by round.
func sentBackReasons(tries []rejectedPlan, by string) string {
	var b strings.Builder
	for i, t := range tries {
		if t.By == by {
			fmt.Fprintf(&b, "Plan %d:\n", i+1)
			bullets(&b, t.Said)
		}
	}
	return b.String()
}
