package mcp

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// acts says of a tool that it changes something.
var acts = &sdk.ToolAnnotations{DestructiveHint: new(bool), OpenWorldHint: new(bool)}

func (s *server) addWork(to *sdk.Server) {
	add(to, s, sdk.Tool{Name: "task_plan", Description: "Have a requirement evaluated and planned as a task. Returns at once with the id; look with task_show, which also tells when it was rejected.", Annotations: acts}, s.plan)
	add(to, s, sdk.Tool{Name: "task_control", Description: "Start, stop, retry, cancel or deliver a task. Returns at once.", Annotations: acts}, s.control)
}

func (s *server) addDecisions(to *sdk.Server) {
	add(to, s, sdk.Tool{Name: "task_approve", Description: "Say yes to a plan or a waiting step for the person you work for, when they said so.", Annotations: acts}, s.approve)
	add(to, s, sdk.Tool{Name: "task_reject", Description: "Say no to a plan or a waiting step for the person you work for, when they said so.", Annotations: acts}, s.reject)
}

// byPeople refuses what a run may not do by itself.
func (s *server) byPeople(can string) error {
	if s.o.Inside {
		return app.Usagef("this runs inside a task or a run: only a person can %s", can)
	}
	return nil
}

type planIn struct {
	Requirement string `json:"requirement" jsonschema:"what is wanted and why, in the person's words"`
	Name        string `json:"name,omitempty" jsonschema:"of the task, as add-login; made of the requirement without it"`
	Type        string `json:"type,omitempty" jsonschema:"backend, frontend, fullstack, test or docs"`
	Priority    string `json:"priority,omitempty" jsonschema:"P0 to P3"`
	Package     string `json:"package,omitempty" jsonschema:"of a monorepo"`
}

func (s *server) plan(ctx context.Context, in planIn) (string, error) {
	if err := s.byPeople("plan a task"); err != nil {
		return "", err
	}
	said, err := s.o.Program.Plan(ctx, app.Planning{Requirement: in.Requirement, Name: in.Name, Type: in.Type, Priority: in.Priority, Package: in.Package})
	if err != nil {
		return "", err
	}
	return told(said.Says, said.Next), nil
}

type controlIn struct {
	Task     string `json:"task" jsonschema:"its id"`
	Action   string `json:"action" jsonschema:"start, stop, retry, cancel or deliver"`
	Feedback string `json:"feedback,omitempty" jsonschema:"for retry: what the person says to the work that is there"`
}

// patience is how long an order may take to say that it can't be carried out.
const patience = 1200 * time.Millisecond

func (s *server) control(ctx context.Context, in controlIn) (string, error) {
	if err := s.byPeople("steer tasks"); err != nil {
		return "", err
	}
	dir, err := s.task(in.Task)
	if err != nil {
		return "", err
	}
	var args []string
	switch in.Action {
	case "start":
		args = []string{"start", "--detach"}
	case "cancel", "deliver":
		args = []string{in.Action}
	case "stop":
		return ordered(s.p.Orders().Stop(ctx, dir))
	case "retry":
		return s.retry(ctx, dir, in.Feedback)
	default:
		return "", app.Usagef("action %q is none of start, stop, retry, cancel, deliver", text.Clip(trellis.Visible(in.Action), 40))
	}
	id := filepath.Base(dir)
	said, err := s.o.Program.Begin(patience, append(args, "--", id)...)
	if err != nil {
		return "", err
	}
	if said.GoesOn {
		said = app.Said{Says: in.Action + " of " + id + " goes on", Next: "task_show"}
	}
	return told(said.Says, said.Next), nil
}

func (s *server) retry(ctx context.Context, dir, feedback string) (string, error) {
	if feedback = strings.TrimSpace(feedback); feedback == "" {
		return ordered(s.p.Orders().Retry(ctx, dir, false))
	}
	if err := app.CheckFeedback("the feedback", feedback); err != nil {
		return "", err
	}
	return ordered(s.p.Orders().SendBack(ctx, dir, feedback))
}

type decisionIn struct {
	Task   string `json:"task" jsonschema:"its id"`
	Hash   string `json:"hash" jsonschema:"of what the person saw, as task_review shows it"`
	Step   string `json:"step,omitempty" jsonschema:"the step that waits; without it the plan"`
	Reason string `json:"reason,omitempty" jsonschema:"of a no"`
}

func (s *server) approve(ctx context.Context, in decisionIn) (string, error) {
	return s.decide(ctx, in, s.p.Orders().Approve)
}

func (s *server) reject(ctx context.Context, in decisionIn) (string, error) {
	return s.decide(ctx, in, s.p.Orders().Reject)
}

func (s *server) decide(ctx context.Context, in decisionIn, do func(context.Context, string, app.Decision) (app.Ordered, error)) (string, error) {
	if err := s.byPeople("decide about a task"); err != nil {
		return "", err
	}
	dir, err := s.task(in.Task)
	if err != nil {
		return "", err
	}
	if in.Hash == "" {
		return "", app.WithHints(app.Usagef("a decision names the hash of what was shown"), "task_review")
	}
	for what, said := range map[string]string{"the reason": in.Reason, "the step": in.Step, "the hash": in.Hash} {
		if err := app.CheckFeedback(what, said); err != nil {
			return "", err
		}
	}
	return ordered(do(ctx, dir, app.Decision{Step: in.Step, Shown: in.Hash, Reason: in.Reason}))
}

func ordered(done app.Ordered, err error) (string, error) { return told(done.Says, done.Next), err }

// told is what came of an order, and what comes next.
func told(says, next string) string {
	says = text.Clip(trellis.Visible(says), 2000) + "\n"
	if next != "" {
		says += "next: " + trellis.Visible(next) + "\n"
	}
	return says
}
