package workflow

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Grade is the answer of the grade agent.
type Grade struct {
	Pass      bool   `json:"pass"`
	Reasoning string `json:"reasoning"`
	Feedback  string `json:"feedback"`
}

// runPrompt has an agent do a step. If the host mends failures, the step is then done again.
func (r *run) runPrompt(f flow.Flow, s plan.Step, sc scope, b beginResult) (Outcome, error) {
	return r.retryMended(f, s, sc, func(f flow.Flow) (Outcome, *CommandResult, error) {
		session, bad, err := r.workUntilPassed(f, s, sc, b)
		if err != nil || bad.State != "" {
			return bad, nil, err
		}
		if s.Output != "" {
			out, err := checkOutput.Do(f, outputIn{Dir: r.o.Dir, File: r.file(s.Output, sc), Before: b.Output})
			if err != nil {
				return Outcome{}, nil, err
			}
			if out.Why != "" {
				return Outcome{Path: sc.path, State: Failed, Detail: out.Why}, nil, nil
			}
		}
		return r.verifyAndProve(f, s, sc, CommandResult{}, session)
	})
}

// workUntilPassed has the step done until the grade agent passes it. It returns how the step ended if that never happens.
func (r *run) workUntilPassed(f flow.Flow, s plan.Step, sc scope, b beginResult) (session string, bad Outcome, err error) {
	most := cmp.Or(s.MaxJudgeAttempts, defaultAttempts)
	a := r.fillAbout(sc, PromptData{})
	for n := 1; ; n++ {
		a.Attempt = n
		reply, err := r.work(f, s, sc, a)
		if fail, ok := errors.AsType[*flow.Failure](err); ok && !endsRun(fail) && (s.ContinueOnError || r.host.Own != nil && r.host.Own(fail)) {
			return "", agentFailedOutcome(sc.path, "the agent failed: ", fail), nil
		}
		if err != nil || !s.LLMAsJudge {
			return reply.Session, bad, err
		}
		g, err := r.grade(f, s, sc, b, reply, n)
		if fail, ok := errors.AsType[*flow.Failure](err); ok && !endsRun(fail) {
			return reply.Session, agentFailedOutcome(sc.path, "nobody could judge it: ", fail), nil
		}
		if err != nil || g.Pass {
			return reply.Session, bad, err
		}
		if n >= most {
			return reply.Session, Outcome{Path: sc.path, State: Failed, Detail: fmt.Sprintf("step %q failed judge evaluation after %d attempts: %s", s.ID, n, g.Feedback)}, nil
		}
		a.Tries = append(a.Tries, text.Cut(g.Feedback, 2<<10))
		a.Before = &reply.Text
	}
}

// agentFailedOutcome returns the outcome of a step that failed because an agent failed.
func agentFailedOutcome(path, what string, fail *flow.Failure) Outcome {
	o := Outcome{Path: path, State: Failed, Detail: what + fail.Error()}
	switch trellis.Code(fail.Code) {
	case trellis.TimeoutWall, trellis.TimeoutIdle:
		o.TimedOut, o.Code = true, 124
	}
	return o
}

// work has the agent do the step, in the session that it had for an earlier step if that can be continued.
func (r *run) work(f flow.Flow, s plan.Step, sc scope, a PromptData) (agentcall.Reply, error) {
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

// grade has another agent judge the nth attempt. Without a usable answer the attempt does not pass.
func (r *run) grade(f flow.Flow, s plan.Step, sc scope, b beginResult, done agentcall.Reply, n int) (g Grade, err error) {
	reply, err := r.host.Ask(f, Question{Role: trellis.Grade, Step: &s, Data: r.fillAbout(sc, PromptData{Before: &done.Text, Tree: b.Tree, Attempt: n})})
	if err != nil {
		return g, err
	}
	return agentcall.Decode[Grade](reply)
}
