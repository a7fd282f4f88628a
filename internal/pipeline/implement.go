package pipeline

import (
	"fmt"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// implement runs the steps of the plan, or has one agent do all the work when there are none.
func (r *run) implement(f flow.Flow) error {
	content, err := r.observe(f, "implement")
	if err != nil || content.Hash == r.in.Implemented {
		return err
	}
	if err := r.enter(f, "implement"); err != nil {
		return err
	}
	if content.Steps && r.in.Code > 1 {
		b, err := r.bundle(content.Bundle)
		if err != nil {
			return flow.AsFailure(err)
		}
		if err := r.steps(f, content, b); err != nil {
			return err
		}
	} else if err := r.atOnce(f, content); err != nil {
		return err
	}
	r.rep.Implemented = content.Hash
	return nil
}

// atOnce has one agent do all the work.
func (r *run) atOnce(f flow.Flow, content Content) error {
	reply, err := r.ask(f, trellis.Implement, r.job.Limits.Implement, about{Content: content})
	if err != nil {
		return err
	}
	return r.silent(f, reply, "")
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

// steps runs the steps of the plan, one at a time, all but those that verify. One that fails goes to the debug
// agent, which uses up a round, and is tried again.
func (r *run) steps(f flow.Flow, c Content, b *plan.Bundle) error {
	rep, err := workflow.Run(f.In("steps"), b, r.host(c), workflow.Options{Dir: r.job.Worktree, Serial: true, Verified: true, Grouped: r.in.Code > 4, Finished: r.in.Finished})
	r.rep.Steps = rep
	if err != nil {
		return err
	}
	if fail := rep.Failure(); fail != nil {
		return fail
	}
	return nil
}

// host is what the steps of a plan ask of a task's run.
func (r *run) host(c Content) workflow.Host {
	return workflow.Host{
		Ask: func(f flow.Flow, q workflow.Question) (agentcall.Reply, error) { return r.askStep(f, c, q) },
		Wait: func(f flow.Flow, q workflow.Request) error {
			q.Approvers = r.job.Approvers
			if r.in.Retries > 0 { // what they said before somebody asked for another run is no answer
				q.Hash += fmt.Sprintf("/%d", r.in.Retries)
			}
			return workflow.Consent(f, q, func(f flow.Flow) error {
				_, err := project.Do(f, r.standing(trellis.Waiting))
				return err
			}, func(f flow.Flow) error { return r.enter(f, "implement") })
		},
		Mend: r.mend,
	}
}

// stepAbout is the Data of a step's request: that of the step, and what the task's own prompts are made of.
type stepAbout struct {
	workflow.About
	Job     Job     `json:"job"`
	Content Content `json:"content"`
}

// askStep makes a call for a step, within the task's budgets.
func (r *run) askStep(f flow.Flow, c Content, q workflow.Question) (agentcall.Reply, error) {
	data, err := agentcall.Encode(stepAbout{q.Data, r.job, Content{Hash: c.Hash}})
	if err != nil {
		return agentcall.Reply{}, err
	}
	limits, err := r.left(r.wall(q))
	if err != nil {
		return agentcall.Reply{}, err
	}
	who := q.Who(r.job.Choices[q.Role])
	return r.asker().Call(f, agentcall.Request{Role: q.Role, Template: q.Template(), Schema: q.Schema(), Agent: who.Agent, Model: who.Model, Permission: who.Permission,
		Session: q.Session, Dir: r.job.Worktree, Data: data, Limits: limits, Round: max(r.round, 1), Attempt: r.rep.Attempts + 1})
}

// wall is how long a call for a step may take.
func (r *run) wall(q workflow.Question) time.Duration {
	limit := map[trellis.Role]time.Duration{trellis.Implement: r.job.Limits.Implement, trellis.Heal: r.job.Limits.Debug, trellis.Grade: r.job.Limits.Grade}[q.Role]
	if d := q.Limit(); q.Role == trellis.Implement && d > 0 && (limit == 0 || d < limit) {
		return d
	}
	return limit
}

// progressed fails when a step fails again on the tree that it failed on before: neither who mends nor who did it again
// has changed anything.
func (r *run) progressed(f flow.Flow, t workflow.Trouble) error {
	if r.in.Code < 6 {
		return nil
	}
	now, err := changed.Do(f, checksIn{Job: r.job})
	if err != nil {
		return err
	}
	if before, failed := r.stuck[t.Path]; failed && before == now.Tree {
		return flow.Fail(string(trellis.NoProgress), "step %s failed as before, and nothing was changed in between: %s", t.Path, short(t.Detail))
	}
	if r.stuck == nil {
		r.stuck = map[string]string{}
	}
	r.stuck[t.Path] = now.Tree
	return nil
}

// mend hands a step that failed to the debug agent, unless there is no round left for that.
func (r *run) mend(f flow.Flow, t workflow.Trouble) (bool, error) {
	if err := r.progressed(f, t); err != nil {
		return false, err
	}
	if r.spent+1 >= r.job.Limits.Rounds {
		return false, nil
	}
	r.spent++
	last := &trouble{Code: trellis.StepFailed, Detail: short(fmt.Sprintf("step %s: %s", t.Path, t.Detail))}
	if t.Ran != nil {
		last.Failed = []Check{{Command: short(t.Ran.Command), Code: t.Ran.Code, Tail: text.Cut(t.Ran.Tail, maxSaid), Output: t.Ran.Stdout},
			{Command: short(t.Ran.Command) + " (what it said on stderr)", Code: t.Ran.Code, Output: t.Ran.Stderr}}
	}
	if err := r.debug(f, last); err != nil {
		return false, err
	}
	return true, r.enter(f, "implement")
}
