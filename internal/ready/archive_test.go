package ready_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/ready"
)

// A dependency in the archive is found by its name: the check reads no other archived task, and fails if the archive can't be listed.
func TestArchiveIsNotRead(t *testing.T) {
	s, repo := repository(t)
	task(t, s, "archive/2026-01/01-03-archived", nil)
	dir := task(t, s, "02-01-auth", map[string]string{"task.json": `{"status": "ready", "pipeline": {"depends_on": ["01-03-archived"]}}`})
	look := func() {
		problems, err := ready.Check(t.Context(), ready.Input{Store: s, Repo: repo, Dir: dir})
		if err != nil || len(problems) > 0 {
			t.Fatalf("got %v, %v", problems, err)
		}
	}
	few := testing.AllocsPerRun(3, look)
	for i := range 200 {
		write(t, s.Tasks(), fmt.Sprintf("archive/2026-01/01-04-old%d/task.json", i), `{"status": "completed"}`)
	}
	if many := testing.AllocsPerRun(3, look); many > few+1000 {
		t.Errorf("%v allocations, %v with 200 more tasks in the archive", few, many)
	}
	archive := filepath.Join(s.Tasks(), "archive")
	if err := os.RemoveAll(archive); err != nil {
		t.Fatal(err)
	}
	write(t, archive, "../archive", "")
	if problems, err := ready.Check(t.Context(), ready.Input{Store: s, Repo: repo, Dir: dir}); err == nil {
		t.Errorf("an archive that can't be listed: got %v", problems)
	}
}
