package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// ignoredPaths are the paths of a checkout that do not count as work of steps.
var ignoredPaths = []string{".trellis/.runtime"}

// fileActs are the effects of the run of a file. bind completes them once the run's input is known.
type fileActs struct {
	s      *Site
	dir    string
	steps  *workflow.Effects
	run    *workflow.FileEffects
	caller *agentcall.Caller
	in     workflow.FileInput
	b      *plan.Bundle
	spent  runBudget
}

// decide returns what people decided about a request, and reports the question if they have not decided yet.
func (a *fileActs) decide(q workflow.Request) (workflow.Answer, error) {
	said, err := workflow.FindDecision(a.s.Disk, a.dir, q, nil, a.s.Clock())
	if err == nil && said.State == workflow.Pending {
		a.steps.Send(workflow.RequestEvent(q))
	}
	return said, err
}

func (a *fileActs) activities() []flow.Activity {
	calls := a.caller.Activities(workflow.Roles()...)
	for i, call := range calls {
		calls[i].Run = func(ctx context.Context, c flow.Call, in json.RawMessage) (any, error) {
			return a.call(ctx, call, c, in)
		}
	}
	return slices.Concat(a.steps.Activities(), a.run.Activities(), calls)
}

// call makes a call of an agent with what is left of the run's budgets, and reports how it begins and ends.
func (a *fileActs) call(ctx context.Context, call flow.Activity, c flow.Call, in json.RawMessage) (any, error) {
	var r agentcall.Request
	if err := json.Unmarshal(in, &r); err != nil {
		return nil, fmt.Errorf("decoding input of %s: %w", call.Name, err)
	}
	if fail := a.spent.limit(&r.Limits, a.s.Config.Limits); fail != nil {
		fail.At = a.s.Clock().UTC()
		return agentcall.Reply{Failure: fail}, nil
	}
	in, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding input of %s: %w", call.Name, err)
	}
	for _, e := range workflow.CallBeginEvents(r) {
		a.steps.Send(e)
	}
	out, err := call.Run(ctx, c, in)
	if reply, ok := out.(agentcall.Reply); ok && err == nil {
		a.spent.add(reply.Usage)
		for _, e := range workflow.CallEndEvents(r, reply) {
			a.steps.Send(e)
		}
	}
	return out, err
}

// bind completes the effects with what the run's input fixes, and with what was done before.
func (a *fileActs) bind(in workflow.FileInput, b *plan.Bundle, h *journal.History) error {
	a.in, a.b, a.steps.Dir = in, b, in.Options.Dir
	a.caller.Agents = a.s.Roles().agents(in.Nonce)
	a.run.Prover = &workflow.FileProver{ID: in.ID, Bundle: b.Hash, Dir: in.Options.Dir, Chain: &proof.Chain{Disk: a.s.Disk, Dir: a.dir}, Repo: a.s.Repo, Except: ignoredPaths, Now: a.s.Clock}
	a.steps.Prover = a.run.Prover
	used, err := fileUsage(a.dir, h)
	a.spent.add(used)
	return errors.Join(err, a.steps.LoadEnded(h))
}

func (a *fileActs) job(in workflow.FileInput) (workflow.FileJob, error) {
	l := a.s.Config.Limits
	j := workflow.FileJob{Choices: map[trellis.Role]agentcall.Choice{}, Idle: l.Idle, Attempts: max(1, l.Attempts), Approvers: a.s.Config.Planning.Approvers,
		Walls: map[trellis.Role]time.Duration{trellis.Implement: l.Implement, trellis.Grade: l.Evaluate, trellis.Heal: l.Debug}}
	wanted, err := workflow.PossibleCalls(a.b, in.Options)
	if err != nil {
		return j, err
	}
	for _, q := range wanted {
		if _, known := j.Choices[q.Role]; known {
			continue
		}
		if j.Choices[q.Role], err = a.s.Roles().chooseOrSuspend(q.Role, "", in.Agent); err != nil {
			return j, err
		}
	}
	return j, nil
}

// watch records what is changed during a call of an agent that may only read.
func (a *fileActs) watch(ctx context.Context, _ flow.Call, r agentcall.Request) (agentcall.Recheck, error) {
	if r.Permission != trellis.PermitRead {
		return func(context.Context) ([]string, *flow.Failure, error) { return nil, nil, nil }, nil
	}
	root, err := workflow.Checkout(a.in.Options.Dir)
	if err != nil {
		return nil, err
	}
	look := func(ctx context.Context) (git.WorktreeState, error) {
		return a.s.Repo.Index().StateOf(ctx, root, ignoredPaths...)
	}
	before, err := look(ctx)
	return agentcall.NoteChanges(before, look), err
}

// runBudget is what the agents of a run have used. Its methods may be called concurrently.
type runBudget struct {
	mu   sync.Mutex
	used trellis.Usage
}

// limit sets l to what one more call may use, or returns the failure that says that nothing is left.
func (p *runBudget) limit(l *agentcall.Limits, all config.Limits) *flow.Failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := agentcall.Limits{Wall: l.Wall, Idle: l.Idle, Tokens: all.Tokens, CostUSD: all.CostUSD, Seconds: float64(all.Seconds)}
	var err error
	if *l, err = rest.Remaining(p.used); err != nil {
		return flow.AsFailure(err)
	}
	return nil
}

func (p *runBudget) add(u trellis.Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = p.used.Add(u)
}
