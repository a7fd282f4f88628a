package workflow

import (
	"errors"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/ask"
	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Grade is the answer of the grade agent.
type Grade struct {
	Pass      bool   `json:"pass"`
	Reasoning string `json:"reasoning"`
	Feedback  string `json:"feedback"`
}

// prompt has an agent do a step. Where the host mends what fails, it is done again.
func (r *run) prompt(f flow.Flow, s plan.Step, sc scope, b begun) (Outcome, error) {
	return r.mending(f, s, sc, func(f flow.Flow) (Outcome, *Ran, error) {
		session, why, err := r.graded(f, s, sc, b)
		if err != nil {
			return Outcome{}, nil, err
		}
		if why == "" && s.Output != "" {
			out, err := made.Do(f, madeIn{Dir: r.o.Dir, File: r.file(s.Output, sc), Before: b.Output})
			if err != nil {
				return Outcome{}, nil, err
			}
			why = out.Why
		}
		if why != "" {
			return Outcome{Path: sc.path, State: Failed, Detail: why}, nil, nil
		}
		return r.judged(f, s, sc, Ran{}, session)
	})
}

// graded asks for the step until whoever grades it is content, and says why when that is never.
func (r *run) graded(f flow.Flow, s plan.Step, sc scope, b begun) (session, why string, err error) {
	most := orElse(s.MaxJudgeAttempts, attempts)
	a := r.about(sc, About{})
	for n := 1; ; n++ {
		reply, err := r.work(f, s, sc, a)
		if fail := (*flow.Failure)(nil); s.ContinueOnError && errors.As(err, &fail) && !over(fail) {
			return "", "the agent failed: " + fail.Error(), nil
		}
		if err != nil || !s.LLMAsJudge {
			return reply.Session, "", err
		}
		g, err := r.grade(f, s, sc, b, reply)
		if fail := (*flow.Failure)(nil); errors.As(err, &fail) && !over(fail) {
			return reply.Session, "nobody could judge it: " + fail.Error(), nil
		}
		if err != nil || g.Pass {
			return reply.Session, "", err
		}
		if n >= most {
			return reply.Session, fmt.Sprintf("step %q failed judge evaluation after %d attempts: %s", s.ID, n, g.Feedback), nil
		}
		a.Tries = append(a.Tries, cut(g.Feedback, 2<<10))
		a.Before = &reply.Text
	}
}

// work has the agent do the step, in the session that it had for the step before where it can go on with it.
func (r *run) work(f flow.Flow, s plan.Step, sc scope, a About) (ask.Reply, error) {
	q := Question{Role: trellis.Implement, Step: &s, Data: a}
	if s.Session != "fresh" && sc.sessions != nil {
		q.Session = sc.sessions[s.Agent+"/"+s.Model]
		q.Data.Again = q.Session != ""
	}
	reply, err := r.host.Ask(f, q)
	if err == nil && sc.sessions != nil {
		sc.sessions[s.Agent+"/"+s.Model] = reply.Session
	}
	return reply, err
}

// grade has somebody else judge what the agent did. Who can't answer does not pass it.
func (r *run) grade(f flow.Flow, s plan.Step, sc scope, b begun, done ask.Reply) (g Grade, err error) {
	reply, err := r.host.Ask(f, Question{Role: trellis.Grade, Step: &s, Data: r.about(sc, About{Before: &done.Text, Tree: b.Tree})})
	if err != nil {
		return g, err
	}
	return ask.Decode[Grade](reply)
}
