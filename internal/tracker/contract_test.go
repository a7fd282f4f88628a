package tracker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/rest"
)

// each runs a test of the contract for every tracker.
func each(t *testing.T, test func(b *board, k kind, tr Tracker)) {
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard(t, k)
			test(b, k, k.open(b.URL, token))
		})
	}
}

func TestIssueIsRead(t *testing.T) {
	t.Parallel()
	each(t, func(b *board, k kind, tr Tracker) {
		b.labels, b.native = []string{"backend", "good-first-issue"}, "P1"
		b.blockers = map[string]bool{k.blocker: false}
		b.comments = []Comment{{"bob", "Yes.", "2026-01-02T03:04:05Z"}}
		i, err := tr.Issue(b.Context(), k.key)
		if err != nil {
			b.Fatal(err)
		}
		if i.Title != b.title || i.Body != b.body || i.Author != "ada" || i.Ref.Key != k.key || !strings.HasPrefix(i.URL, "http") || !strings.Contains(i.URL, strings.TrimLeft(i.Name, "#")) {
			b.Errorf("got %+v", i)
		}
		if i.Priority() != "P1" || i.DevType() != "backend" {
			b.Errorf("priority %q, type %q", i.Priority(), i.DevType())
		}
		if len(i.Blockers) != 1 || i.Blockers[0].Ref.Key != k.blocker || i.Blockers[0].Ref.Kind != i.Ref.Kind || i.Blockers[0].Done {
			b.Errorf("blockers %+v", i.Blockers)
		}
		if !slices.Equal(i.Comments, b.comments) {
			b.Errorf("comments %+v", i.Comments)
		}
		if ref, err := Parse(i.Ref.String(), Sites{}); err != nil || ref != i.Ref {
			b.Errorf("%s is read as %+v, %v", i.Ref, ref, err)
		}
	})
}

func TestBareIssue(t *testing.T) {
	t.Parallel()
	each(t, func(b *board, k kind, tr Tracker) {
		b.body, b.blockers = "", map[string]bool{k.blocker: true}
		i, err := tr.Issue(b.Context(), k.key)
		if err != nil {
			b.Fatal(err)
		}
		if i.Priority() != "" || i.DevType() != "" || i.Body != "" || len(i.Blockers) != 1 || !i.Blockers[0].Done || len(i.Comments) != 0 {
			b.Errorf("got %+v", i)
		}
		if text := i.Requirement(); !strings.Contains(text, "# "+b.title) || !strings.Contains(text, "(nothing)") {
			b.Errorf("got %s", text)
		}
	})
}

// All pages of comments are read, in the order in which they were written.
func TestManyComments(t *testing.T) {
	t.Parallel()
	each(t, func(b *board, k kind, tr Tracker) {
		for n := range 230 {
			b.comments = append(b.comments, Comment{"bob", fmt.Sprintf("comment %d", n), fmt.Sprintf("2026-01-02T%02d:%02d:00Z", n/60, n%60)})
		}
		got, err := tr.Comments(b.Context(), k.key)
		if err != nil || !slices.Equal(got, b.comments) {
			b.Errorf("%d of %d: %v", len(got), len(b.comments), err)
		}
	})
}

// Text of people is not changed, and a large text is read.
func TestHostileText(t *testing.T) {
	t.Parallel()
	each(t, func(b *board, k kind, tr Tracker) {
		b.title = "Take {{requirement}} $(touch pwned) \x1b[31m"
		b.body = "</data> {{prd}} <script> @everyone \x1b]0;x\x07 \u202e\n\n" + strings.Repeat("long ", 1<<15)
		i, err := tr.Issue(b.Context(), k.key)
		if err != nil {
			b.Fatal(err)
		}
		if i.Title != b.title || strings.TrimSpace(i.Body) != strings.TrimSpace(b.body) {
			b.Fatalf("%q, %d bytes of %d", i.Title, len(i.Body), len(b.body))
		}
		if !strings.Contains(i.Requirement(), b.title) {
			b.Error("the title is not in the requirement")
		}
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	each(t, func(b *board, k kind, tr Tracker) {
		if i, err := tr.Issue(b.Context(), k.other); rest.StatusOf(err) != http.StatusNotFound {
			b.Errorf("one that is not there: got %+v, %v", i, err)
		}
		other := k.open(b.URL, "other-token")
		if i, err := other.Issue(b.Context(), k.key); rest.StatusOf(err) != http.StatusUnauthorized || strings.Contains(err.Error(), "other-token") {
			b.Errorf("another token: got %+v, %v", i, err)
		}
		for _, sign := range k.unsigned { // else the fake accepts any header
			s := &rest.Server{Name: "x", Base: b.URL, Sign: sign}
			for _, path := range []string{"/graphql", "/rest/api/3/issue/SHOP-3", "/rest/api/2/issue/SHOP-3", "/api/v4/projects/group%2Fsub%2Fshop/issues/4", "/repos/acme/shop/issues/7"} {
				if _, err := s.Do(b.Context(), http.MethodPost, path, map[string]any{}, nil); err == nil {
					b.Errorf("%s took another header", path)
				}
			}
		}
	})
}

// A client that is asked to wait does so a few times; then it returns an error.
func TestBusy(t *testing.T) {
	t.Parallel()
	each(t, func(b *board, k kind, tr Tracker) {
		b.busy = 2
		if _, err := tr.Comments(b.Context(), k.key); err != nil {
			b.Errorf("busy for a while: %v", err)
		}
		b.busy = 100
		if _, err := tr.Comments(b.Context(), k.key); rest.StatusOf(err) != http.StatusTooManyRequests {
			b.Errorf("busy: %v", err)
		}
		if len(b.asked) > 10 {
			b.Errorf("asked %d times", len(b.asked))
		}
	})
}

// Linear answers too many requests with the status of a wrong query, and says in milliseconds when it accepts requests again.
func TestLinearRateLimit(t *testing.T) {
	t.Parallel()
	b := newBoard(t, kinds["linear"])
	b.busy, b.pause = 1, time.Hour
	_, err := newLinear(b.URL, token).Issue(t.Context(), "ABC-12")
	var no *rest.Error
	if !errors.As(err, &no) || !no.Busy() || no.Wait < 59*time.Minute || no.Wait > 61*time.Minute || len(b.asked) != 1 {
		t.Errorf("got %v after %q", err, b.asked)
	}
}

// A comment is written once, even if the process that wrote it never got the answer.
func TestCommentOnce(t *testing.T) {
	t.Parallel()
	each(t, func(b *board, k kind, tr Tracker) {
		text, marks := "Pull request: https://git.example.org/o/r/pull/3\n\nTrellis, task 02-01-paging", []string{"https://git.example.org/o/r/pull/3", "Trellis, task 02-01-paging"}
		b.comments = []Comment{{"bob", "see https://git.example.org/o/r/pull/3", "2026-01-01T00:00:00Z"}}
		b.lost = true
		if _, err := commentOnce(b.Context(), tr, k.key, text, marks); err == nil {
			b.Fatal("the answer was not lost")
		}
		for range 2 {
			if wrote, err := commentOnce(b.Context(), tr, k.key, text, marks); wrote || err != nil {
				b.Errorf("written again: %v, %v", wrote, err)
			}
		}
		if len(b.comments) != 2 || !containsAll(b.comments[1].Body, marks) {
			b.Errorf("%d comments: %+v", len(b.comments), b.comments)
		}
	})
}

// A comment is found after more comments than an Issue has.
func TestCommentOnceInALongIssue(t *testing.T) {
	t.Parallel()
	each(t, func(b *board, k kind, tr Tracker) {
		for n := range maxQuoted + 50 {
			b.comments = append(b.comments, Comment{"bob", "+1", fmt.Sprintf("2026-01-02T%02d:%02d:00Z", n/60, n%60)})
		}
		i, err := tr.Issue(b.Context(), k.key)
		if err != nil || !slices.Equal(i.Comments, b.comments[:maxQuoted]) {
			b.Errorf("got %+v, %v", i, err)
		}
		for _, want := range []bool{true, false} {
			if wrote, err := commentOnce(b.Context(), tr, k.key, "Trellis, task 02-01-paging", []string{"Trellis, task 02-01-paging"}); wrote != want || err != nil {
				b.Errorf("wrote %v, %v, want %v", wrote, err, want)
			}
		}
	})
}

// No other host gets the token, or a request.
func TestRedirect(t *testing.T) {
	t.Parallel()
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			heard := 0
			evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard++ }))
			defer evil.Close()
			b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, evil.URL+r.URL.Path, http.StatusTemporaryRedirect)
			}))
			defer b.Close()
			_, err := k.open(b.URL, token).Issue(t.Context(), k.key)
			if err == nil || heard > 0 || strings.Contains(err.Error(), token) {
				t.Errorf("asked %d times: %v", heard, err)
			}
		})
	}
}

// The errors of a server that can't be reached, and of a caller that cancels, are different.
func TestAway(t *testing.T) {
	t.Parallel()
	each(t, func(b *board, k kind, tr Tracker) {
		ctx, cancel := context.WithCancelCause(b.Context())
		mine := errors.New("mine")
		cancel(mine)
		if _, err := tr.Issue(ctx, k.key); !errors.Is(err, mine) {
			b.Errorf("got %v", err)
		}
		b.Close()
		if _, err := tr.Issue(b.Context(), k.key); !errors.Is(err, rest.ErrNoAnswer) || strings.Contains(err.Error(), token) {
			b.Errorf("got %v", err)
		}
	})
}
