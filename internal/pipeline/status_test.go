package pipeline

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Edge F11: an order that is withdrawn before anybody reads it does not hold up the run. While the order is in effect, it is
// not overwritten.
func TestOrderThatIsTakenBack(t *testing.T) {
	root := t.TempDir()
	a := Deps{Config: new(config.Config), Store: taskdir.Store{Root: root}, Dir: filepath.Join(root, ".trellis", "tasks", "02-01-a"), Now: time.Now}
	order := func(status string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(a.Dir, 0o755), os.WriteFile(filepath.Join(a.Dir, taskdir.TaskJSON), []byte(`{"status": "`+status+`"}`), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	order("cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := errors.New("asked to end")
	cancel(asked)
	if _, err := New(a).status.write(ctx, flow.Call{}, TaskState{Status: trellis.InProgress}); !errors.Is(err, asked) {
		t.Errorf("got %v, want %v", err, asked)
	}
	done := make(chan error)
	go func() {
		_, err := New(a).status.write(t.Context(), flow.Call{}, TaskState{Status: trellis.InProgress})
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("it wrote over the order: %v", err)
	case <-time.After(3 * Saving / 20):
	}
	order("in_progress")
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(15 * time.Minute):
		t.Fatal("it waits for an order that was taken back")
	}
}
