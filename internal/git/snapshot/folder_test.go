package snapshot_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// Edge C15: a folder is saved with ignored files and without the excepted ones, and each backup has the previous one as its parent.
func TestBackupFolder(t *testing.T) {
	b := gittest.New(t)
	b.Write(".gitignore", "*.log\n")
	b.Write("kept/.new-a/task.json", "{}")
	b.Write("kept/.new-a/x.log", "x")
	b.Write("kept/.new-a/run/journal.jsonl", "{}")
	b.Write("kept/b/task.json", "{}")
	const ref = "refs/trellis/backup/a/removed"
	before := b.Git("status", "--porcelain")
	first, err := snapshot.NewBackups(b.Repo).BackupFolder(t.Context(), "kept/.new-a", ref, "one", "run")
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
	second, err := snapshot.NewBackups(b.Repo).BackupFolder(t.Context(), "kept/.new-a", ref, "two", "run")
	if err != nil || b.Git("rev-parse", ref) != second || b.Git("rev-parse", second+"^") != first {
		t.Errorf("got %s, %v on top of %s", second, err, first)
	}
}
