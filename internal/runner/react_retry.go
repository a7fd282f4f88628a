package runner

import (
	"context"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// retryFixesPull reports whether a retry of a task in review is for what is wrong with its pull request, and not for what its last run
// left undone.
func retryFixesPull(t *taskdir.Task) bool {
	switch t.Pipeline.Failure.Code {
	case "", trellis.CIFailed, trellis.ChangesRequested:
		return t.Status == trellis.Review && t.PRURL != ""
	}
	return false
}

// fixPull begins a run for what checks or reviewers find wrong with the pull request of a task in review, because a person
// wants it: whatever delivery.react says, also for findings that had a run before, and with as many rounds again.
func (s Orders) fixPull(ctx context.Context, dir string) error {
	seen, err := s.PullRequests().Remote().Pulls(ctx, dir)
	if err != nil {
		return err
	}
	t, err := s.Store.Load(dir)
	switch {
	case err != nil:
		return err
	case t.Status != trellis.Review:
		return &RefusedError{fmt.Sprintf("%s is %s now, as its pull request is", t.ID, t.Status), ""}
	case len(seen.Open) == 0:
		return &RefusedError{strings.Join(append([]string{"nothing is known to be wrong with the pull request of " + t.ID}, seen.Notes...), ": "), "trellis status --refresh " + trellis.ShellWord(t.ID)}
	}
	begun, note, err := s.PullRequests().reactTo(ctx, seen.Open[0], true)
	switch {
	case err != nil || begun:
		return err
	case note == "":
		note = "no check and no reviewer finds anything wrong with " + t.PRURL
	}
	return &RefusedError{t.ID + " is in review, and there is nothing to retry: " + note, ""}
}
