package scheduler

import (
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
)

// reportUntrusted reports once whom the watcher has to trust before it runs a task.
func (w *watch) reportUntrusted(dir string, err *trust.UntrustedError) {
	w.waiting[dir] = true
	next := "\nnext: " + err.Next()
	if !strings.HasSuffix(w.notices.said[dir], next) { // less and less may be left to trust
		w.notices.warn(dir, err.Error()+next)
	}
	w.results.put(dir, runner.Result{Dir: dir, Status: trellis.Waiting, Waits: bases.Waits{{For: pulse.Trust}}})
}

// ledgerPause is how long after an inspection a change of the ledger has the task inspected again: the inspection may have caused it.
const ledgerPause = time.Second

// ledgerChanged has everything inspected again that waits for trust.
func (w *watch) ledgerChanged() {
	for dir, r := range w.results.last {
		if slices.Contains(r.Waits, bases.Wait{For: pulse.Trust}) {
			w.schedule.putAfter(dir, ledgerPause)
			delete(w.stalls, dir)
		}
	}
	if w.notices.said["settings"] != "" {
		w.scheduleReload()
	}
	w.objectives.scheduleSurvey()
}
