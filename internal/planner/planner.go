// Package planner takes a requirement to a task directory that is ready to run, or to a recorded
// rejection. This file is flow code; effects stand in acts*.go.
package planner

import (
	"errors"
	"slices"

	"github.com/trellis-tasks/trellis/internal/ask"
	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
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
	Constraints []string      `json:"constraints,omitempty"` // --constraint: what must hold whatever is planned
	NoTaskSpec  bool          `json:"no_taskspec,omitempty"`
	Nonce       string        `json:"nonce"`
	Revision    int64         `json:"revision,omitempty"` // highest revision of task.json in earlier runs
	Used        trellis.Usage `json:"used,omitzero"`      // for the task by earlier plannings and runs
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
	Commands []string           `json:"commands,omitempty"` // verify commands found by research
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

// Document is the answer of the prd agent.
type Document struct {
	Title          string      `json:"title"`
	Summary        string      `json:"summary"`
	Requirements   []string    `json:"requirements"`
	Acceptance     []Criterion `json:"acceptance"`
	TechnicalNotes string      `json:"technical_notes"`
	OutOfScope     []string    `json:"out_of_scope"`
}

// Criterion is one way to tell that the work is done.
type Criterion struct {
	Criterion string `json:"criterion"`
	Verify    string `json:"verify,omitempty"` // a command that exits 0 when it is met
	Level     string `json:"level,omitempty"`  // must (default), should
}

// The activities of a planning, besides the calls of its roles.
const (
	survey flow.Act[Input, Survey]      = "survey"
	reject flow.Act[rejectIn, int64]    = "reject"
	digest flow.Act[digestIn, Findings] = "digest"
	write  flow.Act[writeIn, written]   = "write"
	check  flow.Act[struct{}, checked]  = "ready"
	finish flow.Act[finishIn, int64]    = "finish"
	giveUp flow.Act[giveUpIn, int64]    = "give-up"
)

type (
	// Survey is what is known before the first call.
	Survey struct {
		Project  ask.Ref                     `json:"project"` // what the project is, for prompts
		Choices  map[trellis.Role]ask.Choice `json:"choices"`
		Limits   ask.Limits                  `json:"limits"`
		Approval bool                        `json:"approval"` // every plan waits for a person
		Dir      string                      `json:"dir"`      // main checkout
		HasFiles bool                        `json:"has_files"`
	}
	// Findings is what the research came to, checked against the repository.
	Findings struct {
		Scope     string         `json:"scope,omitempty"`
		Commands  []string       `json:"commands,omitempty"`
		Protected []string       `json:"protected,omitempty"`
		Warnings  []string       `json:"warnings,omitempty"`
		Contexts  map[string]int `json:"contexts"`
		NewArea   bool           `json:"new_area,omitempty"` // nothing usable was found
	}
	rejectIn struct {
		Verdict Verdict       `json:"verdict"`
		Usage   trellis.Usage `json:"usage"`
	}
	digestIn struct {
		Input    Input    `json:"input"`
		Research *ask.Ref `json:"research,omitempty"`
	}
	writeIn struct {
		Input    Input    `json:"input"`
		Verdict  Verdict  `json:"verdict"`
		Findings Findings `json:"findings"`
		Document Document `json:"document"`
		Waits    bool     `json:"waits"`
	}
	written struct {
		Warnings []string `json:"warnings,omitempty"`
	}
	checked struct {
		Problems []*trellis.Problem `json:"problems,omitempty"`
		Dropped  []string           `json:"dropped,omitempty"`
	}
	finishIn struct {
		Status trellis.Status `json:"status"`
		Usage  trellis.Usage  `json:"usage"`
	}
	giveUpIn struct {
		Failure *flow.Failure `json:"failure"`
		Usage   trellis.Usage `json:"usage"`
	}
	// about is the Data of a planning role's request: what its prompt is made of.
	about struct {
		Input    Input    `json:"input"`
		Project  ask.Ref  `json:"project"`
		Verdict  *Verdict `json:"verdict,omitempty"`
		Research *ask.Ref `json:"research,omitempty"`
		Sent     int      `json:"sent,omitempty"` // how often research was sent back for want of a look
	}
)

// Run plans one task. A rejection is a Report, not an error. An error means that the planner failed; the
// directory then stays in planning with the failure in task.json.
func Run(f flow.Flow, in Input) (Report, error) {
	if in.Code > Code {
		return Report{}, flow.Fail(string(trellis.JournalDamaged), "the planning was begun by a newer trellis (code %d, this one has %d)", in.Code, Code)
	}
	p := &planning{in: in, rep: Report{Usage: in.Used}}
	err := p.run(f)
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
	// TaskSpec belongs beside research, for every size above tiny: f.All of the two.
	research, findings, err := p.research(f)
	if err != nil {
		return err
	}
	// plan ⇄ judge belong here for every size above tiny; the way of tiny is prd.
	doc, err := p.document(f, research)
	if err != nil {
		return err
	}
	return p.publish(f, findings, doc)
}

// ask makes one call of a planning role.
func (p *planning) ask(f flow.Flow, role trellis.Role, schema string, repairs int, a about) (ask.Reply, error) {
	a.Input, a.Project = p.in, p.sv.Project
	data, err := ask.Encode(a)
	if err != nil {
		return ask.Reply{}, err
	}
	limits, err := p.left()
	if err != nil {
		return ask.Reply{}, err
	}
	c := p.sv.Choices[role]
	again := 2 // a passing failure of the agent program
	asker := ask.Asker{
		Repairs: repairs,
		Again:   func(*flow.Failure) bool { again--; return again >= 0 },
		Used: func(r ask.Reply) {
			p.rep.Calls++
			p.rep.Usage = p.rep.Usage.Add(r.Usage)
			p.rep.Warnings = append(p.rep.Warnings, r.Notes...)
		},
	}
	return asker.Ask(f, ask.Request{Role: role, Agent: c.Agent, Model: c.Model, Permission: c.Permission, Dir: p.sv.Dir,
		Schema: schema, Data: data, Limits: limits})
}

// left is what one call may still use up of the task's budgets, or the failure that says that one is gone.
func (p *planning) left() (ask.Limits, error) {
	l, u := p.sv.Limits, p.rep.Usage
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
	reply, err := p.ask(f, trellis.Evaluate, "evaluate", 1, about{})
	if err != nil {
		return err
	}
	p.rep.Verdict, err = ask.Decode[Verdict](reply)
	return err
}

// research looks at the code base. An answer that was given without a look at a repository that has
// files is sent back once; no usable answer leaves the base entries.
func (p *planning) research(f flow.Flow) (*ask.Ref, Findings, error) {
	a := about{Verdict: &p.rep.Verdict}
	reply, err := p.ask(f, trellis.Research, "", 1, a)
	if err == nil && reply.ToolCalls == 0 && p.sv.HasFiles {
		a.Sent, a.Research = 1, &reply.Text
		if reply, err = p.ask(f, trellis.Research, "", 0, a); err == nil && reply.ToolCalls == 0 {
			p.warn("the research agent looked at no file, also when asked again")
		}
	}
	ref := &reply.Text
	if fail := (*flow.Failure)(nil); errors.As(err, &fail) && useless(fail) {
		p.warn("the research gave nothing usable (" + fail.Error() + "): base context only")
		ref, err = nil, nil
	}
	if err != nil {
		return nil, Findings{}, err
	}
	found, err := digest.Do(f, digestIn{p.in, ref})
	p.rep.Warnings = append(p.rep.Warnings, found.Warnings...)
	p.rep.Contexts, p.rep.Commands = found.Contexts, found.Commands
	return ref, found, err
}

// useless reports whether the agent ran but gave no answer; other failures end the planning.
func useless(fail *flow.Failure) bool {
	return slices.Contains([]trellis.Code{trellis.AgentProtocol, trellis.EmptyOutput}, trellis.Code(fail.Code))
}

func (p *planning) document(f flow.Flow, research *ask.Ref) (doc Document, err error) {
	reply, err := p.ask(f, trellis.PRD, "prd", 1, about{Verdict: &p.rep.Verdict, Research: research})
	if err != nil {
		return doc, err
	}
	if doc, err = ask.Decode[Document](reply); err != nil {
		return doc, err
	}
	p.rep.Title = doc.Title
	return doc, nil
}

// publish writes the directory, checks it as everyone will, and sets its status.
func (p *planning) publish(f flow.Flow, found Findings, doc Document) error {
	waits := p.sv.Approval || p.rep.Verdict.Size == trellis.Large
	w, err := write.Do(f, writeIn{p.in, p.rep.Verdict, found, doc, waits})
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
	if waits {
		p.rep.Status = trellis.Waiting
	}
	p.rep.Skipped = []string{"TaskSpec, plan and judge: every size takes the short way for now"}
	_, err = finish.Do(f, finishIn{p.rep.Status, p.rep.Usage})
	return err
}

func (p *planning) warn(s string) { p.rep.Warnings = append(p.rep.Warnings, s) }
