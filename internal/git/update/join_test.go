package update_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git/update"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// Joined returns a commit that has both lines of work, or a *ConflictError; no branch is moved.
func TestJoined(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	ctx, first := context.Background(), b.Git("rev-parse", "HEAD")
	line := func(file, text string) string {
		b.Git("checkout", "-q", first)
		b.Write(file, text)
		b.Git("add", "-A")
		b.Git("commit", "-qm", text)
		return b.Git("rev-parse", "HEAD")
	}
	one, two, clash := line("one.txt", "one\n"), line("two.txt", "two\n"), line("one.txt", "other\n")
	for _, c := range []struct{ ours, theirs, want string }{{first, one, one}, {one, first, one}, {one, one, one}} {
		if got, err := update.New(b.Repo).Joined(ctx, c.ours, c.theirs, "x"); err != nil || got != c.want {
			t.Errorf("got %s, %v, want %s", got, err, c.want)
		}
	}
	got, err := update.New(b.Repo).Joined(ctx, one, two, "both")
	if err != nil || b.Git("log", "-1", "--format=%P %an %s", got) != one+" "+two+" Ann Example both" || b.Git("ls-tree", "--name-only", got) != "a.txt\none.txt\ntwo.txt" {
		t.Errorf("got %s, %v", b.Git("log", "-1", "--format=%P %an %s", got), err)
	}
	var conflict *update.ConflictError
	if _, err := update.New(b.Repo).Joined(ctx, one, clash, "x"); !errors.As(err, &conflict) || !slices.Equal(conflict.Files, []string{"one.txt"}) {
		t.Errorf("got %v", err)
	}
	if who, n, err := b.Repo.History().Authors(ctx, one, got); err != nil || n != 1 || !slices.Equal(who, []string{"Ann Example"}) {
		t.Errorf("got %d of %q, %v", n, who, err)
	}
}
