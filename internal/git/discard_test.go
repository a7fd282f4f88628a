package git_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

func TestDiscard(t *testing.T) {
	gittest.EachFormat(t, func(t *testing.T, b *gittest.Box) {
		ctx := t.Context()
		for _, p := range []string{"tasks/a/task.json", "tasks/b*[x]/task.json", "other.txt"} {
			b.Write(p, "committed")
		}
		b.Git("add", "-A")
		b.Git("commit", "-qm", "tasks")
		if got := gittest.Must(snapshot.NewBackups(b.Repo).Discard(ctx, b.Repo.Main, "", "tasks"))(t); got {
			t.Error("something was discarded in a clean tree")
		}
		dir := b.Add("feature/x")
		b.GitIn(dir, "reset", "-q", "--hard", b.Git("rev-parse", "HEAD"))
		in := func(p string) string { return filepath.Join(dir, p) }
		b.Write(in("tasks/a/task.json"), "changed")
		os.RemoveAll(in("tasks/b*[x]"))
		b.Write(in("tasks/new/task.json"), "untracked")
		b.Write(in("tasks/staged.json"), "staged")
		b.GitIn(dir, "add", "tasks/staged.json", "tasks/a/task.json")
		b.Write(in("tasks/a/task.json"), "changed again")
		b.Write(in("other.txt"), "changed")
		b.Write(in("tasks2/x"), "untracked")
		if got := gittest.Must(snapshot.NewBackups(b.Repo).Discard(ctx, dir, "", "tasks"))(t); !got {
			t.Error("nothing was discarded")
		}
		if got, want := b.GitIn(dir, "status", "--porcelain"), " M other.txt\n?? tasks2/"; got != want {
			t.Errorf("left: %q, want %q", got, want)
		}
		if got := b.Read(in("tasks/b*[x]/task.json")); got != "committed" {
			t.Errorf("got %q", got)
		}
	}, gittest.HardFormats...)
}

func TestDiscardWithinUntrackedFolder(t *testing.T) {
	b := gittest.New(t)
	b.Write(".trellis/tasks/a/task.json", "x")
	b.Write(".trellis/spec/index.md", "x")
	if got := gittest.Must(snapshot.NewBackups(b.Repo).Discard(t.Context(), b.Dir, "", ".trellis/tasks"))(t); !got {
		t.Error("nothing was discarded")
	}
	if _, err := os.Stat(b.Path(".trellis/tasks")); !errors.Is(err, os.ErrNotExist) || b.Read(".trellis/spec/index.md") != "x" {
		t.Error("not what was asked for")
	}
}

func TestDiscardOfThousands(t *testing.T) {
	b := gittest.New(t)
	var paths []string
	for i := range 3000 {
		paths = append(paths, fmt.Sprintf("%s-%d", strings.Repeat("n", 200), i))
	}
	b.Write(paths[2999], "x")
	if got := gittest.Must(snapshot.NewBackups(b.Repo).Discard(t.Context(), b.Dir, "", paths...))(t); !got || b.Git("status", "--porcelain") != "" {
		t.Error("it was not discarded")
	}
}

// If an agent replaces the folder of its task state by a link, Discard must not delete what the link points to.
func TestDiscardFollowsNoLinkOut(t *testing.T) {
	b := gittest.New(t)
	b.Write(".trellis/tasks/a/task.json", "precious")
	b.Git("add", "-A")
	b.Git("commit", "-qm", "tasks")
	dir := b.Add("feature/x")
	os.RemoveAll(filepath.Join(dir, ".trellis"))
	if err := os.Symlink(b.Path(".trellis"), filepath.Join(dir, ".trellis")); err != nil {
		t.Fatal(err)
	}
	snapshot.NewBackups(b.Repo).Discard(t.Context(), dir, "", ".trellis/tasks") // its results do not matter here
	if got := b.Read(".trellis/tasks/a/task.json"); got != "precious" {
		t.Errorf("got %q", got)
	}
}

func TestDeleteBranch(t *testing.T) {
	gittest.EachFormat(t, func(t *testing.T, b *gittest.Box) {
		ctx := t.Context()
		b.Git("branch", "feature/x")
		released := hold(b, filepath.Join(b.Repo.Common, "refs/heads/feature/x.lock"), 200*time.Millisecond)
		for range 2 {
			if err := b.Repo.Refs().DeleteBranch(ctx, "feature/x"); err != nil {
				t.Error(err)
			}
		}
		<-released
		if got := gittest.Must(b.Repo.Refs().Branch(ctx, "feature/x"))(t); got != "" {
			t.Errorf("it is there: %s", got)
		}
		if err := b.Repo.Refs().DeleteBranch(ctx, "main"); err == nil {
			t.Error("the branch that is checked out is gone")
		}
	}, gittest.HardFormats...)
}
