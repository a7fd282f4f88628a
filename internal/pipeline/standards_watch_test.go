package pipeline

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// A file that a person's command has replaced is not taken for an agent's change if the agent's call ends before the edit is recorded.
func TestEditedWhileACallEnds(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, ".trellis", "tasks", "02-01-x")
	if err := os.MkdirAll(filepath.Join(dir, taskdir.Run), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644) }
	if err := write("task.json", `{"status": "in_progress"}`); err != nil {
		t.Fatal(err)
	}
	if err := write("prd.md", "# X\n\n## Acceptance Criteria\n\n- [ ] it says bye\n"); err != nil {
		t.Fatal(err)
	}
	store := taskdir.Store{Root: root}
	watch := &standardsWatch{place: place{store: store, task: &taskDir{dir: dir, runDir: filepath.Join(dir, taskdir.Run)}}}
	again, err := watch.watch(flow.Call{Run: "02-01-x/1", ID: "implement#1", Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	replaced, looked := make(chan struct{}), make(chan struct{})
	var notes []string
	go func() {
		defer close(looked)
		<-replaced
		notes, err = again("an agent was at work")
	}()
	store.Disk = &durable.Disk{Fault: func(step, path string) error {
		if step == "create" && filepath.Base(path) == editsFile {
			once.Do(func() { close(replaced) })
		}
		return nil
	}}
	_, edited := store.Update(dir, func(*taskdir.Task, *taskdir.Edit) error {
		return DoRecorded(store, dir, func() error {
			return write("prd.md", "# X\n\n## Acceptance Criteria\n\n- [ ] it says goodbye\n")
		})
	})
	<-looked
	if err != nil || edited != nil || len(notes) > 0 {
		t.Errorf("%v, %v: %q", err, edited, notes)
	}
}
