package tracker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/rest"
)

// withComments adds the comments to an issue, and refuses one that lacks what every issue has.
func withComments(ctx context.Context, t Tracker, i *Issue, key string) (_ *Issue, err error) {
	if strings.TrimSpace(i.Title) == "" || i.Ref.Key == "" {
		return nil, fmt.Errorf("what came back of %s has no name or no title", key)
	}
	if i.Comments, err = t.Comments(ctx, key); err != nil {
		return nil, fmt.Errorf("reading its comments: %w", err)
	}
	return i, nil
}

// inOrder sorts comments by when they were written, which every tracker spells so that letters decide.
func inOrder(list []Comment) []Comment {
	slices.SortStableFunc(list, func(a, b Comment) int { return strings.Compare(a.At, b.At) })
	return list[:min(len(list), maxComments)]
}

// missing reports whether a server has no such thing, or shows it to others alone.
func missing(err error) bool {
	var no *rest.Error
	return errors.As(err, &no) && !no.Busy() && (no.Status == http.StatusNotFound || no.Status == http.StatusForbidden)
}
