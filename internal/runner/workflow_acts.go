package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// unworked are the paths of a checkout that are no part of what steps do.
var unworked = []string{".trellis/.runtime"}

// fileActs are the effects of the run of a file. bind completes them once the run's input is known.
type fileActs struct {
	s     *Site
	dir   string
	steps *workflow.Acts
	run   *workflow.FileActs
	crew  *agentcall.Caller
	in    workflow.FileInput
	b     *plan.Bundle
	spent purse
}

func (s FileRunner) fileActs(dir string) *fileActs {
	marker := runlock.Marker(dir)
	a := &fileActs{s: s.Site, dir: dir, crew: s.Roles().crew(dir, marker)}
	a.steps = &workflow.Acts{RunDir: a.crew.RunDir, Bundle: func(string) (*plan.Bundle, error) { return a.b, nil }, Env: s.Environ, Box: s.Box, Marker: marker, Repo: s.Repo, Except: unworked,
		Decide: a.decide, Disk: s.Disk, Redact: s.Redact, Protected: s.Config.Protected, Event: a.tell, Now: s.Clock}
	a.run = &workflow.FileActs{Job: a.job}
	a.crew.Slots, a.crew.Check, a.crew.Watch = a.steps.Slots, a.steps.Check, a.watch
	a.crew.Event = func(_ flow.Call, r agentcall.Request, e agents.Event) {
		if told, ok := workflow.EventOf(r, e); ok {
			a.steps.Tell(told)
		}
	}
	return a
}

// decide looks what people said to a request, and tells when it is nothing yet.
func (a *fileActs) decide(q workflow.Request) (workflow.Answer, error) {
	said, err := workflow.Decision(a.s.Disk, a.dir, q, nil, a.s.Clock())
	if err == nil && said.State == workflow.Pending {
		a.steps.Tell(workflow.Asking(q))
	}
	return said, err
}

// tell passes on what happens in the run.
func (a *fileActs) tell(e workflow.Event) {
	a.s.Tell(Event{Task: filepath.Base(a.dir), Step: &e})
}

func (a *fileActs) activities() []flow.Activity {
	calls := a.crew.Activities(workflow.Roles()...)
	for i, call := range calls {
		calls[i].Run = func(ctx context.Context, c flow.Call, in json.RawMessage) (any, error) {
			return a.call(ctx, call, c, in)
		}
	}
	return slices.Concat(a.steps.Activities(), a.run.Activities(), calls)
}

// call makes a call of an agent with what is left of the run's budgets, and tells how it begins and ends.
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
	for _, e := range workflow.Asked(r) {
		a.steps.Tell(e)
	}
	out, err := call.Run(ctx, c, in)
	if reply, ok := out.(agentcall.Reply); ok && err == nil {
		a.spent.add(reply.Usage)
		for _, e := range workflow.Replied(r, reply) {
			a.steps.Tell(e)
		}
	}
	return out, err
}

// bind completes the effects with what the run's input fixes, and with what was done before.
func (a *fileActs) bind(in workflow.FileInput, b *plan.Bundle, h *journal.History) error {
	a.in, a.b, a.steps.Dir = in, b, in.Options.Dir
	a.crew.Agents = a.s.Roles().cast(in.Nonce)
	a.run.Prover = &workflow.FileProver{ID: in.ID, Bundle: b.Hash, Dir: in.Options.Dir, Chain: &proof.Chain{Disk: a.s.Disk, Dir: a.dir}, Repo: a.s.Repo, Except: unworked, Now: a.s.Clock}
	a.steps.Prover = a.run.Prover
	used, err := fileUsage(a.dir, h)
	a.spent.add(used)
	return errors.Join(err, a.steps.Recall(h))
}

// job is what holds for the run.
func (a *fileActs) job(in workflow.FileInput) (workflow.FileJob, error) {
	l := a.s.Config.Limits
	j := workflow.FileJob{Choices: map[trellis.Role]agentcall.Choice{}, Idle: l.Idle, Attempts: max(1, l.Attempts), Approvers: a.s.Config.Planning.Approvers,
		Walls: map[trellis.Role]time.Duration{trellis.Implement: l.Implement, trellis.Grade: l.Evaluate, trellis.Heal: l.Debug}}
	wanted, err := workflow.Wanted(a.b, in.Options)
	if err != nil {
		return j, err
	}
	for _, q := range wanted {
		if _, known := j.Choices[q.Role]; known {
			continue
		}
		if j.Choices[q.Role], err = a.s.Roles().chooseTrusted(q.Role, "", in.Agent); err != nil {
			return j, err
		}
	}
	return j, nil
}

// canRun makes sure, before anything is begun, that the steps asked for are there, and that their commands and agents
// can work.
func (s FileRunner) canRun(ctx context.Context, b *plan.Bundle, o FileOptions) error {
	if err := s.Box.Ready(ctx); err != nil {
		return err
	}
	wanted, err := workflow.Wanted(b, o.Steps)
	if fail := (*flow.Failure)(nil); errors.As(err, &fail) {
		return &RefusedError{fail.Detail, ""}
	}
	seen := map[string]bool{}
	for _, q := range wanted {
		c, err := s.Roles().Choose(q.Role, "", o.Agent)
		if err != nil {
			return err
		}
		if c = q.Who(c); seen[c.Agent] {
			continue
		}
		seen[c.Agent] = true
		if err := s.Available(ctx, c.Agent); err != nil {
			return err
		}
	}
	return err
}

// watch notes what was changed while an agent was at work that may only read. People, and other steps, may be the cause.
func (a *fileActs) watch(ctx context.Context, _ flow.Call, r agentcall.Request) (func(context.Context) ([]string, *flow.Failure, error), error) {
	if r.Permission != trellis.PermitRead {
		return func(context.Context) ([]string, *flow.Failure, error) { return nil, nil, nil }, nil
	}
	root, err := workflow.Checkout(a.in.Options.Dir)
	if err != nil {
		return nil, err
	}
	before, err := a.s.Repo.Index().StateOf(ctx, root, unworked...)
	return func(ctx context.Context) (notes []string, _ *flow.Failure, err error) {
		after, err := a.s.Repo.Index().StateOf(ctx, root, unworked...)
		if err != nil {
			return nil, nil, err
		}
		for _, path := range after.Since(before) {
			notes = append(notes, path+" was changed while an agent that may only read was at work")
		}
		return notes, nil, nil
	}, err
}

// purse is what the agents of a run used up. Calls may be made at the same time.
type purse struct {
	mu   sync.Mutex
	used trellis.Usage
}

// limit is what one more call may use, or the failure that says that nothing is left.
func (p *purse) limit(l *agentcall.Limits, all config.Limits) *flow.Failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	if all.Tokens > 0 {
		if l.Tokens = all.Tokens - p.used.Tokens(); l.Tokens <= 0 {
			return flow.Fail(string(trellis.BudgetTokens), "the run used %d tokens of %d", p.used.Tokens(), all.Tokens)
		}
	}
	if all.CostUSD > 0 && p.used.CostUSD != nil {
		if l.CostUSD = all.CostUSD - *p.used.CostUSD; l.CostUSD <= 0 {
			return flow.Fail(string(trellis.BudgetCost), "the run cost %.2f USD of %.2f", *p.used.CostUSD, all.CostUSD)
		}
	} else if all.CostUSD > 0 {
		l.CostUSD = all.CostUSD
	}
	if all.Seconds > 0 {
		rest := float64(all.Seconds) - p.used.Seconds
		if rest <= 0 {
			return flow.Fail(string(trellis.BudgetTime), "agents worked %.0f seconds of %d", p.used.Seconds, all.Seconds)
		}
		if d := time.Duration(rest * float64(time.Second)); l.Wall <= 0 || d < l.Wall {
			l.Wall = d
		}
	}
	return nil
}

func (p *purse) add(u trellis.Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = p.used.Add(u)
}

// fileUsage is what the agents of a run used, and those of the runs of its id before it.
func fileUsage(dir string, h *journal.History) (used trellis.Usage, err error) {
	files, err := journal.Archived(filepath.Join(dir, taskdir.Run))
	if err != nil {
		return used, err
	}
	list := []*journal.History{h}
	for _, file := range files {
		old, err := journal.ReadFile(file)
		if err != nil {
			return used, err
		}
		list = append(list, old)
	}
	for _, h := range list {
		u, err := workflow.Used(h)
		if err != nil {
			return used, err
		}
		used = used.Add(u)
	}
	return used, nil
}
