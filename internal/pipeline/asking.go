package pipeline

import (
	"errors"
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
		Session: session, Anew: session != "", Limits: limits, Round: max(r.round, 1), Attempt: r.rep.Attempts + 1}
	if role == trellis.Accept {
		req.Schema = "accept"
	}
	return r.asker().Ask(f, req)
}

func (r *run) asker() agentcall.Asker {
	return agentcall.Asker{
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

// observe takes in what people wrote since the last phase. When the plan needs a person's yes, it goes on
// only with one for exactly this content.
func (r *run) observe(f flow.Flow, phase string) (Content, error) {
	for asked := false; ; asked = true {
		c, err := observe.Do(f, observeIn{r.job, phase, asked, r.rep.Content})
		if err != nil {
			return c, err
		}
		if c.Hash == r.rep.Content {
			c.Criteria = r.criteria // as they were read when the run began
		}
		r.criteria = c.Criteria
		r.note(c.Notes)
		r.named, r.rep.Content = c.Named, c.Hash
		if c.Waived {
			r.job.Approval = 0
		}
		if c.Approved {
			return c, nil
		}
		if err := r.agreed(f); err != nil {
			return c, err
		}
	}
}

// silent is the failure of an agent that said and did nothing, before being the tree that it found ("": the base). A program that does not report its tools
// may say nothing: what it did is looked at later.
func (r *run) silent(f flow.Flow, reply agentcall.Reply, before string) error {
	if reply.Text.Bytes > 0 || reply.ToolCalls != 0 {
		return nil
	}
	now, err := changed.Do(f, checksIn{Job: r.job})
	if err != nil || before == "" && !now.Unchanged || before != "" && now.Tree != before {
		return err
	}
	return flow.Fail(string(trellis.EmptyOutput), "the agent ended well, but said nothing and called no tool")
}

// answerless is the failure of an agent that ran but gave no usable answer, nil for anything else.
func answerless(err error) *flow.Failure {
	fail := (*flow.Failure)(nil)
	if !errors.As(err, &fail) {
		return nil
	}
	switch trellis.Code(fail.Code) {
	case trellis.AgentProtocol, trellis.EmptyOutput:
		return fail
	}
	return nil
}

// verdicts is the answer of the accept agent.
type verdicts struct {
	Criteria []struct {
		ID       string `json:"id"`
		Verdict  string `json:"verdict"`
		Evidence string `json:"evidence"`
	} `json:"criteria"`
}

// pending are the ids that no command can judge.
func pending(judged []Judged) (ids []string) {
	for _, j := range judged {
		if j.Verdict == "" {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

// merge fills in what was asked; what was not answered is unknown, and why says so.
func merge(judged []Judged, reply agentcall.Reply, why string) ([]Judged, error) {
	var said verdicts
	if len(reply.Answer) > 0 && reply.Failure == nil {
		var err error
		if said, err = agentcall.Decode[verdicts](reply); err != nil {
			return nil, err
		}
	}
	out := append([]Judged(nil), judged...)
	for i := range out {
		if out[i].Verdict != "" {
			continue
		}
		out[i].Verdict, out[i].Evidence = "unknown", cut(why, evidenceSize(len(out)))
		for _, v := range said.Criteria {
			if v.ID == out[i].ID {
				out[i].Verdict, out[i].Evidence = v.Verdict, cut(v.Evidence, evidenceSize(len(out)))
			}
		}
	}
	return out, nil
}
