// Package planner takes a requirement to a task directory that is ready to run, or to a recorded rejection. This file is the whole
// flow; each phase has a file of the same name: survey, evaluate, research, taskspec, plan, judge, prd, write.
package planner

import (
	"errors"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Code is the version of Run in this binary. A run is finished by the code that began it: version 1 knows evaluate, research and
// prd, 2 evaluates before it asks for anything else, 3 repeats a call with the limits of the first one, and waits for a limit that
// a call made ahead has hit whatever was waited for since, 4 does not mark a cost as partial, and 5 asks as soon as a provider's
// limit is said to be over, however often that was wrong.
const Code = 6

// Flow is the name of this flow in a journal.
const Flow = "plan"

// Input is the input of a planning. The requirement itself is requirement.md of the directory.
type Input struct {
	Code        int           `json:"code"`
	Task        string        `json:"task"` // directory name
	Name        string        `json:"name"`
	DevType     string        `json:"dev_type"`
	ChooseType  bool          `json:"choose_type,omitempty"` // choose DevType by what the research finds, since nobody named one
	Quick       bool          `json:"quick,omitempty"`
	Agent       string        `json:"agent,omitempty"`    // --agent
	Feedback    string        `json:"feedback,omitempty"` // a person's answer to a rejection or a plan
	Package     string        `json:"package,omitempty"`
	Priority    string        `json:"priority,omitempty"` // "": that of the TaskSpec, if it has one
	Base        string        `json:"base,omitempty"`
	Verify      []string      `json:"verify,omitempty"`
	Context     []string      `json:"context,omitempty"`     // --context: paths of the repository
	Background  []string      `json:"background,omitempty"`  // --context: a person's text that helps to understand the requirement
	Constraints []string      `json:"constraints,omitempty"` // --constraint: what must hold whatever is planned
	NoTaskSpec  bool          `json:"no_taskspec,omitempty"`
	Nonce       string        `json:"nonce"`
	Revision    int64         `json:"revision,omitempty"` // highest revision of task.json in earlier runs
	Used        trellis.Usage `json:"used,omitzero"`      // by earlier plannings and runs of the task

	Objective taskdir.Objective `json:"objective,omitzero"` // the step of a roadmap that is planned
}

// Report describes how a planning ended.
type Report struct {
	Status   trellis.Status     `json:"status"` // ready, waiting, rejected
	Verdict  Verdict            `json:"verdict"`
	Calls    int                `json:"calls"`
	Usage    trellis.Usage      `json:"usage"` // includes Input.Used
	Title    string             `json:"title,omitempty"`
	TaskSpec *Spec              `json:"taskspec,omitempty"` // nil: no agent was asked for one
	Judge    *Judgement         `json:"judge,omitempty"`    // nil: no plan was judged
	Steps    int                `json:"steps,omitempty"`    // of plan.json
	Why      []string           `json:"why,omitempty"`      // why it waits for a person
	Retries  []string           `json:"retries,omitempty"`  // why further plans were asked for
	Contexts map[string]int     `json:"contexts,omitempty"` // rows of each context file
	Commands []string           `json:"commands,omitempty"` // deciding commands: a person's, then those found by research
	Warnings []string           `json:"warnings,omitempty"`
	Skipped  []string           `json:"skipped,omitempty"` // what was skipped, and why
	Problems []*trellis.Problem `json:"problems,omitempty"`
}

// Run plans one task. A rejection is a Report, not an error. An error means that the planning failed; the directory then keeps the
// status planning, with the failure in task.json.
func Run(f flow.Flow, in Input) (Report, error) {
	if in.Code > Code {
		return Report{}, flow.Fail(string(trellis.JournalDamaged), "the planning was begun by a newer trellis (code %d, this one has %d)", in.Code, Code)
	}
	p := &planning{in: in, rep: Report{Usage: in.Used}}
	err := p.run(f)
	p.rep.Warnings = agentcall.TruncateList(p.rep.Warnings, maxReportWarnings)
	if p.reusedAnswers > 0 {
		p.skip(fmt.Sprintf("%s: the planning before got an answer to the same question", text.Count(p.reusedAnswers, "call")))
	}
	if fail, ok := errors.AsType[*flow.Failure](err); ok {
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

	reusedAnswers int  // number of answers reused from the previous planning
	paused        bool // the verdict waited for a limit: calls made ahead that hit one ask again how long they have to wait
}

func (p *planning) run(f flow.Flow) (err error) {
	if p.sv, err = survey.Do(f, p.in); err != nil {
		return err
	}
	b, err := p.evaluateAhead(f)
	if err != nil {
		return err
	}
	if p.rep.Verdict.Decision == "reject" {
		p.rep.Status = trellis.Rejected
		_, err := reject.Do(f, rejectIn{p.rep.Verdict, p.rep.Usage})
		return err
	}
	p.rep.Verdict = p.shortVerdict()
	if p.in.Code < 2 || p.in.Quick || p.rep.Verdict.Size == trellis.Tiny {
		return p.takeShortWay(f, b)
	}
	found, err := p.explore(f, b)
	if err != nil {
		return err
	}
	d, err := p.plan(f, found)
	if err != nil {
		return err
	}
	return p.finishDirectory(f, p.writeInput(found, d))
}

// takeShortWay plans work that is too small for a plan of its own, or that a person wants quickly.
func (p *planning) takeShortWay(f flow.Flow, b aheadCalls) error {
	why := "the work is tiny"
	if p.in.Quick {
		why = "--quick"
	}
	p.skip("TaskSpec, plan and judge: " + why)
	t := tally{first: b.research}
	researched, found, err := p.askResearch(f, &t)
	p.addTally(t)
	p.rep.Contexts, p.rep.Commands = found.Contexts, found.Commands
	if err != nil {
		return err
	}
	doc, err := p.document(f, researched)
	if err != nil {
		return err
	}
	return p.finishDirectory(f, writeIn{Findings: found, Document: doc})
}

func (p *planning) skip(what string) { p.rep.Skipped = append(p.rep.Skipped, what) }

// addReason adds a reason why the plan has to wait for a person.
func (p *planning) addReason(why string) { p.rep.Why = append(p.rep.Why, why) }
