package planner

import (
	"errors"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Ahead: the first calls for research and TaskSpec are made beside evaluate. Like evaluate they depend on the requirement, and on
// its verdict only in that it has to be an acceptance. Later calls, a repair say, are made only for an accepted requirement. A
// rejection, or no verdict at all, ends the calls that are running.

// CallOffActivity is the name of the activity that ends calls that are no longer needed.
const CallOffActivity = string(agentcall.CallOff)

// tinyBytes is the minimum length of a requirement for which calls are made ahead. A shorter one is usually tiny work, which needs
// no TaskSpec, or it is too short to be understood, and is rejected.
const tinyBytes = 120

// looksTiny reports whether little is asked for, judging by the length of what a person wrote.
func looksTiny(requirement []byte, in Input) bool {
	length := len(requirement)
	for _, text := range in.Background {
		length += len(text)
	}
	return length < tinyBytes && len(in.Context) == 0
}

// earlyCall is a first call that was made ahead.
type earlyCall struct {
	reply agentcall.Reply
	err   error // why the call could not be made
}

func makeEarlyCall(f flow.Flow, r agentcall.Request) (e earlyCall) {
	e.reply, e.err = flow.Act[agentcall.Request, agentcall.Reply](r.Role).Do(f, r)
	return e
}

// aheadCalls are the calls that were made ahead of the verdict, nil for those that were not.
type aheadCalls struct{ research, taskspec *earlyCall }

// evaluateAhead asks for a verdict, and at the same time for what an accepted requirement needs.
func (p *planning) evaluateAhead(f flow.Flow) (b aheadCalls, err error) {
	var evaluated tally
	if p.in.Code < 3 || !p.sv.Speculate {
		err := p.evaluate(f, &evaluated)
		p.addTally(evaluated)
		return b, err
	}
	roles := p.aheadRoles()
	branches := []flow.Branch{{Name: string(trellis.Evaluate), Run: func(f flow.Flow) error {
		err := p.evaluate(f, &evaluated)
		return errors.Join(err, p.callOff(f, roles, err))
	}}}
	calls := make([]earlyCall, len(roles))
	for i, role := range roles {
		r, err := p.request(role, promptData{}, trellis.Usage{})
		if err != nil {
			return b, err
		}
		branches = append(branches, flow.Branch{Name: string(role), Run: func(f flow.Flow) error {
			calls[i] = makeEarlyCall(f, r)
			return nonFailure(calls[i].err)
		}})
	}
	err = f.All(0, branches...)
	p.addTally(evaluated)
	p.paused = evaluated.paused && p.in.Code > 3
	for i := range calls {
		p.addTally(calls[i].tally())
	}
	b.research = &calls[0]
	if len(calls) > 1 {
		b.taskspec = &calls[1]
	}
	return b, err
}

// aheadRoles returns the roles that are called ahead, research first.
func (p *planning) aheadRoles() []trellis.Role {
	roles := []trellis.Role{trellis.Research}
	if p.sv.TaskSpec && !p.in.NoTaskSpec && !p.in.Quick {
		roles = append(roles, trellis.TaskSpec)
	}
	return roles
}

// callOff ends the calls made ahead that are not needed: all of them without an acceptance, the TaskSpec for tiny work. err is why
// there is no verdict.
func (p *planning) callOff(f flow.Flow, roles []trellis.Role, err error) error {
	off := agentcall.UnneededCalls{}
	switch v := p.rep.Verdict; {
	case err != nil && nonFailure(err) != nil: // the run stops
		return nil
	case err != nil:
		off.Why = "the requirement could not be evaluated"
	case v.Decision == "reject":
		off.Why = "the requirement was rejected"
	case v.Size == trellis.Tiny:
		off.Why, roles = "the work is tiny", roles[1:]
	default:
		return nil
	}
	for _, role := range roles {
		off.Calls = append(off.Calls, fmt.Sprintf("%s/%s#1", role, role))
	}
	if len(off.Calls) == 0 {
		return nil
	}
	_, err = agentcall.CallOff.Do(f, off)
	return err
}

// nonFailure returns nil for a failure, which the flow decides on, and any other error, which stops the run.
func nonFailure(err error) error {
	if errors.As(err, new(*flow.Failure)) {
		return nil
	}
	return err
}

// hitLimit reports whether a call hit a limit that ends by itself.
func (e earlyCall) hitLimit() bool {
	return e.reply.Failure != nil && !e.reply.Failure.ResumeAt.IsZero()
}

func (e earlyCall) tally() (t tally) {
	if e.err == nil {
		t.count(e.reply)
	}
	return t
}
