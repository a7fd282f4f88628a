package runner_test

import (
	"testing"

	"github.com/fsnotify/fsnotify"

	"github.com/trellis-tasks/trellis/internal/runner"
)

// After lost events, a run checks for orders, and continues to receive events.
func TestHearsOrdersAfterLostEvents(t *testing.T) {
	events, errs, done := make(chan fsnotify.Event), make(chan error), make(chan struct{})
	pokes := 0
	go func() {
		defer close(done)
		runner.Forward(events, errs, func() { pokes++ })
	}()
	for _, name := range []string{"task.json", "prd.md", "approvals.jsonl"} {
		errs <- fsnotify.ErrEventOverflow
		events <- fsnotify.Event{Name: "/t/" + name, Op: fsnotify.Write}
	}
	close(events)
	close(errs)
	<-done
	if want := 5; pokes != want {
		t.Errorf("got %d looks, want %d", pokes, want)
	}
}
