package plot_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/stats/plot"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Each figure of a page has an id that no other has, and its numbers in a table.
func TestFigures(t *testing.T) {
	day := func() string { return fmt.Sprintf(`[[%q,"0","0","0","0","1"]]`, time.Now().Format(time.DateOnly)) }
	first := day()
	store := taskdir.Store{Root: t.TempDir()}
	dir := filepath.Join(store.Tasks(), "02-01-a")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, taskdir.TaskJSON), []byte(`{"status": "rejected"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := (&stats.Reader{Store: store}).Read(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range plot.Figures(r) {
		if seen[f.ID] || f.Title == "" || f.About == "" || len(f.Head) < 2 || !strings.Contains(string(f.SVG), "<svg") {
			t.Errorf("got %+v", f)
		}
		seen[f.ID] = true
		for _, row := range f.Rows {
			if len(row) != len(f.Head) {
				t.Errorf("%s: got row %q below %q", f.ID, row, f.Head)
			}
		}
	}
	for _, id := range []string{"time-phase", "tokens-agent", "cost-day", "cache-phase", "ends-day", "first-day", "rounds-task", "cost-task"} {
		if !seen[id] {
			t.Errorf("there is no figure %s", id)
		}
	}
	days := plot.Figures(r)
	for _, f := range days {
		if f.ID == "ends-day" {
			got, _ := json.Marshal(f.Rows)
			if string(got) != first && string(got) != day() { // midnight may be in between
				t.Errorf("got %s, want %s", got, first)
			}
		}
	}
}
