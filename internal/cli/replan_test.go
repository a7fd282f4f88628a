package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/cli/command"
)

// plan --retry of a rejected task sets a damaged journal aside, as retry does. That of a ready task is kept, since it may record work.
func TestPlanAgainWithADamagedJournal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.plan()
	record, err := os.ReadFile(filepath.Join(b.dir, "task.json"))
	if err != nil {
		t.Fatal(err)
	}
	rel := ".trellis/tasks/" + filepath.Base(b.dir)
	b.write(rel+"/run/journal.jsonl", "no journal\n")
	if code, _, errs := b.app.try("plan", "--retry", rel, "--feedback", "shorter"); code == command.ExitDone || !strings.Contains(errs, "journal.jsonl:1: journal damaged") {
		t.Errorf("a ready task: exit code %d\n%s", code, errs)
	}
	if !strings.Contains(string(record), `"status": "ready"`) {
		t.Fatalf("it is not ready: %s", record)
	}
	b.write(rel+"/task.json", strings.Replace(string(record), `"status": "ready"`, `"status": "rejected"`, 1))
	b.do("plan --retry " + rel + " --feedback shorter")
	if aside, err := filepath.Glob(filepath.Join(b.dir, "run", "journal.jsonl.damaged-*")); err != nil || len(aside) != 1 {
		t.Errorf("put aside: %v, %v", aside, err)
	}
}
