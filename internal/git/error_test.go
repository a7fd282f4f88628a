package git_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
)

// An error shows git's message after a short form of the command, however many settings and paths the command has (edge A10).
func TestErrorIsShort(t *testing.T) {
	settings := slices.Repeat([]string{"-c", "core.hooksPath=/a/long/path/of/hooks"}, 20)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"plain":    {[]string{"status", "--short"}, "git status --short: fatal: no"},
		"settings": {append(settings, "commit", "-m", "Add paging\n\nwith a long body", "--no-edit"), "git commit -m Add paging… --no-edit: fatal: no"},
		"paths":    {append([]string{"add", "--"}, slices.Repeat([]string{"internal/a/long/path/of/a/file.go"}, 900)...), "git add -- " + strings.Repeat("internal/a/long/path/of/a/file.go ", 3) + "…: fatal: no"},
	} {
		if got := (&git.Error{Args: c.args, Code: 128, Stderr: "fatal: no\n"}).Error(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// If the wait before another attempt is ended, Retry returns the cause of that, not git's error before it.
func TestRetryTellsWhatEndedIt(t *testing.T) {
	cause := errors.New("stopped by hand")
	ctx, end := context.WithCancelCause(t.Context())
	err := git.Retry(ctx, func() error { end(cause); return &git.Error{Args: []string{"status"}, Code: 128} })
	if !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
}
