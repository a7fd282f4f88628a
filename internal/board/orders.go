package board

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// order is what a task can be told.
type order struct {
	Name, Says, Key string
	Strong          bool   // what is most likely wanted
	Asks            string // what a person is asked before; "": nothing
}

// ordersFor are what a task can be told as it stands. A yes to its plan stands beside the plan.
func ordersFor(t *status.Task) (list []order) {
	start := order{Name: "start", Says: "Start", Key: "s", Strong: true}
	retry := order{Name: "retry", Says: "Retry", Key: "r", Strong: t.Status == trellis.Failed}
	cancel := order{Name: "cancel", Says: "Cancel", Key: "c", Asks: "Cancel this task? Its worktree and branch stay, and trellis undo takes it back."}
	switch t.Status {
	case trellis.Ready:
		return []order{start, cancel}
	case trellis.InProgress:
		if t.HeldBy == nil {
			return []order{start, cancel}
		}
		return []order{{Name: "stop", Says: "Stop", Key: "p"}, cancel}
	case trellis.Paused:
		return []order{start, retry, cancel}
	case trellis.Waiting:
		return []order{cancel}
	case trellis.Failed:
		return []order{retry, cancel}
	case trellis.Cancelled:
		return []order{retry}
	case trellis.Review:
		deliver := order{Name: "deliver", Says: "Deliver", Key: "d", Strong: true, Asks: "Push the branch and open a pull request?"}
		return []order{deliver, retry, cancel}
	}
	return nil
}

// answer is what came of an order.
type answer struct {
	Says, Next string
	Wrong      bool
}

// give gives an order to a task, and says what came of it.
func (s *Server) give(ctx context.Context, r *http.Request) (string, error) {
	dir, err := s.known(ctx, r.PathValue("id"))
	if err != nil {
		return "", err
	}
	if err := r.ParseForm(); err != nil {
		return "", app.AsKind(app.ErrUsage, err)
	}
	a, err := s.carryOut(context.WithoutCancel(ctx), r.PathValue("order"), dir, r)
	if errors.Is(err, runner.ErrPlanChanged) {
		err = app.AsKind(app.ErrUnmet, errors.New("it was changed since it was shown: nothing is decided, and below is what it says now"))
	}
	if err != nil {
		a = answer{Says: err.Error(), Next: strings.Join(app.HintsOf(err), " · "), Wrong: true}
	}
	html, renderErr := render("said", a)
	return html, errors.Join(err, renderErr)
}

// carryOut carries out an order: those that lead to hooks and other programs by this program in a process of its own, as
// long as that takes; the others here, one at a time.
func (s *Server) carryOut(ctx context.Context, name, dir string, r *http.Request) (answer, error) {
	id := r.PathValue("id")
	switch name {
	case "start":
		return answered(s.program().Run(ctx, "start", "--detach", "--", id))
	case "cancel", "deliver":
		return answered(s.program().Run(ctx, name, "--", id))
	case "revise":
		return answered(s.program().Revise(id, r.PostFormValue("reason")))
	}
	s.order.Lock()
	defer s.order.Unlock()
	did, err := s.tell(ctx, name, dir, r)
	return answer{Says: did.Says, Next: did.Next}, err
}

func (s *Server) tell(ctx context.Context, name, dir string, r *http.Request) (app.Ordered, error) {
	orders := s.p.Orders()
	switch name {
	case "approve", "reject":
		d := app.Decision{Step: r.PostFormValue("step"), Shown: r.PostFormValue("shown"), Reason: r.PostFormValue("reason")}
		if d.Shown == "" {
			return app.Ordered{}, app.Usagef("a decision names what was shown, and this one names nothing: load the page again")
		}
		if name == "approve" {
			return orders.Approve(ctx, dir, d)
		}
		return orders.Reject(ctx, dir, d)
	case "stop":
		return orders.Stop(ctx, dir)
	case "retry":
		return orders.Retry(ctx, dir, false)
	case "sendback":
		return s.sendBack(ctx, dir, r)
	}
	return app.Ordered{}, app.AsKind(app.ErrNotFound, fmt.Errorf("nobody knows the order %q", clip(name, 40)))
}

// program is this program, for orders that it carries out in a process of its own.
func (s *Server) program() app.Program {
	return app.Program{Self: s.o.Self, Dir: s.o.Dir, Env: s.p.Env.Vars}
}

// answered is what the program said as an answer.
func answered(said app.Said, err error) (answer, error) {
	return answer{Says: said.Says, Next: said.Next}, err
}
