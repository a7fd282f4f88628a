package planner

import (
	"encoding/json"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Roles returns the roles that a planning calls.
func Roles() []trellis.Role {
	return []trellis.Role{trellis.Evaluate, trellis.Research, trellis.TaskSpec, trellis.Plan, trellis.Judge, trellis.PRD}
}

// promptData is the Data of a planning role's request, from which its prompt is made.
type promptData struct {
	Input    Input          `json:"input"`
	Project  agentcall.Ref  `json:"project"`
	Verdict  *Verdict       `json:"verdict,omitempty"`
	Research *agentcall.Ref `json:"research,omitempty"`
	Sent     int            `json:"sent,omitempty"` // how often research was sent back for not reading any file
	Ground   *ground        `json:"ground,omitempty"`
	Plan     *agentcall.Ref `json:"plan,omitempty"`  // judge: the plan to judge; plan: the previous one
	Tries    []rejectedPlan `json:"tries,omitempty"` // why previous plans were sent back
	Round    int            `json:"round,omitempty"`
	Why      string         `json:"why,omitempty"` // why the last plan was sent back, for people
}

// tally is what calls used up and reported, counted separately while several of them run at once.
type tally struct {
	first         *earlyCall // the first call, if it was made ahead and counted already
	earlierCalls  int        // number of previous calls that are counted elsewhere
	calls         int
	reusedAnswers int // number of answers reused from the previous planning
	usage         trellis.Usage
	warnings      []string
	paused        bool // a call waited for a limit to end
}

func (t *tally) warn(s string) { t.warnings = append(t.warnings, s) }

func (t *tally) count(r agentcall.Reply) {
	if r.Known {
		t.reusedAnswers++
	} else {
		t.calls++
	}
	t.usage = t.usage.Add(r.Usage)
	t.warnings = append(t.warnings, r.Notes...)
}

// isRepeated reports whether more than one call was made.
func (t *tally) isRepeated() bool { return t.earlierCalls+t.reusedAnswers+t.calls > 1 }

func (p *planning) addTally(t tally) {
	p.rep.Calls += t.calls
	p.reusedAnswers += t.reusedAnswers
	p.rep.Usage = p.rep.Usage.Add(t.usage)
	if p.in.Code < 5 { // the sums of older versions did not have it
		p.rep.Usage.CostPartial = false
	}
	p.rep.Warnings = append(p.rep.Warnings, t.warnings...)
}

// ask makes one call of a planning role while no other is running.
func (p *planning) ask(f flow.Flow, role trellis.Role, repairs int, a promptData) (agentcall.Reply, error) {
	var t tally
	defer func() { p.addTally(t) }()
	return p.askWithTally(f, &t, role, repairs, a)
}

// askWithTally makes one call of a planning role, or continues one that was made ahead. A TaskSpec is not worth another attempt.
func (p *planning) askWithTally(f flow.Flow, t *tally, role trellis.Role, repairs int, a promptData) (agentcall.Reply, error) {
	r, err := p.request(role, a, t.usage)
	if err != nil {
		return agentcall.Reply{}, err
	}
	again := 2 // retries after a temporary failure of the agent program
	switch {
	case role == trellis.TaskSpec && t.first != nil:
		again = 1 // it may have failed because three programs started at once
	case role == trellis.TaskSpec:
		again = 0
	}
	asker := agentcall.Policy{Repairs: repairs, Again: func(*flow.Failure) bool { again--; return again >= 0 }, Used: t.count,
		Pause: func(flow.Flow, *flow.Failure) error { t.paused = true; return nil }, Eager: p.in.Code < 6}
	if p.in.Code > 3 {
		asker.Left = func() (agentcall.Limits, error) { return p.sv.Limits.Remaining(p.rep.Usage.Add(t.usage)) }
	}
	if first := t.first; first != nil {
		t.first, t.earlierCalls = nil, 1
		if first.err != nil {
			return agentcall.Reply{}, first.err
		}
		if p.paused && first.hitLimit() {
			r.Session = first.reply.Session
		} else {
			asker.Begun = &first.reply
		}
	}
	return asker.Call(f, r)
}

// request returns a call of a planning role within what is left of the budgets. used is usage that is not in the report yet.
func (p *planning) request(role trellis.Role, a promptData, used trellis.Usage) (agentcall.Request, error) {
	a.Input, a.Project = p.in, p.sv.Project
	data, err := agentcall.Encode(a)
	if err != nil {
		return agentcall.Request{}, err
	}
	limits, err := p.sv.Limits.Remaining(p.rep.Usage.Add(used))
	if err != nil {
		return agentcall.Request{}, err
	}
	c, schema := p.sv.Choices[role], string(role)
	if role == trellis.Research {
		schema = "" // markdown
	}
	return agentcall.Request{Role: role, Agent: c.Agent, Model: c.Model, Permission: c.Permission, Dir: p.sv.Dir,
		Schema: schema, Data: data, Limits: limits}, nil
}

// Limits for what a planning records. A record holds 64 KB, and what a person adds to the requirement, at most 40 KB, is in many
// of them.
const (
	maxFaultText      = 3 << 10  // bytes: what is wrong with one plan
	maxAnswer         = 16 << 10 // bytes: an answer that is recorded beside what people say, TaskSpec and prd
	maxCommands       = 3 << 10  // bytes: commands of people and of the research
	maxProtected      = 2 << 10  // bytes: paths that the research says must not be modified
	maxReportWarnings = 30       // number of warnings in a report
	maxWarnings       = 20       // number of warnings of one activity
)

// cutList returns the beginning of a list that takes about n bytes in a record, and how many entries it leaves out.
func cutList(list []string, n int) (kept []string, left int) {
	for i, s := range list {
		raw, err := json.Marshal(s)
		if n -= len(raw) + 1; err != nil || n < 0 {
			return list[:i], len(list) - i
		}
	}
	return list, 0
}
