package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

type reviewArguments struct {
	Task   string `json:"task" jsonschema:"name from task_list"`
	Cursor string `json:"cursor,omitempty"`
}

type reviewAnswer struct {
	Note   string         `json:"note"`
	Task   string         `json:"task"`
	Status trellis.Status `json:"status"`
	Asked  bool           `json:"approval_missing"`
	Agreed []string       `json:"agreed,omitempty"`
	Step   *step          `json:"step,omitempty"` // the step that waits for a person; a decision about it names its own hash
	Plan   string         `json:"plan"`
	Cursor string         `json:"cursor,omitempty"` // cursor of the next page
	Hash   string         `json:"hash,omitempty"`   // only on the last page, so that a decision follows on reading all
}

// review shows a plan whole, page by page. All pages are of the same plan: if it is changed meanwhile, reading starts over.
func (s *Server) review(ctx context.Context, p *app.Project, in reviewArguments) (any, error) {
	dir, err := find(p, in.Task)
	if err != nil {
		return nil, err
	}
	r, err := p.Review(ctx, dir)
	if err != nil {
		return nil, err
	}
	id := nameOf(dir)
	from := cursor{source: r.Hash}
	if in.Cursor != "" {
		if from, err = parseCursor(in.Cursor, "task_review"); err != nil {
			return nil, err
		}
		if from.source != r.Hash {
			return nil, app.WithHints(app.Usagef("the plan was changed since the page before"), callHint("task_review", id))
		}
	}
	var b bytes.Buffer
	if err := terminal.Review(&b, r, terminal.Style{}); err != nil {
		return nil, err
	}
	part, rest := pageOf(b.String(), from.offset)
	a := reviewAnswer{Note: dataNote, Task: id, Status: r.Status, Asked: r.Asked, Agreed: briefs(r.Agreed, 10, 60), Step: waitingStep(dir, s.o.Env.Now()), Plan: part}
	if rest > 0 {
		a.Cursor = cursor{r.Hash, rest}.String()
	} else {
		a.Hash = r.Hash
	}
	return a, nil
}

// pageOf returns a page of a text from a byte on, up to the end of a line if there is one, and where the next begins; 0: none.
func pageOf(s string, from int) (part string, next int) {
	s = strings.ToValidUTF8(s, "�")
	from = min(from, len(s))
	part = s[from:]
	if jsonSize(part) <= maxPage {
		return part, 0
	}
	end, room := 0, maxPage
	for i, r := range part {
		if room -= jsonSize(string(r)); room < 0 {
			break
		}
		end = i + len(string(r))
	}
	if at := strings.LastIndexByte(part[:end], '\n'); at > end/2 {
		end = at + 1
	}
	return part[:end], from + end
}

// jsonSize returns how many bytes a text takes in an answer, at most.
func jsonSize(s string) (n int) {
	for _, r := range s {
		switch {
		case r == '"' || r == '\\' || r == '\n' || r == '\t' || r == '\r':
			n += 2
		case r < ' ' || r == '\u2028' || r == '\u2029':
			n += 6
		default:
			n += len(string(r))
		}
	}
	return n
}

type approveArguments struct {
	Task string `json:"task"`
	Hash string `json:"hash" jsonschema:"hash from the last page of task_review, or of its step"`
	Step string `json:"step,omitempty" jsonschema:"path of the waiting step; default: the plan"`
}

type rejectArguments struct {
	Task   string `json:"task"`
	Hash   string `json:"hash"`
	Reason string `json:"reason"`
	Step   string `json:"step,omitempty"`
}

func (s *Server) approve(ctx context.Context, p *app.Project, in approveArguments) (any, error) {
	return s.decide(ctx, p, in.Task, app.Decision{Shown: in.Hash, Step: in.Step}, app.Orders.Approve)
}

func (s *Server) reject(ctx context.Context, p *app.Project, in rejectArguments) (any, error) {
	if err := app.CheckFeedback("the reason", in.Reason); err != nil {
		return nil, err
	}
	return s.decide(ctx, p, in.Task, app.Decision{Shown: in.Hash, Step: in.Step, Reason: in.Reason}, app.Orders.Reject)
}

func (s *Server) decide(ctx context.Context, p *app.Project, ref string, d app.Decision, say func(app.Orders, context.Context, string, app.Decision) (app.OrderResult, error)) (any, error) {
	if err := s.o.Env.RequirePerson("approve or reject"); err != nil {
		return nil, err
	}
	dir, err := find(p, ref)
	if err != nil {
		return nil, err
	}
	review := callHint("task_review", nameOf(dir))
	switch {
	case d.Shown == "":
		return nil, app.WithHints(app.Usagef("a decision names the hash of what was shown"), review)
	case len(d.Shown) > maxName || len(d.Step) > maxName:
		return nil, app.WithHints(app.Usagef("hash and step are those that task_review shows"), review)
	}
	done, err := s.carryOut(ctx, func(ctx context.Context) (app.OrderResult, error) { return say(p.Orders(), ctx, dir, d) })
	if errors.Is(err, runner.ErrPlanChanged) {
		err = app.WithHints(app.AsKind(app.ErrUnmet, errors.New("it was changed since it was shown: nothing is decided")), review)
	}
	return done, err
}
