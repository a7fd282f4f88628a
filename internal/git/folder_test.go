package git_test

import (
	"github.com/trellis-tasks/trellis/internal/gittest"
	"strings"
	"testing"
)

// Edge C15: a folder is saved with what git ignores and without what is excepted, and each save holds the one before.
func TestBackupFolder(t *testing.T) {
	b := gittest.New(t)
	b.Write(".gitignore", "*.log\n")
	b.Write("kept/.new-a/task.json", "{}")
	b.Write("kept/.new-a/x.log", "x")
	b.Write("kept/.new-a/run/journal.jsonl", "{}")
	b.Write("kept/b/task.json", "{}")
	const ref = "refs/trellis/backup/a/removed"
	before := b.Git("status", "--porcelain")
	first, err := b.Repo.Backups().BackupFolder(t.Context(), "kept/.new-a", ref, "one", "run")
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Git("ls-tree", "-r", "--name-only", first); got != "kept/.new-a/task.json\nkept/.new-a/x.log" {
		t.Errorf("saved are\n%s", got)
	}
	if after := b.Git("status", "--porcelain"); after != before {
		t.Errorf("the status was\n%s, and is\n%s", before, after)
	}
	b.Write("kept/.new-a/task.json", "{1}")
	second, err := b.Repo.Backups().BackupFolder(t.Context(), "kept/.new-a", ref, "two", "run")
	if err != nil || b.Git("rev-parse", ref) != second || b.Git("rev-parse", second+"^") != first {
		t.Errorf("got %s, %v on top of %s", second, err, first)
	}
}

// Edge C15: the address of a remote is named without what signs in there.
func TestAddresses(t *testing.T) {
	b := gittest.New(t)
	for address, want := range map[string]string{
		"https://ann:secret@example.org/a.git": "https://example.org/a.git",
		"https://token@example.org/a.git":      "https://example.org/a.git",
		"ssh://git@example.org/a.git":          "ssh://git@example.org/a.git",
		"git@example.org:a.git":                "git@example.org:a.git",
		"../a b.git":                           "../a b.git",
	} {
		b.Git("remote", "add", "origin", address)
		if got, err := b.Repo.Remotes().Addresses(t.Context(), "origin"); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, %v", address, got, err)
		}
		b.Git("remote", "remove", "origin")
	}
	if got, err := b.Repo.Remotes().Addresses(t.Context(), "https://token@example.org/a.git"); err != nil || got[0] != "https://example.org/a.git" {
		t.Errorf("an address in the place of a name: got %q, %v", got, err)
	}
}
