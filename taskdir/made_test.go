package taskdir_test

import (
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/taskdir"
)

// Edge F8. The day of a task is that of createdAt, or else that of its name, also across New Year.
func TestMade(t *testing.T) {
	now := time.Date(2026, 1, 2, 23, 30, 0, 0, time.FixedZone("", -5*3600))
	for _, c := range []struct{ id, created, want string }{
		{"12-31-late", "", "2025-12-31"},
		{"01-02-today", "", "2026-01-02"},
		{"01-03-there", "", "2026-01-03"},
		{"01-04-coming", "", "2025-01-04"},
		{"02-29-leap", "", "2024-02-29"},
		{"12-31-late", "2024-05-06", "2024-05-06"},
		{"12-31-odd", "yesterday", "2025-12-31"},
		{"no-day", "", "2026-01-02"},
	} {
		task := &taskdir.Task{ID: c.id, CreatedAt: c.created}
		if got := task.Made(now).Format(time.DateOnly); got != c.want {
			t.Errorf("%s, %q: got %s, want %s", c.id, c.created, got, c.want)
		}
	}
}
