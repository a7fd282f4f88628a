package mcpserver

import (
	"context"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// did is the result of an order.
type did struct {
	Task   string         `json:"task,omitempty"`
	Status trellis.Status `json:"status,omitempty"`
	Says   string         `json:"says"`
	Next   string         `json:"next,omitempty"`
}

// carryOut carries out an order in this process, one at a time. An order that has begun is not cut off
// when the client gives it up, so that nothing is half done; one that has not begun then does not begin.
func (s *Server) carryOut(ctx context.Context, do func(context.Context) (app.Ordered, error)) (any, error) {
	s.order.Lock()
	defer s.order.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	done, err := do(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	return did{Task: done.Task, Status: done.Status, Says: brief(done.Says, 600), Next: done.Next}, nil
}

// ordered returns a channel that is closed once no order is being carried out.
func (s *Server) ordered() <-chan struct{} {
	over := make(chan struct{})
	go func() {
		s.order.Lock()
		defer s.order.Unlock()
		close(over)
	}()
	return over
}

// begin has this program carry out an order in a process that outlives this one, as long as the order takes.
func (s *Server) begin(p *app.Project, id string, args ...string) (any, error) {
	said, err := s.program(p).Begin(beginning, append(args, "--", id)...)
	if said.GoesOn {
		said.Says = args[0] + " is being carried out"
	}
	return begun(id, said, err)
}

// begun returns what the program said about an order that goes on.
func begun(id string, said app.Said, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	next := said.Next
	if next == "" && id != "" {
		next = call("task_show", id)
	}
	return did{Task: id, Says: brief(said.Says, 600), Next: next}, nil
}
