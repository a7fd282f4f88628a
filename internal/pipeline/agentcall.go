package pipeline

import (
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// promptData is the Data of a request, from which the prompt of a phase is made.
type promptData struct {
	Job      Job             `json:"job"`
	Content  Content         `json:"content"`
	Baseline []string        `json:"baseline,omitempty"` // commands that failed at base
	Trouble  *trouble        `json:"trouble,omitempty"`
	Stat     string          `json:"stat,omitempty"` // short list of what is changed against the base
	Open     []string        `json:"open,omitempty"` // ids of the criteria to judge
	Checks   []CommandResult `json:"checks,omitempty"`
}

// ask makes one call of a role within what is left of the task's budgets.
func (r *run) ask(f flow.Flow, role trellis.Role, wall time.Duration, a promptData) (agentcall.Reply, error) {
	a.Job, a.Baseline = r.job, r.rep.Baseline.forgiven(r.namedCommands)
	data, err := agentcall.Encode(a)
	if err != nil {
		return agentcall.Reply{}, err
	}
	limits, err := r.left(wall)
	if err != nil {
		return agentcall.Reply{}, err
	}
	c := r.job.Choices[role]
	session := ""
	if agent, was := r.in.session(r.round, a.Trouble); role == trellis.Debug && agent == c.Agent {
		session = was
	}
	req := agentcall.Request{Role: role, Agent: c.Agent, Model: c.Model, Permission: c.Permission, Dir: r.job.Worktree, Data: data,
		Session: session, RestartSession: session != "", Limits: limits, Round: max(r.round, 1), Attempt: r.rep.Attempts + 1}
	if role == trellis.Accept {
		req.Schema = "accept"
	}
	return r.asker(wall).Call(f, req)
}

// asker returns a policy that keeps calls within the task's budgets, repeated calls too. wall is how long a call may take.
func (r *run) asker(wall time.Duration) agentcall.Policy {
	a := agentcall.Policy{
		Repairs: 1,
		Again:   func(*flow.Failure) bool { return r.countAttempt() },
		Pause: func(f flow.Flow, fail *flow.Failure) error {
			s := r.taskState(trellis.Paused)
			s.Failure, s.ResumeAt = fail, fail.ResumeAt
			_, err := writeStatus.Do(f, s)
			return err
		},
		Resume: func(f flow.Flow) error {
			_, err := writeStatus.Do(f, r.taskState(trellis.InProgress))
			return err
		},
		Used: func(reply agentcall.Reply) {
			r.rep.Usage = r.rep.Usage.Add(reply.Usage)
			if r.in.Code < 10 { // the sums of older versions did not have it
				r.rep.Usage.CostPartial = false
			}
			r.rep.note(reply.Notes)
		},
		Eager: r.in.Code < 11,
	}
	if r.in.Code > 8 {
		a.Left = func() (agentcall.Limits, error) { return r.left(wall) }
	}
	return a
}

// countAttempt counts another attempt and returns true, or returns false if none is left.
func (r *run) countAttempt() bool {
	if r.rep.Attempts+1 >= r.job.Limits.Attempts*(1+r.in.Retries) {
		return false
	}
	r.rep.Attempts++
	return true
}

// left returns how much of the run's budgets one call may still use, or the failure that says which budget is used up.
func (r *run) left(wall time.Duration) (agentcall.Limits, error) {
	l := r.job.Limits
	rest, err := agentcall.Limits{Wall: wall, Idle: l.Idle, Tokens: l.Tokens, CostUSD: l.CostUSD, Seconds: l.Seconds}.Remaining(r.rep.Usage)
	if r.in.Code < 9 {
		rest.Wall, rest.Seconds = rest.MaxDuration(), 0
	}
	return rest, err
}
