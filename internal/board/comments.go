package board

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/diffview"
)

// maxComments is how many comments are sent at once.
const maxComments = 500

// readDiff reads what a task changed file by file, and returns the hash of the whole diff.
func (s *Server) readDiff(ctx context.Context, dir string, each func(*diffview.File) error) (began bool, sum string, err error) {
	in, out := io.Pipe()
	hash, read := sha256.New(), make(chan error, 1)
	go func() {
		err := diffview.Read(io.TeeReader(in, hash), each)
		_ = in.CloseWithError(err) // the writer gets the error and returns it
		read <- err
	}()
	began, err = s.p.Diff(ctx, dir, false, out)
	_ = out.CloseWithError(err) // nil: all was written
	if readErr := <-read; err == nil {
		err = readErr
	}
	return began, hex.EncodeToString(hash.Sum(nil)), err
}

// sendBack has a task worked on again with a person's comments on its diff, if the diff is still the one they were shown.
func (s *Server) sendBack(ctx context.Context, dir string, r *http.Request) (app.OrderResult, error) {
	comments, err := commentsOf(r.PostFormValue("comments"))
	if err != nil {
		return app.OrderResult{}, err
	}
	left := slices.Clone(comments)
	_, sum, err := s.readDiff(ctx, dir, func(f *diffview.File) error {
		left = slices.DeleteFunc(left, func(c *diffview.Comment) bool { return c.Locate(f) })
		return nil
	})
	switch shown := r.PostFormValue("shown"); {
	case err != nil:
		return app.OrderResult{}, err
	case shown == "":
		return app.OrderResult{}, app.Usagef("comments name the diff that was shown, and these name none: load the page again")
	case shown != sum:
		return app.OrderResult{}, app.WithHints(app.AsKind(app.ErrUnmet, errors.New("the diff was changed since it was shown: nothing is sent, and your comments are kept")), "reload the page, and check them")
	case len(left) > 0:
		return app.OrderResult{}, app.Usagef("%s is not in the diff: nothing is sent, and your comments are kept", clip(left[0].Place(), 200))
	}
	return s.p.Orders().RetryWithFeedback(ctx, dir, diffview.Feedback(normalizeText(r.PostFormValue("general")), comments))
}

// commentsOf decodes the comments that a browser sent.
func commentsOf(sent string) (list []*diffview.Comment, err error) {
	if sent == "" {
		return nil, nil
	}
	in := json.NewDecoder(strings.NewReader(sent))
	in.DisallowUnknownFields()
	if err := in.Decode(&list); err != nil {
		return nil, app.AsKind(app.ErrUsage, fmt.Errorf("reading the comments: %w", err))
	}
	if len(list) > maxComments {
		return nil, app.Usagef("there are %d comments, at most %d are sent at once", len(list), maxComments)
	}
	for _, c := range list {
		if c == nil || strings.TrimSpace(c.Text) == "" {
			return nil, app.Usagef("a comment says nothing")
		}
		c.Text = normalizeText(c.Text)
	}
	return list, nil
}

// normalizeText returns what a person wrote, with lines that end with \n alone.
func normalizeText(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }
