package scheduler

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"

	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
)

// awaits has the watcher say once whom it is to trust before it runs a task.
func (w *watch) awaits(dir string, err *trust.UntrustedError) {
	w.waiting[dir] = true
	next := "\n  next: " + err.Next()
	if !strings.HasSuffix(w.told[dir], next) { // what is left to agree to may become less
		w.warn(dir, err.Error()+next)
	}
	w.last[dir] = runner.Result{Dir: dir, Status: trellis.Waiting, Waits: []string{pulse.Trust}}
}

// ledgerDir is the folder of the ledger of what is trusted, "" when there is none.
func (w *watch) ledgerDir() string {
	if w.s.Trust == nil || w.s.Trust.Ledger == nil || w.s.Trust.Ledger.Path == "" {
		return ""
	}
	return filepath.Dir(w.s.Trust.Ledger.Path)
}

// hearLedger listens to the ledger. Without events of it a rescan sees what is trusted by then.
func (w *watch) hearLedger() {
	if dir := w.ledgerDir(); dir != "" {
		_ = w.notify.Add(dir)
	}
}

// ledgerPause is how long after a look at a task a change of the ledger has it looked at again: the look may have made it.
const ledgerPause = time.Second

// ledgerEvent has all looked at again that waits for trust.
func (w *watch) ledgerEvent(path string) {
	if path != w.s.Trust.Ledger.Path {
		return
	}
	for dir, r := range w.last {
		if !slices.Contains(r.Waits, pulse.Trust) {
			continue
		}
		if at := w.seen[dir].Add(ledgerPause); w.due[dir].IsZero() || w.due[dir].After(at) {
			w.due[dir] = at
		}
		delete(w.stalls, dir)
	}
	if w.told["settings"] != "" && w.o.Reload != nil {
		w.reloadAt = time.Now().Add(settle)
	}
	w.remind()
}
