// Package planner takes a requirement to a task directory that is ready to run, or to a recorded
// rejection.
package planner

import (
	"cmp"
	"errors"
	"slices"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Code is the version of Run in this binary. A run is finished by the code that began it: one of version 1
// knows evaluate, research and prd.
const Code = 2

// Flow is the name of this flow in a journal.
const Flow = "plan"

// Input is what a planning begins with. The requirement itself is requirement.md of the directory.
type Input struct {
	Code        int           `json:"code"`
	Task        string        `json:"task"` // directory name
	Name        string        `json:"name"`
	DevType     string        `json:"dev_type"`
	Quick       bool          `json:"quick,omitempty"`
	Agent       string        `json:"agent,omitempty"`    // --agent
	Feedback    string        `json:"feedback,omitempty"` // a person's answer to a rejection or a plan
	Package     string        `json:"package,omitempty"`
	Priority    string        `json:"priority,omitempty"` // "": the TaskSpec may say
	Base        string        `json:"base,omitempty"`
	Verify      []string      `json:"verify,omitempty"`
	Context     []string      `json:"context,omitempty"`     // --context: paths of the repository
	Background  []string      `json:"background,omitempty"`  // --context: what a person says to understand the requirement by
	Constraints []string      `json:"constraints,omitempty"` // --constraint: what must hold whatever is planned
	NoTaskSpec  bool          `json:"no_taskspec,omitempty"`
	Nonce       string        `json:"nonce"`
	Revision    int64         `json:"revision,omitempty"` // highest revision of task.json in earlier runs
	Used        trellis.Usage `json:"used,omitzero"`      // for the task by earlier plannings and runs

	Objective taskdir.Objective `json:"objective,omitzero"` // the step of a roadmap that is planned
}

// Report is how a planning ended.
type Report struct {
	Status   trellis.Status     `json:"status"` // ready, waiting, rejected
	Verdict  Verdict            `json:"verdict"`
	Calls    int                `json:"calls"`
	Usage    trellis.Usage      `json:"usage"` // Input.Used included
	Title    string             `json:"title,omitempty"`
	TaskSpec *Spec              `json:"taskspec,omitempty"` // nil: nobody was asked for one
	Judge    *Judgement         `json:"judge,omitempty"`    // nil: nobody judged
	Steps    int                `json:"steps,omitempty"`    // of plan.json
	Why      []string           `json:"why,omitempty"`      // why it waits for a person
	Retries  []string           `json:"retries,omitempty"`  // why the plan was asked for again
	Contexts map[string]int     `json:"contexts,omitempty"` // rows of each context file
	Commands []string           `json:"commands,omitempty"` // that decide: a person's, then those found by research
	Warnings []string           `json:"warnings,omitempty"`
	Skipped  []string           `json:"skipped,omitempty"` // what was not done, and why
	Problems []*trellis.Problem `json:"problems,omitempty"`
}

// Spec is how asking for the TaskSpec went.
type Spec struct {
	Valid      bool   `json:"valid"`
	Repaired   bool   `json:"repaired,omitempty"`
	Stub       bool   `json:"stub,omitempty"` // it says no more than the requirement
	Goals      int    `json:"goals"`
	Acceptance int    `json:"acceptance"`
	Priority   string `json:"priority"`
}

// Judgement is what the judge came to in the end.
type Judgement struct {
	Pass     bool   `json:"pass"`
	Feedback string `json:"feedback,omitempty"`
	Rounds   int    `json:"rounds"` // plans judged
}

// Verdict is the answer of the evaluate agent.
type Verdict struct {
	Decision    string       `json:"decision"` // accept, reject
	Category    string       `json:"category"`
	Details     string       `json:"details"`
	Suggestions []string     `json:"suggestions"`
	Size        trellis.Size `json:"size"`
	Confidence  float64      `json:"confidence"`
}

// Document is what prd.md is made of: the answer of the prd agent, or a plan.
type Document struct {
	Title           string      `json:"title"`
	Summary         string      `json:"summary"`
	Requirements    []string    `json:"requirements"`
	Acceptance      []Criterion `json:"acceptance"`
	DesignDecisions []string    `json:"design_decisions,omitempty"` // of a plan
	TechnicalNotes  string      `json:"technical_notes"`
	OutOfScope      []string    `json:"out_of_scope"`
}

// Criterion is one way to tell that the work is done.
type Criterion struct {
	Criterion string `json:"criterion"`
	Verify    string `json:"verify,omitempty"` // a command that exits 0 when it is met
	Level     string `json:"level,omitempty"`  // must (default), should
}

// Run plans one task. A rejection is a Report, not an error. An error means that the planner failed; the
// directory then stays in planning with the failure in task.json.
func Run(f flow.Flow, in Input) (Report, error) {
	if in.Code > Code {
		return Report{}, flow.Fail(string(trellis.JournalDamaged), "the planning was begun by a newer trellis (code %d, this one has %d)", in.Code, Code)
	}
	p := &planning{in: in, rep: Report{Usage: in.Used}}
	err := p.run(f)
	p.rep.Warnings = agentcall.Few(p.rep.Warnings, maxWarned)
	if fail := (*flow.Failure)(nil); errors.As(err, &fail) {
		if _, err := giveUp.Do(f, giveUpIn{fail, p.rep.Usage}); err != nil {
			return p.rep, err
		}
	}
	return p.rep, err
}

type planning struct {
	in  Input
	sv  Survey
	rep Report
}

func (p *planning) run(f flow.Flow) (err error) {
	if p.sv, err = survey.Do(f, p.in); err != nil {
		return err
	}
	if err := p.evaluate(f); err != nil {
		return err
	}
	if p.rep.Verdict.Decision == "reject" {
		p.rep.Status = trellis.Rejected
		_, err := reject.Do(f, rejectIn{p.rep.Verdict, p.rep.Usage})
		return err
	}
	p.rep.Verdict = p.understood()
	if p.short() {
		return p.takeShortWay(f)
	}
	found, err := p.explore(f)
	if err != nil {
		return err
	}
	d, err := p.plan(f, found)
	if err != nil {
		return err
	}
	return p.publish(f, p.planned(found, d))
}

// short reports whether the work is too small for a plan of its own, or a person says so.
func (p *planning) short() bool {
	return p.in.Code < 2 || p.in.Quick || p.rep.Verdict.Size == trellis.Tiny
}

func (p *planning) takeShortWay(f flow.Flow) error {
	why := "the work is tiny"
	if p.in.Quick {
		why = "--quick"
	}
	p.skip("TaskSpec, plan and judge: " + why)
	var t tally
	r, err := p.research(f, &t)
	p.take(t)
	if err != nil {
		return err
	}
	doc, err := p.document(f, r.text)
	if err != nil {
		return err
	}
	return p.publish(f, writeIn{Findings: r.found, Document: doc})
}

// tally is what calls used up and said, kept apart while two of them are under way at once.
type tally struct {
	calls    int
	usage    trellis.Usage
	warnings []string
}

func (p *planning) take(t tally) {
	p.rep.Calls += t.calls
	p.rep.Usage = p.rep.Usage.Add(t.usage)
	p.rep.Warnings = append(p.rep.Warnings, t.warnings...)
}

// ask makes one call of a planning role while no other is under way.
func (p *planning) ask(f flow.Flow, role trellis.Role, repairs int, a about) (agentcall.Reply, error) {
	var t tally
	defer func() { p.take(t) }()
	return p.askInto(f, &t, role, repairs, a)
}

// askInto makes one call of a planning role. A TaskSpec is not worth another try.
func (p *planning) askInto(f flow.Flow, t *tally, role trellis.Role, repairs int, a about) (agentcall.Reply, error) {
	a.Input, a.Project = p.in, p.sv.Project
	data, err := agentcall.Encode(a)
	if err != nil {
		return agentcall.Reply{}, err
	}
	limits, err := p.left(t.usage)
	if err != nil {
		return agentcall.Reply{}, err
	}
	again := 2 // a passing failure of the agent program
	if role == trellis.TaskSpec {
		again = 0
	}
	asker := agentcall.Asker{
		Repairs: repairs,
		Again:   func(*flow.Failure) bool { again--; return again >= 0 },
		Used: func(r agentcall.Reply) {
			t.calls++
			t.usage = t.usage.Add(r.Usage)
			t.warnings = append(t.warnings, r.Notes...)
		},
	}
	c, schema := p.sv.Choices[role], string(role)
	if role == trellis.Research {
		schema = "" // markdown
	}
	return asker.Ask(f, agentcall.Request{Role: role, Agent: c.Agent, Model: c.Model, Permission: c.Permission, Dir: p.sv.Dir,
		Schema: schema, Data: data, Limits: limits})
}

// left is what one call may still use up of the task's budgets, or the failure that says that one is gone.
func (p *planning) left(used trellis.Usage) (agentcall.Limits, error) {
	l, u := p.sv.Limits, p.rep.Usage.Add(used)
	if l.Tokens > 0 {
		if l.Tokens -= u.Tokens(); l.Tokens <= 0 {
			return l, flow.Fail(string(trellis.BudgetTokens), "the task used %d tokens of %d", u.Tokens(), p.sv.Limits.Tokens)
		}
	}
	if l.CostUSD > 0 && u.CostUSD != nil {
		if l.CostUSD -= *u.CostUSD; l.CostUSD <= 0 {
			return l, flow.Fail(string(trellis.BudgetCost), "the task cost %.2f USD of %.2f", *u.CostUSD, p.sv.Limits.CostUSD)
		}
	}
	return l, nil
}

func (p *planning) evaluate(f flow.Flow) error {
	reply, err := p.ask(f, trellis.Evaluate, 1, about{})
	if err != nil {
		return err
	}
	p.rep.Verdict, err = agentcall.Decode[Verdict](reply)
	return err
}

// understood is an acceptance as later calls are told it: it takes its part of each of their records.
func (p *planning) understood() Verdict {
	v := p.rep.Verdict
	if p.in.Code > 1 {
		v.Details, v.Suggestions = agentcall.Within(v.Details, 2<<10), agentcall.Few(slices.Clone(v.Suggestions), 4)
	}
	return v
}

func (p *planning) document(f flow.Flow, research *agentcall.Ref) (doc Document, err error) {
	reply, err := p.ask(f, trellis.PRD, 1, about{Verdict: &p.rep.Verdict, Research: research})
	if err != nil {
		return doc, err
	}
	if doc, err = agentcall.Decode[Document](reply); err != nil {
		return doc, err
	}
	p.rep.Title = cmp.Or(title(doc.Title), doc.Title)
	return doc, nil
}

// publish writes the directory, checks it as everyone will, and sets its status.
func (p *planning) publish(f flow.Flow, in writeIn) error {
	if p.sv.Approval {
		p.waits("planning.approval wants a person's approval of every plan")
	}
	if p.rep.Verdict.Size == trellis.Large {
		p.waits("the work is large")
	}
	in.Input, in.Verdict, in.Waits = p.in, Verdict{Size: p.rep.Verdict.Size}, len(p.rep.Why) > 0
	in.Findings.Warnings = nil // the report has them
	w, err := write.Do(f, in)
	if err != nil {
		return err
	}
	p.rep.Warnings = append(p.rep.Warnings, w.Warnings...)
	ok, err := check.Do(f, struct{}{})
	if err != nil {
		return err
	}
	p.rep.Warnings, p.rep.Problems = append(p.rep.Warnings, ok.Dropped...), ok.Problems
	if len(ok.Problems) > 0 {
		return flow.Fail(string(trellis.InvalidTask), "the directory is not ready: %s", ok.Problems[0].Error())
	}
	p.rep.Status = trellis.Ready
	if in.Waits {
		p.rep.Status = trellis.Waiting
	}
	_, err = finish.Do(f, finishIn{p.rep.Status, p.rep.Usage})
	return err
}

func (p *planning) waits(why string) { p.rep.Why = append(p.rep.Why, why) }
