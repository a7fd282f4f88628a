package board

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
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
	s.order.Lock()
	defer s.order.Unlock()
	a, err := s.carryOut(context.WithoutCancel(ctx), r.PathValue("order"), dir, r)
	if errors.Is(err, runner.ErrPlanChanged) {
		err = app.WithHints(app.AsKind(app.ErrUnmet, errors.New("the plan was changed since it was shown: nothing is decided, and below is what it says now")), "read it again")
	}
	if err != nil {
		a = answer{Says: err.Error(), Next: strings.Join(app.HintsOf(err), " · "), Wrong: true}
	}
	html, renderErr := render("said", a)
	return html, errors.Join(err, renderErr)
}

func (s *Server) carryOut(ctx context.Context, name, dir string, r *http.Request) (answer, error) {
	var did app.Ordered
	var err error
	id := r.PathValue("id")
	d := app.Decision{Step: r.PostFormValue("step"), Shown: r.PostFormValue("shown"), Reason: r.PostFormValue("reason")}
	switch name {
	case "approve", "reject":
		if d.Step == "" && d.Shown == "" {
			return answer{}, app.Usagef("a decision names the plan that was shown, and this one names none: load the page again")
		}
		if name == "approve" {
			did, err = s.p.Orders().Approve(ctx, dir, d)
		} else {
			did, err = s.p.Orders().Reject(ctx, dir, d)
		}
	case "stop":
		did, err = s.p.Orders().Stop(ctx, dir)
	case "retry":
		return s.retry(ctx, dir, r)
	case "revise":
		return s.revise(ctx, id, r)
	case "start":
		return s.run(ctx, "start", "--detach", "--", id)
	case "cancel", "deliver": // they lead to hooks and programs
		return s.run(ctx, name, "--", id)
	default:
		return answer{}, app.AsKind(app.ErrNotFound, fmt.Errorf("nobody knows the order %q", clip(name, 40)))
	}
	return answer{Says: did.Says, Next: did.Next}, err
}

func (s *Server) retry(ctx context.Context, dir string, r *http.Request) (answer, error) {
	did, err := s.p.Orders().Retry(ctx, dir, r.PostFormValue("fresh") != "")
	return answer{Says: did.Says, Next: did.Next}, err
}

// revise has a task planned again with what a person says about its plan.
func (s *Server) revise(ctx context.Context, id string, r *http.Request) (answer, error) {
	said := strings.TrimSpace(strings.ReplaceAll(r.PostFormValue("reason"), "\r\n", "\n"))
	if said == "" {
		return answer{}, app.Usagef("say what should be different")
	}
	if err := app.CheckFeedback("your feedback", said); err != nil {
		return answer{}, err
	}
	return s.background(id+" is planned again", "plan", "--retry="+id, "--feedback="+said)
}

// run runs this program for an order, and tells what it said.
func (s *Server) run(ctx context.Context, args ...string) (answer, error) {
	cmd := exec.CommandContext(ctx, s.o.Self, args...)
	cmd.Dir, cmd.Env = s.o.Dir, s.p.Env.Vars
	out, err := cmd.CombinedOutput()
	return toldBy(string(out), err)
}

// toldBy takes apart what this program said when it was run, and how it ended.
func toldBy(out string, err error) (a answer, _ error) {
	var said []string
	for one := range strings.Lines(out) {
		one = strings.TrimPrefix(strings.TrimSpace(one), "trellis: ")
		if next, is := strings.CutPrefix(one, "next: "); is {
			a.Next = next
			continue
		}
		if head, next, is := strings.Cut(one, "; next: "); is {
			one, a.Next = head, next
		}
		if one != "" && !slices.Contains(said, one) {
			said = append(said, one)
		}
	}
	a.Says = strings.Join(said, "; ")
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return a, err
	}
	if a.Says == "" {
		return a, err
	}
	err = app.AsKind(app.ErrUnmet, errors.New(a.Says))
	if a.Next != "" {
		err = app.WithHints(err, a.Next)
	}
	return a, err
}
