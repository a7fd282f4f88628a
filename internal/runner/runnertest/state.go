package runnertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// EditedWhile returns a task whose plan people approved, and whose prd.md changed during implement, so that its run waits.
// base is the base branch in its task.json, "" for none.
func EditedWhile(t *testing.T, base string) (w *World, dir string) {
	t.Helper()
	w = NewWorld(t, ByPlan("cp $TRELLIS_TASK_DIR/prd.md $TRELLIS_REPO/../prd.md; echo >> $TRELLIS_TASK_DIR/prd.md; echo '## Notes' >> $TRELLIS_TASK_DIR/prd.md"))
	dir = w.Hand("02-01-bye", ProvenPRD)
	w.Write(".trellis/tasks/02-01-bye/task.json", fmt.Sprintf(`{"status": "ready", "base_branch": %q, "pipeline": {"approval": {"required": true}}}`, base))
	w.Approve(dir, "ann")
	if res := w.Start(dir); res.Status != trellis.Waiting || len(res.Waits) != 1 || !strings.Contains(res.Waits.String(), "trellis approve") {
		t.Fatalf("got %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
	return w, dir
}

func (w *World) PutBack(dir string) {
	w.Helper()
	if err := os.Rename(filepath.Join(w.Dir, "..", "prd.md"), filepath.Join(dir, "prd.md")); err != nil {
		w.Fatal(err)
	}
}
