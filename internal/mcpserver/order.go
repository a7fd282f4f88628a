package mcpserver

import (
	"context"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// orderResult is the result of an order.
type orderResult struct {
	Task   string         `json:"task,omitempty"`
	Status trellis.Status `json:"status,omitempty"`
	Says   string         `json:"says"`
	Next   string         `json:"next,omitempty"`
}

// carryOut carries out an order in this process, one at a time. An order that has begun is not cut off
// when the client gives it up, so that nothing is half done; one that has not begun then does not begin.
func (s *Server) carryOut(ctx context.Context, do func(context.Context) (app.OrderResult, error)) (any, error) {
	s.orderLock.Lock()
	defer s.orderLock.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	done, err := do(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	return orderResult{Task: done.Task, Status: done.Status, Says: brief(done.Says, 600), Next: done.Next}, nil
}

// ordersDone returns a channel that is closed once no order is being carried out.
func (s *Server) ordersDone() <-chan struct{} {
	over := make(chan struct{})
	go func() {
		s.orderLock.Lock()
		defer s.orderLock.Unlock()
		close(over)
	}()
	return over
}

// carryOutDetached has this program carry out an order in a process that outlives this one, as long as the order takes.
func (s *Server) carryOutDetached(p *app.Project, id string, args ...string) (any, error) {
	said, err := s.program(p).Begin(beginTimeout, append(args, "--", id)...)
	if said.GoesOn {
		said.Says = args[0] + " is being carried out"
	}
	return detachedResult(id, said, err)
}

// detachedResult returns what the program said about an order that goes on.
func detachedResult(id string, said app.Output, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	next := said.Next
	if next == "" && id != "" {
		next = callHint("task_show", id)
	}
	return orderResult{Task: id, Says: brief(said.Says, 600), Next: next}, nil
}
