package taskdir_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/taskdir"
)

func TestContextFiles(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"implement.jsonl", "check.jsonl", "mine.jsonl", "approvals.jsonl", "proofs.jsonl", ".x.jsonl", "prd.md", "run/journal.jsonl"} {
		path := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := taskdir.ContextFiles(dir)
	if want := []string{"check.jsonl", "implement.jsonl", "mine.jsonl"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
