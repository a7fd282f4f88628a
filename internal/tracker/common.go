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

// withComments adds the comments to an issue, and returns an error if the issue has no key or title.
func withComments(ctx context.Context, t Tracker, i *Issue, key string) (*Issue, error) {
	if strings.TrimSpace(i.Title) == "" || i.Ref.Key == "" {
		return nil, fmt.Errorf("what came back of %s has no name or no title", key)
	}
	list, err := t.Comments(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("reading its comments: %w", err)
	}
	i.Comments = list[:min(len(list), maxQuoted)]
	return i, nil
}

// sortComments sorts comments by time. All trackers format times so that they sort as strings.
func sortComments(list []Comment) []Comment {
	slices.SortStableFunc(list, func(a, b Comment) int { return strings.Compare(a.At, b.At) })
	return list
}

// isMissing reports whether the server doesn't have something, or doesn't show it to this account.
func isMissing(err error) bool {
	var no *rest.Error
	return errors.As(err, &no) && !no.Busy() && (no.Status == http.StatusNotFound || no.Status == http.StatusForbidden)
}
