package scheduler

import (
	"path/filepath"
	"time"
)

// settingsDir is the folder of the files that a reload reads.
func (w *watch) settingsDir() string { return filepath.Join(w.s.Store.Root, ".trellis") }

// settingsEvent notes that a file beside the tasks changed: it is read once it has settled.
func (w *watch) settingsEvent(name string) {
	if name == filepath.Base(w.roadsDir()) {
		w.hearRoads()
		w.remind()
	}
	if (name == "config.yaml" || name == "worktree.yaml") && w.o.Reload != nil {
		w.reloadAt = time.Now().Add(settle)
	}
}

// reloadDue reads the settings again when they changed a moment ago.
func (w *watch) reloadDue() {
	if !w.reloadAt.IsZero() && !w.reloadAt.After(time.Now()) {
		w.reload()
	}
}

// reload goes on with the settings as they are now. Runs under way keep theirs, and settings that are wrong
// leave those before.
func (w *watch) reload() {
	w.reloadAt = time.Time{}
	if w.o.Reload == nil {
		return
	}
	next, err := w.o.Reload()
	if err != nil {
		w.trouble("settings", err.Error()+"\n  the settings before stay")
		return
	}
	delete(w.told, "settings")
	if next == nil {
		return
	}
	next.Succeed(w.s)
	w.s = next
	clear(w.stalls)
	w.say("the settings were read again; %d at once", w.limit())
	w.rescan() // what could not run may be able to
	w.remind()
}

// limit is how many tasks run at once.
func (w *watch) limit() int {
	w.o.Parallel = w.parallel
	if w.o.Parallel <= 0 {
		w.o.Parallel = w.s.Config.Limits.Parallel
	}
	return w.o.Parallel
}
