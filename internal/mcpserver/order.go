package mcpserver

import (
	"context"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// did is what came of an order.
type did struct {
	Task   string         `json:"task,omitempty"`
	Status trellis.Status `json:"status,omitempty"`
	Says   string         `json:"says"`
	Next   string         `json:"next,omitempty"`
}

// carryOut carries out an order in this process, one at a time. One that has begun is not cut off when the client gives it up, so
// that nothing is done by half; one that has not does not begin then.
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

// ordered is closed when no order is carried out any more.
func (s *Server) ordered() <-chan struct{} {
	over := make(chan struct{})
	go func() {
		s.order.Lock()
		defer s.order.Unlock()
		close(over)
	}()
	return over
}

// begin has this program carry out an order in a process that outlives this one, as long as that takes.
func (s *Server) begin(p *app.Project, id string, args ...string) (any, error) {
	said, err := s.program(p).Begin(beginning, append(args, "--", id)...)
	if said.GoesOn {
		said.Says = args[0] + " is being carried out"
	}
	return begun(id, said, err)
}

// begun is what the program said of what goes on now.
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
