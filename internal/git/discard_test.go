package git_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDiscard(t *testing.T) {
	eachFormat(t, func(t *testing.T, b *box) {
		ctx := t.Context()
		for _, p := range []string{"tasks/a/task.json", "tasks/b*[x]/task.json", "other.txt"} {
			b.write(p, "committed")
		}
		b.git("add", "-A")
		b.git("commit", "-qm", "tasks")
		if got := must(b.Repo.Discard(ctx, b.Repo.Main, "", "tasks"))(t); got {
			t.Error("something was discarded in a clean tree")
		}
		dir := b.add("feature/x")
		b.gitIn(dir, "reset", "-q", "--hard", b.git("rev-parse", "HEAD"))
		in := func(p string) string { return filepath.Join(dir, p) }
		b.write(in("tasks/a/task.json"), "changed")
		os.RemoveAll(in("tasks/b*[x]"))
		b.write(in("tasks/new/task.json"), "untracked")
		b.write(in("tasks/staged.json"), "staged")
		b.gitIn(dir, "add", "tasks/staged.json", "tasks/a/task.json")
		b.write(in("tasks/a/task.json"), "changed again")
		b.write(in("other.txt"), "changed")
		b.write(in("tasks2/x"), "untracked")
		if got := must(b.Repo.Discard(ctx, dir, "", "tasks"))(t); !got {
			t.Error("nothing was discarded")
		}
		if got, want := b.gitIn(dir, "status", "--porcelain"), " M other.txt\n?? tasks2/"; got != want {
			t.Errorf("left: %q, want %q", got, want)
		}
		if got := b.read(in("tasks/b*[x]/task.json")); got != "committed" {
			t.Errorf("got %q", got)
		}
	}, hardFormats...)
}

func TestDiscardWithinUntrackedFolder(t *testing.T) {
	b := newBox(t)
	b.write(".trellis/tasks/a/task.json", "x")
	b.write(".trellis/spec/index.md", "x")
	if got := must(b.Repo.Discard(t.Context(), b.Dir, "", ".trellis/tasks"))(t); !got {
		t.Error("nothing was discarded")
	}
	if _, err := os.Stat(b.path(".trellis/tasks")); !errors.Is(err, os.ErrNotExist) || b.read(".trellis/spec/index.md") != "x" {
		t.Error("not what was asked for")
	}
}

func TestDiscardOfThousands(t *testing.T) {
	b := newBox(t)
	var paths []string
	for i := range 3000 {
		paths = append(paths, fmt.Sprintf("%s-%d", strings.Repeat("n", 200), i))
	}
	b.write(paths[2999], "x")
	if got := must(b.Repo.Discard(t.Context(), b.Dir, "", paths...))(t); !got || b.git("status", "--porcelain") != "" {
		t.Error("it was not discarded")
	}
}

// An agent that puts a link where its task state was must not make us delete what the link leads to.
func TestDiscardFollowsNoLinkOut(t *testing.T) {
	b := newBox(t)
	b.write(".trellis/tasks/a/task.json", "precious")
	b.git("add", "-A")
	b.git("commit", "-qm", "tasks")
	dir := b.add("feature/x")
	os.RemoveAll(filepath.Join(dir, ".trellis"))
	if err := os.Symlink(b.path(".trellis"), filepath.Join(dir, ".trellis")); err != nil {
		t.Fatal(err)
	}
	b.Repo.Discard(t.Context(), dir, "", ".trellis/tasks") // what it says does not matter here
	if got := b.read(".trellis/tasks/a/task.json"); got != "precious" {
		t.Errorf("got %q", got)
	}
}

func TestDeleteBranch(t *testing.T) {
	eachFormat(t, func(t *testing.T, b *box) {
		ctx := t.Context()
		b.git("branch", "feature/x")
		released := b.hold(filepath.Join(b.Repo.Common, "refs/heads/feature/x.lock"), 200*time.Millisecond)
		for range 2 {
			if err := b.Repo.DeleteBranch(ctx, "feature/x"); err != nil {
				t.Error(err)
			}
		}
		<-released
		if got := must(b.Repo.Branch(ctx, "feature/x"))(t); got != "" {
			t.Errorf("it is there: %s", got)
		}
		if err := b.Repo.DeleteBranch(ctx, "main"); err == nil {
			t.Error("the branch that is checked out is gone")
		}
	}, hardFormats...)
}
