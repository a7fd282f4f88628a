package roadmap_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Edge F8. Of two tasks of a step the newer one counts, also across New Year, if only their names have a date.
func TestNewestOverNewYear(t *testing.T) {
	s := taskdir.Store{Root: t.TempDir(), Now: func() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }}
	for _, id := range []string{"12-31-old", "01-01-new"} {
		dir := filepath.Join(s.Tasks(), id)
		text := `{"status": "ready", "pipeline": {"objective": {"name": "road", "step": "1"}}}`
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, taskdir.TaskJSON), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	works, err := roadmap.ReadStepTasks(s, false)
	if err != nil {
		t.Fatal(err)
	}
	if work, ok := works.Of("road", "1"); !ok || work.ID != "01-01-new" {
		t.Errorf("got %s, %v", work.ID, ok)
	}
}
