package doctor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// States of the repair of a finding that doctor can mend.
const (
	repairPossible = "possible" // can be repaired by --repair
	repairDeclined = "declined"
	repairDone     = "done"
	repairFailed   = "failed"
)

// repair makes the repairs that a person agrees to; yes agrees to all. Without yes and without a
// terminal it changes nothing.
func (d *diagnosis) repair(yes, asJSON bool) error {
	ask := !asJSON && command.IsTerminal(d.console.Stdin) && command.IsTerminal(d.console.Stderr)
	for i := range d.findings {
		f := &d.findings[i]
		if f.mend == nil {
			continue
		}
		if !asJSON {
			f.show(d.console.Stdout)
			fmt.Fprint(d.console.Stdout, f.Diff)
		}
		agreed := yes
		if !yes && ask {
			var err error
			if agreed, err = d.console.Confirm(f.question()); err != nil {
				return err
			}
		}
		f.resolve(agreed, yes || ask)
		if !asJSON && f.Repair == repairDone {
			d.console.Say("%s", f.Detail)
		}
	}
	return nil
}

func (f *finding) question() string {
	if f.Diff != "" {
		return "write this? (the file as it is now is kept in the task's run folder)"
	}
	return "remove it?"
}

// resolve carries out the repair of a finding if a person agreed to it, and records the result in the finding.
func (f *finding) resolve(agreed, asked bool) {
	switch {
	case agreed:
		saved, err := f.mend()
		if err != nil {
			f.State, f.Repair, f.Detail = stateError, repairFailed, err.Error()
			return
		}
		f.State, f.Repair, f.Saved, f.Hint = stateOK, repairDone, saved, ""
		if f.Detail = f.File + ": removed"; saved != "" {
			f.Detail = f.File + ": repaired (" + strings.Join(f.notes, "; ") + "); what it was: " + saved
		}
	case asked:
		f.Repair = repairDeclined
	}
}

// isStale reports whether a file or folder was last changed more than an hour ago, so that no process is likely to be at work on it.
func (d *diagnosis) isStale(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && d.console.Now().Sub(st.ModTime()) > time.Hour
}

// leftovers reports what killed processes left: half-written files, half-removed folders, the last
// heartbeat of a watcher. Lock files are not reported: they stay after use, and nobody holds them.
func (d *diagnosis) leftovers(p *app.Project, live []taskdir.Entry) {
	folder := filepath.Join(p.Root, ".trellis")
	runtime := filepath.Join(folder, ".runtime")
	folders := []string{folder, p.Store.Tasks(), runtime}
	for _, e := range live {
		folders = append(folders, e.Dir, filepath.Join(e.Dir, taskdir.Run))
	}
	for _, folder := range folders {
		for _, path := range durable.Glob(folder, durable.TempPrefix+"*") {
			if d.isStale(path) && !durable.Held(path) {
				d.leftover(p, path, "half written", os.RemoveAll)
			}
		}
	}
	const scratch = "a scratch folder of a command that was killed"
	for _, left := range [][2]string{{"removed-*", "a folder that was half removed"}, {"probe-*", scratch}, {"edit-*", scratch}, {"undo-*", scratch}} {
		for _, path := range durable.Glob(runtime, left[0]) {
			if d.isStale(path) {
				d.leftover(p, path, left[1], os.RemoveAll)
			}
		}
	}
	if beat := pulse.File(p.Root); d.isStale(beat) && !durable.Held(pulse.Lock(p.Root)) {
		d.leftover(p, beat, "the last beat of a watcher that is gone", func(string) error { return d.removeHeartbeat(p.Root) })
	}
}

func (d *diagnosis) leftover(p *app.Project, path, what string, remove func(string) error) {
	rel := p.Store.Rel(path)
	d.findings = append(d.findings, finding{Check: "leftover", State: stateWarning, Detail: rel + ": " + what, File: rel,
		mend: func() (string, error) { return "", remove(path) }})
}

// removeHeartbeat removes the last heartbeat of a watcher, unless another watcher runs by now.
func (d *diagnosis) removeHeartbeat(root string) error {
	lock, err := durable.TryLock(pulse.Lock(root), durable.Holder{PID: os.Getpid(), Since: d.console.Now()})
	if err != nil {
		return err
	}
	return errors.Join(pulse.Remove(root), lock.Unlock())
}

// show writes a finding for people.
func (f finding) show(w io.Writer) {
	fmt.Fprintf(w, "%-8s %-12s %s\n", f.State, f.Check, trellis.Visible(f.Detail))
	if f.Hint != "" {
		fmt.Fprintf(w, "%21s next: %s\n", "", trellis.Visible(f.Hint))
	}
}
