package git_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
)

// The tree of a snapshot is the one that git itself would write, however it keeps its index.
func TestSnapshotAgreesWithGit(t *testing.T) {
	for _, setting := range []string{"index.version=2", "index.version=4", "core.splitIndex=true", "index.skipHash=true", "core.untrackedCache=true"} {
		t.Run(setting, func(t *testing.T) {
			b := newBox(t)
			key, value, _ := strings.Cut(setting, "=")
			b.git("config", key, value)
			for i := range 20 {
				b.write(fmt.Sprintf("d%d/%s.txt", i%3, strings.Repeat("n", i)), "x")
			}
			b.git("add", "-A")
			b.git("commit", "-qm", "more")
			dir := b.add("feature/x")
			for _, step := range []struct {
				name string
				do   func()
			}{
				{"fresh", func() {}},
				{"staged", func() { b.write(filepath.Join(dir, "staged.txt"), "s"); b.gitIn(dir, "add", "-A") }},
				{"meant to be added", func() { b.write(filepath.Join(dir, "later.txt"), "l"); b.gitIn(dir, "add", "-N", "later.txt") }},
				{"skipped", func() { b.gitIn(dir, "update-index", "--skip-worktree", "a.txt") }},
				{"ignored and staged", func() {
					b.write(filepath.Join(dir, ".git-ignored"), "x")
					b.write(b.path(".git/info/exclude"), ".git-ignored\n")
					b.gitIn(dir, "add", "-f", ".git-ignored")
				}},
				{"removed", func() { b.gitIn(dir, "rm", "-qr", "d1") }},
				{"committed", func() { b.gitIn(dir, "add", "-A"); b.gitIn(dir, "commit", "-qm", "all") }},
				{"without an index", func() {
					os.Remove(b.gitIn(dir, "rev-parse", "--git-path", "index"))
					os.Remove(filepath.Join(dir, ".git-ignored"))
				}},
			} {
				step.do()
				got := must(b.Repo.TreeOf(t.Context(), dir))(t)
				scratch := b.tree("scratch")
				b.gitIn(dir, "clone", "-q", "--shared", "--no-checkout", b.Dir, scratch)
				os.RemoveAll(filepath.Join(scratch, ".git/index"))
				want := b.gitIn(dir, "--git-dir="+filepath.Join(scratch, ".git"), "--work-tree="+dir, "add", "-A") +
					b.gitIn(dir, "--git-dir="+filepath.Join(scratch, ".git"), "--work-tree="+dir, "write-tree")
				os.RemoveAll(scratch)
				if got != want {
					t.Errorf("%s: got %s, want %s", step.name, got, want)
				}
			}
		})
	}
}

func TestCommitDuringMerge(t *testing.T) {
	for _, version := range []string{"2", "4"} {
		b := newBox(t)
		b.git("config", "index.version", version)
		b.git("checkout", "-qb", "other")
		b.write("a.txt", "other\n")
		b.git("commit", "-qam", "other")
		b.git("checkout", "-q", "main")
		b.write("a.txt", "main\n")
		b.git("commit", "-qam", "main")
		if _, err := b.try(b.Dir, "merge", "other"); err == nil {
			t.Fatal("the merge has no conflict")
		}
		_, err := b.Repo.Commit(t.Context(), b.Dir, git.CommitOptions{Message: "m"})
		if err == nil || !strings.Contains(err.Error(), "a.txt has conflicts") {
			t.Errorf("index version %s: got %v", version, err)
		}
	}
}

// counted makes the box count the git processes that the repository starts.
func (b *box) counted() (count func() int) {
	b.t.Helper()
	real, err := exec.LookPath("git")
	if err != nil {
		b.t.Fatal(err)
	}
	log, bin := filepath.Join(b.Home, "calls"), filepath.Join(b.Home, "bin")
	b.write(filepath.Join(bin, "git"), fmt.Sprintf("#!/bin/sh\necho \"$*\" >> '%s'\nexec '%s' \"$@\"\n", log, real))
	if err := os.Chmod(filepath.Join(bin, "git"), 0o755); err != nil {
		b.t.Fatal(err)
	}
	b.Repo.Env = append([]string{"PATH=" + bin + ":" + os.Getenv("PATH")}, b.Env[1:]...)
	return func() int {
		data, _ := os.ReadFile(log)
		os.Remove(log)
		return strings.Count(string(data), "\n")
	}
}

// A run is as quick as the git processes that it starts are few.
func TestProcesses(t *testing.T) {
	b := newBox(t)
	count, ctx, base := b.counted(), t.Context(), b.git("rev-parse", "HEAD")
	want := func(what string, want int) {
		t.Helper()
		if got := count(); got != want {
			t.Errorf("%s: got %d processes, want %d", what, got, want)
		}
	}
	dir := b.add("feature/x")
	want("AddWorktree", 1)
	must(b.Repo.Discard(ctx, dir, "", ".trellis/tasks"))(t)
	want("Discard of nothing", 1)
	s := must(b.Repo.Snapshot(ctx, dir))(t)
	want("Snapshot of what is committed", 1)
	must(s.Restore(ctx, ""))(t)
	want("Restore of nothing", 1)
	s.Close()
	b.write(filepath.Join(dir, "new.txt"), "new")
	s = must(b.Repo.Snapshot(ctx, dir))(t)
	want("Snapshot", 1)
	must(s.Changes(ctx, base))(t)
	want("Changes", 1)
	must(s.Changes(ctx, base))(t)
	want("the same Changes", 0)
	must(s.Diff(ctx, base, 1000))(t)
	want("Diff", 1)
	must(s.Restore(ctx, ""))(t)
	want("Restore of nothing", 1)
	s.Close()
	sha := must(b.Repo.Commit(ctx, dir, git.CommitOptions{Message: "m", Trailers: []string{"A: b"}, Adopt: "A: b", Base: base, Branch: "feature/x", Exclude: []string{".trellis/tasks"}}))(t)
	want("Commit of what was looked at", 2)
	must(b.Repo.Reattach(ctx, dir, "feature/x", base, ""))(t)
	must(b.Repo.TreeAt(ctx, sha))(t)
	must(b.Repo.TreeAt(ctx, "feature/x"))(t)
	must(b.Repo.IsAncestor(ctx, base, sha))(t)
	want("questions about a new commit", 0)
	b.write(filepath.Join(dir, "new.txt"), "newer")
	must(b.Repo.Commit(ctx, dir, git.CommitOptions{Message: "m"}))(t)
	want("Commit", 3)
	must(b.Repo.Identity(ctx))(t)
	want("Identity", 1)
	if err := b.Repo.BranchFree(ctx, "feature/y"); err != nil {
		t.Error(err)
	}
	want("BranchFree", 0)
}
