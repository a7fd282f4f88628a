package git_test

import (
	"testing"
)

func TestReattach(t *testing.T) {
	for name, stray := range map[string]func(b *box, dir string){
		"on another branch":     func(b *box, dir string) { b.gitIn(dir, "checkout", "-q", "-b", "other") },
		"detached":              func(b *box, dir string) { b.gitIn(dir, "checkout", "-q", "--detach") },
		"base was taken away":   func(b *box, dir string) { b.gitIn(dir, "reset", "-q", "--hard", "HEAD~1") },
		"all as it should be":   func(b *box, dir string) {},
		"a commit of the agent": func(b *box, dir string) { b.gitIn(dir, "commit", "-q", "--allow-empty", "-m", "mine") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.write("second.txt", "x\n")
			b.git("add", "-A")
			b.git("commit", "-q", "-m", "second")
			base := b.git("rev-parse", "HEAD")
			dir := b.add("work")
			stray(b, dir)
			repo := b.open(b.Dir)
			did := must(repo.Reattach(t.Context(), dir, "work", base, ""))(t)
			if want := name != "all as it should be" && name != "a commit of the agent"; did != want {
				t.Errorf("got %v, want %v", did, want)
			}
			if got := b.gitIn(dir, "symbolic-ref", "HEAD"); got != "refs/heads/work" {
				t.Errorf("HEAD is %s", got)
			}
			b.gitIn(dir, "merge-base", "--is-ancestor", base, "HEAD")
		})
	}
}

func TestKeep(t *testing.T) {
	b := newBox(t)
	b.git("branch", "side")
	repo := b.open(b.Dir)
	for range 2 { // again is fine
		if got := must(repo.Keep(t.Context(), "side", "refs/trellis/backup/x/1"))(t); got != b.git("rev-parse", "refs/trellis/backup/x/1") {
			t.Errorf("got %s", got)
		}
	}
	if got := must(repo.Keep(t.Context(), "none", "refs/trellis/backup/x/2"))(t); got != "" {
		t.Errorf("got %q for a branch that is not there", got)
	}
	b.git("commit", "-q", "--allow-empty", "-m", "more")
	b.git("branch", "-f", "side")
	if _, err := repo.Keep(t.Context(), "side", "refs/trellis/backup/x/1"); err == nil {
		t.Error("a backup was overwritten")
	}
}
