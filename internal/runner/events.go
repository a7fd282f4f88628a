package runner

import (
	"path/filepath"

	"github.com/fsnotify/fsnotify"
	"github.com/trellis-tasks/trellis/taskdir"
)

// watchEvents calls poke when task.json or approvals.jsonl in dir changes. Without file events, the journal checks by itself every few seconds.
func watchEvents(dir string, poke func()) (stop func()) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return func() {}
	}
	if err := w.Add(dir); err != nil {
		return func() { w.Close() }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		forward(w.Events, w.Errors, poke)
	}()
	return func() { w.Close(); <-done }
}

// forward calls poke for every event that may be an order, and for every error, which stands for lost events, until both
// channels are closed. An error that is not received would block all events after it.
func forward(events <-chan fsnotify.Event, errs <-chan error, poke func()) {
	for events != nil || errs != nil {
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
			} else if name := filepath.Base(e.Name); name == taskdir.TaskJSON || name == taskdir.Approvals {
				poke()
			}
		case _, ok := <-errs:
			if !ok {
				errs = nil
			} else {
				poke()
			}
		}
	}
}
