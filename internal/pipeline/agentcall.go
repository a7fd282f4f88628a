package pipeline

import (
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// about is the Data of a request: what the prompt of a phase is made of.
type about struct {
	Job      Job      `json:"job"`
	Content  Content  `json:"content"`
	Baseline []string `json:"baseline,omitempty"` // commands that failed at base
	Trouble  *trouble `json:"trouble,omitempty"`
	Stat     string   `json:"stat,omitempty"` // what is changed of the base, in short
	Open     []string `json:"open,omitempty"` // criteria to judge, by id
	Checks   []Check  `json:"checks,omitempty"`
}

// ask makes one call of a role within what is left of the task's budgets.
func (r *run) ask(f flow.Flow, role trellis.Role, wall time.Duration, a about) (agentcall.Reply, error) {
	a.Job, a.Baseline = r.job, r.known()
	data, err := agentcall.Encode(a)
	if err != nil {
		return agentcall.Reply{}, err
	}
	limits, err := r.left(wall)
	if err != nil {
		return agentcall.Reply{}, err
	}
	c := r.job.Choices[role]
	session := r.session(role, c.Agent)
	req := agentcall.Request{Role: role, Agent: c.Agent, Model: c.Model, Permission: c.Permission, Dir: r.job.Worktree, Data: data,
		Session: session, RestartSession: session != "", Limits: limits, Round: max(r.round, 1), Attempt: r.rep.Attempts + 1}
	if role == trellis.Accept {
		req.Schema = "accept"
	}
	return r.asker().Call(f, req)
}

func (r *run) asker() agentcall.Policy {
	return agentcall.Policy{
		Repairs: 1,
		Again:   func(*flow.Failure) bool { return r.again() },
		Pause: func(f flow.Flow, fail *flow.Failure) error {
			s := r.standing(trellis.Paused)
			s.Failure, s.ResumeAt = fail, fail.ResumeAt
			_, err := project.Do(f, s)
			return err
		},
		Resume: func(f flow.Flow) error {
			_, err := project.Do(f, r.standing(trellis.InProgress))
			return err
		},
		Used: func(reply agentcall.Reply) {
			r.rep.Usage = r.rep.Usage.Add(reply.Usage)
			r.note(reply.Notes)
		},
	}
}

// again reports whether there is one more attempt, and counts it.
func (r *run) again() bool {
	if r.rep.Attempts+1 >= r.job.Limits.Attempts*(1+r.in.Retries) {
		return false
	}
	r.rep.Attempts++
	return true
}

// left is what one call may still use up, or the failure that says that a budget is gone.
func (r *run) left(wall time.Duration) (agentcall.Limits, error) {
	l, u := agentcall.Limits{Wall: wall, Idle: r.job.Limits.Idle}, r.rep.Usage
	if r.job.Limits.Tokens > 0 {
		if l.Tokens = r.job.Limits.Tokens - u.Tokens(); l.Tokens <= 0 {
			return l, flow.Fail(string(trellis.BudgetTokens), "the task used %d tokens of %d", u.Tokens(), r.job.Limits.Tokens)
		}
	}
	if r.job.Limits.CostUSD > 0 {
		l.CostUSD = r.job.Limits.CostUSD
		if u.CostUSD != nil {
			if l.CostUSD -= *u.CostUSD; l.CostUSD <= 0 {
				return l, flow.Fail(string(trellis.BudgetCost), "the task cost %.2f USD of %.2f", *u.CostUSD, r.job.Limits.CostUSD)
			}
		}
	}
	if r.job.Limits.Seconds > 0 {
		rest := r.job.Limits.Seconds - u.Seconds
		if rest <= 0 {
			return l, flow.Fail(string(trellis.BudgetTime), "agents worked %.0f seconds of %.0f", u.Seconds, r.job.Limits.Seconds)
		}
		if d := time.Duration(rest * float64(time.Second)); wall <= 0 || d < wall {
			l.Wall = d
		}
	}
	return l, nil
}
