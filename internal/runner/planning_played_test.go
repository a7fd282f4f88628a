package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// part is what the agent of a role does at its nth call, from 1.
type part func(ctx context.Context, r agents.Request, n int) (*agents.Result, error)

// played is an agent in this process that plays all roles of a planning and keeps its requests.
type played struct {
	mu    sync.Mutex
	parts map[trellis.Role]part
	heard map[trellis.Role][]agents.Request
}

func (p *played) Run(ctx context.Context, r agents.Request, emit func(agents.Event)) (*agents.Result, error) {
	p.mu.Lock()
	p.heard[r.Role] = append(p.heard[r.Role], r)
	n, do := len(p.heard[r.Role]), p.parts[r.Role]
	p.mu.Unlock()
	return do(ctx, r, n)
}

// says returns these answers in order, the last one repeatedly: strings as they are, anything else as JSON.
func says(answers ...any) part {
	return func(_ context.Context, _ agents.Request, n int) (*agents.Result, error) {
		return said(answers[min(n, len(answers))-1]), nil
	}
}

func said(v any) *agents.Result {
	text, ok := v.(string)
	if !ok {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false) // as models write it
		if err := e.Encode(v); err != nil {
			panic(err)
		}
		text = b.String()
	}
	return &agents.Result{Text: text, ToolCalls: -1}
}

// waits is a part that ends only with its call.
func waits(ctx context.Context, _ agents.Request, _ int) (*agents.Result, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// play makes this process play a planning with all roles. parts replaces some roles.
func (w *world) play(size string, parts map[trellis.Role]part) *played {
	p := &played{parts: map[trellis.Role]part{}, heard: map[trellis.Role][]agents.Request{}}
	for role, calls := range runnertest.Careful(size) {
		p.parts[trellis.Role(role)] = says(calls[0]["answer"])
	}
	for role, do := range parts {
		p.parts[role] = do
	}
	w.Site.Agent = func(string) (agents.Agent, error) { return p, nil }
	return p
}

// meet makes these roles answer only after all of them were called.
func (w *world) meet(p *played, roles ...trellis.Role) {
	for _, role := range roles {
		do := p.parts[role]
		p.parts[role] = func(ctx context.Context, r agents.Request, n int) (*agents.Result, error) {
			w.Until("all that are asked at once", func() bool { return p.hears(roles) })
			return do(ctx, r, n)
		}
	}
}

// planned plans the usual requirement.
func (w *world) planned() runner.PlanResult {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), runnertest.Hang)
	defer cancel()
	res, err := w.Site.PlanRunner().Plan(ctx, runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "say bye"})
	if err != nil {
		w.Fatal(err)
	}
	return res
}

// fails returns a part that fails for good.
func fails(code trellis.Code) part {
	return func(context.Context, agents.Request, int) (*agents.Result, error) {
		return nil, &flow.Failure{Code: string(code), Detail: "it failed"}
	}
}
