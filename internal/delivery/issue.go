package delivery

import (
	"context"
	"errors"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/tracker"
)

// commentOnIssue comments the address of the pull request on the issue that the work came from, if that is wanted. It does so
// once, so a person may delete the comment; before it writes one it looks for an existing one, since a process may have died
// before the comment was recorded. Errors only become notes, since the pull request exists.
func (d *Deliverer) commentOnIssue(ctx context.Context, w Work, out *Delivered) error {
	if d.Issues == nil || out.PRURL == "" || w.Source.Issue == "" || !w.Source.Comment && !d.Issues.Settings.Comment {
		return nil
	}
	known, err := ReadRecord(d.Dir)
	if err != nil {
		return err
	}
	what := "comment " + w.Source.Issue
	if known.wasGiven(out.PRURL, what) {
		return nil
	}
	ref, err := tracker.ParseSource(w.Source.Issue, w.Source.URL, d.Issues.Sites())
	if err == nil {
		mark := "Trellis, task " + w.Task
		_, err = d.Issues.CommentOnce(ctx, ref, fmt.Sprintf("Pull request: %s\n\n%s", out.PRURL, mark), out.PRURL, mark)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		note := fmt.Sprintf("issue %s was not linked to the pull request: %s", w.Source.Issue, d.Redact.message(err))
		if told, ok := errors.AsType[*tracker.Error](err); ok && len(told.Next) > 0 {
			note += "; next: " + told.Next[0]
		}
		out.Notes = append(out.Notes, note)
		return nil
	}
	return d.updateRecord(func(r *Record) { r.Given[out.PRURL] = append(r.Given[out.PRURL], what) })
}
