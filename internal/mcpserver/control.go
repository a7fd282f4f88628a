package mcpserver

import (
	"context"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
)

type planArguments struct {
	Requirement string `json:"requirement,omitempty" jsonschema:"what to build, and how to verify that it is done"`
	Name        string `json:"name,omitempty"`
	Type        string `json:"type,omitempty" jsonschema:"backend, frontend, fullstack, test or docs"`
	Priority    string `json:"priority,omitempty" jsonschema:"P0 to P3"`
	Package     string `json:"package,omitempty"`
	Task        string `json:"task,omitempty" jsonschema:"task to plan again"`
	Feedback    string `json:"feedback,omitempty" jsonschema:"with task: what to change"`
}

// beginTimeout is how long a program that goes on by itself may take to say that it can't begin.
const beginTimeout = 1200 * time.Millisecond

func (s *Server) plan(_ context.Context, p *app.Project, in planArguments) (any, error) {
	replan := in.Task != "" || in.Feedback != ""
	switch {
	case replan && in.Requirement != "":
		return nil, app.WithHints(app.Usagef("a requirement makes a new task; task and feedback plan one again"), "leave out one of them")
	case replan && (in.Name != "" || in.Type != "" || in.Priority != "" || in.Package != ""):
		return nil, app.Usagef("a task that is planned again stays what it is: leave out name, type, priority and package")
	case replan:
		dir, err := find(p, in.Task)
		if err != nil {
			return nil, err
		}
		said, err := s.program(p).Revise(nameOf(dir), in.Feedback)
		return detachedResult(nameOf(dir), said, err)
	}
	said, err := s.program(p).BeginPlan(beginTimeout, app.Planning{Requirement: in.Requirement, Name: in.Name, Type: in.Type, Priority: in.Priority, Package: in.Package})
	if said.GoesOn {
		return orderResult{Says: "it is planned", Next: "task_list"}, err
	}
	return detachedResult("", said, err)
}

type controlArguments struct {
	Task     string `json:"task"`
	Action   string `json:"action" jsonschema:"start, stop, retry, cancel or deliver"`
	Feedback string `json:"feedback,omitempty" jsonschema:"with retry: what to change in the work"`
	Fresh    bool   `json:"fresh,omitempty" jsonschema:"with retry: start over from the base"`
}

func (s *Server) control(ctx context.Context, p *app.Project, in controlArguments) (any, error) {
	if err := s.o.Env.RequirePerson("start, stop, retry, cancel or deliver over MCP"); err != nil {
		return nil, err
	}
	dir, err := find(p, in.Task)
	if err != nil {
		return nil, err
	}
	if in.Action != "retry" && (in.Feedback != "" || in.Fresh) {
		return nil, app.Usagef("feedback and fresh belong to the action retry")
	}
	id, orders := nameOf(dir), p.Orders()
	switch in.Action {
	case "start":
		return s.carryOutDetached(p, id, "start", "--detach")
	case "cancel", "deliver":
		return s.carryOutDetached(p, id, in.Action)
	case "stop":
		return s.carryOut(ctx, func(ctx context.Context) (app.OrderResult, error) { return orders.Stop(ctx, dir) })
	case "retry":
		return s.carryOut(ctx, func(ctx context.Context) (app.OrderResult, error) { return retry(ctx, orders, dir, in) })
	}
	return nil, app.Usagef("action is start, stop, retry, cancel or deliver, not %q", brief(in.Action, 40))
}

func retry(ctx context.Context, orders app.Orders, dir string, in controlArguments) (app.OrderResult, error) {
	switch {
	case in.Feedback == "":
		return orders.Retry(ctx, dir, in.Fresh)
	case in.Fresh:
		return app.OrderResult{}, app.Usagef("fresh puts aside the work that feedback is about: give one of them")
	}
	return orders.RetryWithFeedback(ctx, dir, in.Feedback)
}
