package planner

import (
	"errors"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Ahead: research and TaskSpec go by the requirement, as evaluate does, and need nothing of its verdict but that it is a yes. So
// the first call of each is made beside it. What comes after that call, a repair say, is for an accepted requirement only; a no,
// or no verdict at all, ends the calls that are under way.

// CallsOff is the name of the activity that ends calls which nobody needs.
const CallsOff = string(agentcall.CallOff)

// tinyBytes is how long a requirement is at least that calls are made ahead for. One that is shorter is most often tiny, and has no
// use for a TaskSpec, or is too short to be understood, and is rejected.
const tinyBytes = 120

// looksTiny tells by what a person said of a requirement whether little is asked for.
func looksTiny(requirement []byte, in Input) bool {
	said := len(requirement)
	for _, text := range in.Background {
		said += len(text)
	}
	return said < tinyBytes && len(in.Context) == 0
}

// early is a first call that was made ahead.
type early struct {
	reply agentcall.Reply
	err   error // why it could not be made
}

func firstOf(f flow.Flow, r agentcall.Request) (e early) {
	e.reply, e.err = flow.Act[agentcall.Request, agentcall.Reply](r.Role).Do(f, r)
	return e
}

// aheadCalls is what was called ahead of the verdict, nil what was not.
type aheadCalls struct{ research, taskspec *early }

// evaluateAhead asks for a verdict, and ahead of it for what an accepted requirement needs.
func (p *planning) evaluateAhead(f flow.Flow) (b aheadCalls, err error) {
	var evaluated tally
	if p.in.Code < 3 || !p.sv.Speculate {
		err := p.evaluate(f, &evaluated)
		p.take(evaluated)
		return b, err
	}
	roles := p.ahead()
	branches := []flow.Branch{{Name: string(trellis.Evaluate), Run: func(f flow.Flow) error {
		err := p.evaluate(f, &evaluated)
		return errors.Join(err, p.callOff(f, roles, err))
	}}}
	calls := make([]early, len(roles))
	for i, role := range roles {
		r, err := p.request(role, about{}, trellis.Usage{})
		if err != nil {
			return b, err
		}
		branches = append(branches, flow.Branch{Name: string(role), Run: func(f flow.Flow) error {
			calls[i] = firstOf(f, r)
			return unlessFailed(calls[i].err)
		}})
	}
	err = f.All(0, branches...)
	p.take(evaluated)
	p.paused = evaluated.paused && p.in.Code > 3
	for i := range calls {
		p.take(calls[i].tally())
	}
	b.research = &calls[0]
	if len(calls) > 1 {
		b.taskspec = &calls[1]
	}
	return b, err
}

// ahead are the roles that are asked ahead, research first.
func (p *planning) ahead() []trellis.Role {
	roles := []trellis.Role{trellis.Research}
	if p.sv.TaskSpec && !p.in.NoTaskSpec && !p.in.Quick {
		roles = append(roles, trellis.TaskSpec)
	}
	return roles
}

// callOff ends what was called ahead, as far as nobody needs it: all of it without an acceptance, the TaskSpec of tiny work. err is
// why there is no verdict.
func (p *planning) callOff(f flow.Flow, roles []trellis.Role, err error) error {
	off := agentcall.Needless{}
	switch v := p.rep.Verdict; {
	case err != nil && unlessFailed(err) != nil: // the run stops
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

// unlessFailed is an error that stops the run. A failure is for the flow to decide on.
func unlessFailed(err error) error {
	if errors.As(err, new(*flow.Failure)) {
		return nil
	}
	return err
}

// limited reports whether a call came to a limit that is lifted by itself.
func (e early) limited() bool { return e.reply.Failure != nil && !e.reply.Failure.ResumeAt.IsZero() }

func (e early) tally() (t tally) {
	if e.err == nil {
		t.count(e.reply)
	}
	return t
}
