package git_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// A snapshot has the tree that git itself would write, whatever the format of the index.
func TestSnapshotAgreesWithGit(t *testing.T) {
	for _, setting := range []string{"index.version=2", "index.version=4", "core.splitIndex=true", "index.skipHash=true", "core.untrackedCache=true"} {
		t.Run(setting, func(t *testing.T) {
			b := gittest.New(t)
			key, value, _ := strings.Cut(setting, "=")
			b.Git("config", key, value)
			for i := range 20 {
				b.Write(fmt.Sprintf("d%d/%s.txt", i%3, strings.Repeat("n", i)), "x")
			}
			b.Git("add", "-A")
			b.Git("commit", "-qm", "more")
			dir := b.Add("feature/x")
			for _, step := range []struct {
				name string
				do   func()
			}{
				{"fresh", func() {}},
				{"staged", func() { b.Write(filepath.Join(dir, "staged.txt"), "s"); b.GitIn(dir, "add", "-A") }},
				{"meant to be added", func() { b.Write(filepath.Join(dir, "later.txt"), "l"); b.GitIn(dir, "add", "-N", "later.txt") }},
				{"skipped", func() { b.GitIn(dir, "update-index", "--skip-worktree", "a.txt") }},
				{"ignored and staged", func() {
					b.Write(filepath.Join(dir, ".git-ignored"), "x")
					b.Write(b.Path(".git/info/exclude"), ".git-ignored\n")
					b.GitIn(dir, "add", "-f", ".git-ignored")
				}},
				{"removed", func() { b.GitIn(dir, "rm", "-qr", "d1") }},
				{"committed", func() { b.GitIn(dir, "add", "-A"); b.GitIn(dir, "commit", "-qm", "all") }},
				{"without an index", func() {
					os.Remove(b.GitIn(dir, "rev-parse", "--git-path", "index"))
					os.Remove(filepath.Join(dir, ".git-ignored"))
				}},
			} {
				step.do()
				got := gittest.Must(snapshot.New(b.Repo).TreeOf(t.Context(), dir))(t)
				scratch := b.Tree("scratch")
				b.GitIn(dir, "clone", "-q", "--shared", "--no-checkout", b.Dir, scratch)
				os.RemoveAll(filepath.Join(scratch, ".git/index"))
				want := b.GitIn(dir, "--git-dir="+filepath.Join(scratch, ".git"), "--work-tree="+dir, "add", "-A") +
					b.GitIn(dir, "--git-dir="+filepath.Join(scratch, ".git"), "--work-tree="+dir, "write-tree")
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
		b := gittest.New(t)
		b.Git("config", "index.version", version)
		b.Git("checkout", "-qb", "other")
		b.Write("a.txt", "other\n")
		b.Git("commit", "-qam", "other")
		b.Git("checkout", "-q", "main")
		b.Write("a.txt", "main\n")
		b.Git("commit", "-qam", "main")
		if _, err := b.Try(b.Dir, "merge", "other"); err == nil {
			t.Fatal("the merge has no conflict")
		}
		_, err := b.Repo.Committer().Commit(t.Context(), b.Dir, git.CommitOptions{Message: "m"})
		if err == nil || !strings.Contains(err.Error(), "a.txt has conflicts") {
			t.Errorf("index version %s: got %v", version, err)
		}
	}
}

// counted makes the box count the git processes that its repository starts; count returns their number since the last call.
func counted(b *gittest.Box) (count func() int) {
	b.T.Helper()
	real, err := exec.LookPath("git")
	if err != nil {
		b.T.Fatal(err)
	}
	log, bin := filepath.Join(b.Home, "calls"), filepath.Join(b.Home, "bin")
	b.Write(filepath.Join(bin, "git"), fmt.Sprintf("#!/bin/sh\necho \"$*\" >> '%s'\nexec '%s' \"$@\"\n", log, real))
	if err := os.Chmod(filepath.Join(bin, "git"), 0o755); err != nil {
		b.T.Fatal(err)
	}
	b.Repo.Env = append([]string{"PATH=" + bin + ":" + os.Getenv("PATH")}, b.Env[1:]...)
	return func() int {
		data, _ := os.ReadFile(log)
		os.Remove(log)
		return strings.Count(string(data), "\n")
	}
}

// Operations start no more git processes than these, on which the speed of a run depends.
func TestProcesses(t *testing.T) {
	b := gittest.New(t)
	count, ctx, base := counted(b), t.Context(), b.Git("rev-parse", "HEAD")
	want := func(what string, want int) {
		t.Helper()
		if got := count(); got != want {
			t.Errorf("%s: got %d processes, want %d", what, got, want)
		}
	}
	dir := b.Add("feature/x")
	want("AddWorktree", 1)
	gittest.Must(snapshot.NewBackups(b.Repo).Discard(ctx, dir, "", ".trellis/tasks"))(t)
	want("Discard of nothing", 1)
	s := gittest.Must(snapshot.New(b.Repo).Snapshot(ctx, dir))(t)
	want("Snapshot of what is committed", 1)
	gittest.Must(s.Restore(ctx, ""))(t)
	want("Restore of nothing", 1)
	s.Close()
	b.Write(filepath.Join(dir, "new.txt"), "new")
	s = gittest.Must(snapshot.New(b.Repo).Snapshot(ctx, dir))(t)
	want("Snapshot", 1)
	gittest.Must(s.Changes(ctx, base))(t)
	want("Changes", 1)
	gittest.Must(s.Changes(ctx, base))(t)
	want("the same Changes", 0)
	gittest.Must(s.Diff(ctx, base, 1000))(t)
	want("Diff", 1)
	gittest.Must(s.Restore(ctx, ""))(t)
	want("Restore of nothing", 1)
	s.Close()
	sha := gittest.Must(b.Repo.Committer().Commit(ctx, dir, git.CommitOptions{Message: "m", Trailers: []string{"A: b"}, Branch: "feature/x", Exclude: []string{".trellis/tasks"}}))(t)
	want("Commit of what was looked at", 2)
	gittest.Must(snapshot.NewBackups(b.Repo).Reattach(ctx, dir, "feature/x", base, ""))(t)
	gittest.Must(b.Repo.Refs().TreeAt(ctx, sha))(t)
	gittest.Must(b.Repo.Refs().TreeAt(ctx, "feature/x"))(t)
	gittest.Must(b.Repo.History().IsAncestor(ctx, base, sha))(t)
	want("questions about a new commit", 0)
	b.Write(filepath.Join(dir, "new.txt"), "newer")
	gittest.Must(b.Repo.Committer().Commit(ctx, dir, git.CommitOptions{Message: "m"}))(t)
	want("Commit", 3)
	gittest.Must(b.Repo.Author().Identity(ctx))(t)
	want("Identity", 2) // in parallel
	if err := b.Repo.Refs().BranchFree(ctx, "feature/y"); err != nil {
		t.Error(err)
	}
	want("BranchFree", 0)
	backup := func() {
		t.Helper()
		gittest.Must(snapshot.NewBackups(b.Repo).Backup(ctx, dir, "refs/trellis/wip/x", "m"))(t)
	}
	backup()
	want("Backup of what is committed", 4)
	b.Write(filepath.Join(dir, "new.txt"), "newest")
	backup()
	want("Backup", 6)
	backup()
	want("the same Backup", 3)
	for range 2 {
		files := []git.TreeFile{{Path: "a", Mode: 0o100644, Data: []byte("x")}}
		gittest.Must(b.Repo.Trees().CommitFiles(ctx, "refs/trellis/run/x", "m", time.Unix(1700000000, 0), files))(t)
		want("CommitFiles", 1)
	}
}
