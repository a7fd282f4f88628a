package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// PlanLabel is the label of issues that hold plans.
const PlanLabel = "trellis-plan"

// ErrNoIssue says that a step is planned, and its plan in no issue yet.
var ErrNoIssue = errors.New("its plan could not be put into an issue")

// maxIssue is how much of a plan goes into an issue, in bytes. GitHub takes 65536 characters.
const maxIssue = 60 << 10

// openIssue puts the plan of a step into an issue, once, and has the roadmap name that. Nothing is ever read back
// from it.
func (s Objectives) openIssue(ctx context.Context, name string, f *github.Client, res *StepResult) error {
	t, err := s.Store.Load(res.Dir)
	if err != nil {
		return err
	}
	if t.Status == trellis.Rejected || t.Status == trellis.Planning {
		return nil // there is no plan
	}
	text, err := taskdir.ReadFile(res.Dir, taskdir.PRD)
	if err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	sum := sha256.Sum256([]byte(name + "\x00" + res.Step.ID))
	n := github.NewIssue{Title: t.Title, Label: PlanLabel, Mark: fmt.Sprintf("<!-- trellis plan %s %s -->", hex.EncodeToString(sum[:8]), t.ID)}
	body := strings.ToValidUTF8(string(text[:min(len(text), maxIssue)]), "")
	if len(text) > maxIssue {
		body += "\n\n[cut here]"
	}
	n.Body = body + "\n\n" + n.Mark + "\n"
	if res.Issue, err = f.EnsureIssue(ctx, n); err != nil {
		return fmt.Errorf("step %s of %s is planned as %s, but %w: %w", res.Step.ID, name, res.Task, ErrNoIssue, err)
	}
	if err := s.desk().NoteIssue(ctx, s.Store, name, res.Dir, res.Issue.Number); err != nil {
		return err
	}
	return s.link(ctx, name, res)
}
