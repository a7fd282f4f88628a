package scheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	told "github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// notices are the messages of a watcher: about each subject (a directory, an objective, a name) it says a thing only once.
type notices struct {
	*settings
	said      map[string]string   // last message, by subject
	warned    map[string][]string // warnings about what Trellis ignores, by directory
	trouble   *pulse.Trouble      // last error
	idleSince time.Time           // since when there has been nothing to do; zero: something was done after that was known
}

// reportWaits reports the waits of a heartbeat and, unless the watcher is busy, since when there has been nothing to do.
func (n *notices) reportWaits(b pulse.Beat, busy bool) {
	w := runner.WatchState{Waits: make([]told.Event, 0, len(b.Waiting))}
	if !busy {
		w.Idle = n.idleSince
	}
	for _, work := range b.Running {
		w.Runs = append(w.Runs, work.Task)
	}
	for _, wait := range b.Waiting {
		said := status.EventWait(wait, b)
		w.Waits = append(w.Waits, told.Event{Time: b.At, Task: wait.Task, Kind: told.Waiting, Wait: &said})
	}
	n.s.Tell(runner.Event{Watch: &w})
}

// say reports something that happened.
func (n *notices) say(format string, args ...any) {
	n.s.Tell(runner.Event{Message: fmt.Sprintf(format, args...)})
}

// task reports something that happened to a task. text comes after the task's name.
func (n *notices) task(dir, text string) {
	id := filepath.Base(dir)
	n.s.Tell(runner.Event{Task: id, Message: id + " " + text})
}

// inform reports something once.
func (n *notices) inform(about, text string) { n.once(slog.LevelInfo, about, text) }

// warn reports once what somebody has to do something about.
func (n *notices) warn(about, text string) { n.once(slog.LevelWarn, about, text) }

// fail reports an error once, and keeps it for the heartbeat.
func (n *notices) fail(about, text string) {
	if n.said[about] != text {
		n.trouble = &pulse.Trouble{At: n.s.Clock(), Text: text}
		n.once(slog.LevelError, about, text)
	}
}

func (n *notices) once(level slog.Level, about, text string) {
	if n.said[about] == text {
		return
	}
	n.said[about] = text
	e := runner.Event{Level: level, Message: text}
	if filepath.IsAbs(about) {
		e.Task = filepath.Base(about)
	}
	n.s.Tell(e)
}

// warnIgnored reports once each thing in a task that Trellis ignores, even if it moves within its file.
func (n *notices) warnIgnored(dir string, warnings []trellis.Problem) {
	for _, p := range warnings {
		if key := p.File + "\x00" + p.Message + "\x00" + p.Hint; !slices.Contains(n.warned[dir], key) {
			n.warned[dir] = append(n.warned[dir], key)
			n.s.Tell(runner.Event{Task: filepath.Base(dir), Level: slog.LevelWarn, Message: runner.WarningText(p)})
		}
	}
}

// forget makes the same message appear again when its cause comes back.
func (n *notices) forget(about string) { delete(n.said, about) }

// errorText returns the text of an error with what to do about it, if that is known.
func errorText(err error) string {
	if p, ok := errors.AsType[*trellis.Problem](err); ok {
		return problemText([]trellis.Problem{*p})
	}
	return err.Error()
}

func problemText(list []trellis.Problem) string {
	var lines []string
	for _, p := range list {
		lines = append(lines, p.Error())
		if p.Hint != "" {
			lines = append(lines, "next: "+p.Hint)
		}
	}
	return strings.Join(lines, "\n")
}
