package scheduler

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fsnotify/fsnotify"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/taskdir"
)

// events are events of files and folders. The zero value has none, as if the system provided none.
type events struct {
	notify   *fsnotify.Watcher
	happened <-chan fsnotify.Event
	errors   <-chan error
}

// subscribeTo subscribes to the events of a folder.
func subscribeTo(dir string) (events, error) {
	n, err := fsnotify.NewBufferedWatcher(4096)
	if err != nil {
		return events{}, err
	}
	if err := n.Add(dir); err != nil {
		return events{}, errors.Join(err, n.Close())
	}
	return events{n, n.Events, n.Errors}, nil
}

// add subscribes to one more folder. A folder that does not exist has no events.
func (e events) add(dir string) error {
	if e.notify == nil {
		return nil
	}
	if err := e.notify.Add(dir); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, fsnotify.ErrClosed) {
		return err
	}
	return nil
}

func (e events) close() {
	if e.notify != nil {
		e.notify.Close()
	}
}

// processEvents processes all events so far.
func (w *watch) processEvents() {
	for range cap(w.events.happened) + 1 {
		select {
		case e, ok := <-w.events.happened:
			if !ok {
				return
			}
			w.handleEvent(e)
		case err := <-w.events.errors:
			w.handleEventError(err)
		default:
			return
		}
	}
}

func (w *watch) handleEvent(e fsnotify.Event) {
	switch dir := filepath.Dir(e.Name); {
	case e.Name == w.objectivesDir():
		w.subscribeToObjectives()
		w.objectives.scheduleSurvey()
	case dir == w.settingsDir():
		if name := filepath.Base(e.Name); name == "config.yaml" || name == "worktree.yaml" {
			w.scheduleReload()
		}
	case dir == filepath.Dir(w.ledgerPath()):
		if e.Name == w.ledgerPath() {
			w.ledgerChanged()
		}
	case dir == w.objectivesDir():
		w.objectives.fileChanged(e.Name)
	default:
		w.taskEvent(e.Name)
	}
}

// handleEventError handles an error of the event source, which is EINVAL for a folder that was moved and removed before it was unsubscribed.
func (w *watch) handleEventError(err error) {
	switch {
	case err == nil || errors.Is(err, syscall.EINVAL):
	case errors.Is(err, fsnotify.ErrEventOverflow):
		w.notices.say("event queue overflowed: rescanning")
		w.rescan()
	default:
		w.notices.fail("", "watching: "+err.Error())
	}
}

// taskEvent schedules an inspection for an event in the folder of tasks: at once for the first one, collected after that.
func (w *watch) taskEvent(path string) {
	rel, err := filepath.Rel(w.s.Store.Tasks(), path)
	if err != nil || rel == "." {
		return
	}
	name, rest, _ := strings.Cut(filepath.ToSlash(rel), "/")
	if !taskName(name) || rest == taskdir.Run || strings.HasPrefix(rest, durable.TempPrefix) {
		return
	}
	dir := filepath.Join(w.s.Store.Tasks(), name)
	w.s.Assessor().Neighbours().Changed(dir)
	w.schedule.putAfter(dir, eventPause)
}

// taskName reports whether an entry of the tasks folder is a task, and neither hidden (a draft) nor the archive.
func taskName(name string) bool { return name != "" && name[0] != '.' && name != "archive" }
