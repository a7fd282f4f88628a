package snapshot_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

func TestReattach(t *testing.T) {
	for name, stray := range map[string]func(b *gittest.Box, dir string){
		"on another branch":     func(b *gittest.Box, dir string) { b.GitIn(dir, "checkout", "-q", "-b", "other") },
		"detached":              func(b *gittest.Box, dir string) { b.GitIn(dir, "checkout", "-q", "--detach") },
		"base was taken away":   func(b *gittest.Box, dir string) { b.GitIn(dir, "reset", "-q", "--hard", "HEAD~1") },
		"all as it should be":   func(b *gittest.Box, dir string) {},
		"a commit of the agent": func(b *gittest.Box, dir string) { b.GitIn(dir, "commit", "-q", "--allow-empty", "-m", "mine") },
	} {
		t.Run(name, func(t *testing.T) {
			b := gittest.New(t)
			b.Write("second.txt", "x\n")
			b.Git("add", "-A")
			b.Git("commit", "-q", "-m", "second")
			base := b.Git("rev-parse", "HEAD")
			dir := b.Add("work")
			stray(b, dir)
			repo := b.Open(b.Dir)
			did := gittest.Must(snapshot.NewBackups(repo).Reattach(t.Context(), dir, "work", base, ""))(t)
			if want := name != "all as it should be" && name != "a commit of the agent"; did != want {
				t.Errorf("got %v, want %v", did, want)
			}
			if got := b.GitIn(dir, "symbolic-ref", "HEAD"); got != "refs/heads/work" {
				t.Errorf("HEAD is %s", got)
			}
			b.GitIn(dir, "merge-base", "--is-ancestor", base, "HEAD")
		})
	}
}

func TestKeep(t *testing.T) {
	b := gittest.New(t)
	b.Git("branch", "side")
	repo := b.Open(b.Dir)
	for range 2 { // a second call is fine
		if got := gittest.Must(snapshot.NewBackups(repo).PinBranch(t.Context(), "side", "refs/trellis/backup/x/1"))(t); got != b.Git("rev-parse", "refs/trellis/backup/x/1") {
			t.Errorf("got %s", got)
		}
	}
	if got := gittest.Must(snapshot.NewBackups(repo).PinBranch(t.Context(), "none", "refs/trellis/backup/x/2"))(t); got != "" {
		t.Errorf("got %q for a branch that is not there", got)
	}
	b.Git("commit", "-q", "--allow-empty", "-m", "more")
	b.Git("branch", "-f", "side")
	if _, err := snapshot.NewBackups(repo).PinBranch(t.Context(), "side", "refs/trellis/backup/x/1"); err == nil {
		t.Error("a backup was overwritten")
	}
}
