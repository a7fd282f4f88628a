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

// order is an order that a task can be given.
type order struct {
	Name, Says, Key string
	Strong          bool   // the most likely choice
	Asks            string // what a person is asked before it is given; "": nothing
}

// ordersFor returns the orders that a task in its state can be given. Approval of its plan is offered beside the plan.
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

// answer is the result of an order.
type answer struct {
	Says, Next string
	Wrong      bool
}

// giveOrder gives an order to a task, and returns its result as HTML.
func (s *Server) giveOrder(ctx context.Context, r *http.Request) (string, error) {
	dir, err := s.taskDir(ctx, r.PathValue("id"))
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

// carryOut carries out an order. Orders that lead to hooks and other programs run this program in a
// separate process, as long as that takes; others run here, one at a time.
func (s *Server) carryOut(ctx context.Context, name, dir string, r *http.Request) (answer, error) {
	id := r.PathValue("id")
	switch name {
	case "start":
		return programAnswer(s.program().Run(ctx, "start", "--detach", "--", id))
	case "cancel", "deliver":
		return programAnswer(s.program().Run(ctx, name, "--", id))
	case "revise":
		return programAnswer(s.program().Revise(id, r.PostFormValue("reason")))
	}
	s.orderLock.Lock()
	defer s.orderLock.Unlock()
	did, err := s.applyOrder(ctx, name, dir, r)
	return answer{Says: did.Says, Next: did.Next}, err
}

func (s *Server) applyOrder(ctx context.Context, name, dir string, r *http.Request) (app.OrderResult, error) {
	orders := s.p.Orders()
	switch name {
	case "approve", "reject":
		d := app.Decision{Step: r.PostFormValue("step"), Shown: r.PostFormValue("shown"), Reason: r.PostFormValue("reason")}
		if d.Shown == "" {
			return app.OrderResult{}, app.Usagef("a decision names what was shown, and this one names nothing: load the page again")
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
	return app.OrderResult{}, app.AsKind(app.ErrNotFound, fmt.Errorf("unknown action %q", clip(name, 40)))
}

// program returns this program, for orders that run in a separate process.
func (s *Server) program() app.Program {
	return app.Program{Self: s.o.Self, Dir: s.o.Dir, Env: s.p.Env.Vars}
}

// programAnswer returns the output of the program as an answer.
func programAnswer(said app.Output, err error) (answer, error) {
	return answer{Says: said.Says, Next: said.Next}, err
}
