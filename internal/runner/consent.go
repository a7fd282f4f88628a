package runner

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// DecideStep records what a person says to a step that a run waits with, of a task or of a file, both named by
// their directory. a.Step is the step's path; it may be empty when there is one alone. It returns the request, and what people said to
// it altogether: of a yes and a no the first one counts.
func (s Approvals) DecideStep(dir string, a proof.Approval) (q workflow.Request, said workflow.Answer, err error) {
	if q, err = s.asked(dir, a.Step); err != nil {
		return q, said, err
	}
	a.Step, a.Hash, a.At = q.Path, q.Hash, s.Clock().UTC()
	if d := s.Config.Planning.ApprovalExpires; d > 0 && a.Decision == proof.Approve {
		a.ExpiresAt = a.At.Add(d)
	}
	if err := s.say(dir, a); err != nil {
		return q, said, err
	}
	said, err = workflow.Decision(s.Disk, dir, q, s.counts(), s.Clock())
	return q, said, err
}

// say writes a decision down, signed where there is a key to sign with. The judge of what came by git sees it before git does.
func (s Approvals) say(dir string, a proof.Approval) (err error) {
	a.Account = s.Account
	if s.SignWith != nil {
		if a, err = a.Sign(s.SignWith); err != nil {
			return err
		}
	}
	if err := proof.Append(s.Disk, dir, a); err != nil {
		return err
	}
	_, err = s.counts().Read(dir)
	return err
}

// asked is the request for a step of a run.
func (s Approvals) asked(dir, step string) (q workflow.Request, err error) {
	id := filepath.Base(dir)
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if errors.Is(err, journal.ErrNone) {
		return q, &RefusedError{id + " does not run, and no step of it waits", "trellis status " + id}
	}
	if err != nil {
		return q, err
	}
	open, err := workflow.Open(h)
	if err != nil {
		return q, err
	}
	var paths []string
	for _, q := range open {
		if q.Path == step || step == "" && len(open) == 1 {
			return q, nil
		}
		paths = append(paths, q.Path)
	}
	switch {
	case h.Ended || len(open) == 0:
		return q, &RefusedError{id + " waits with no step", ""}
	case step == "":
		return q, &RefusedError{fmt.Sprintf("%s waits with %d steps: %s", id, len(open), strings.Join(paths, ", ")), "add --step " + paths[0]}
	}
	return q, &RefusedError{fmt.Sprintf("%s does not wait with a step %s, but with %s", id, step, strings.Join(paths, ", ")), ""}
}
