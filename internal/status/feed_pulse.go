package status

import (
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// waitsByTask is what tasks wait for according to the watcher, by directory name.
type waitsByTask map[string]events.Wait

// readWatcherWaits reads that from the watcher's heartbeat. Without a watcher it is empty.
func readWatcherWaits(root string, now time.Time) waitsByTask {
	s := pulse.Look(root, now)
	w := waitsByTask{}
	for _, wait := range s.Beat.Waiting {
		w[wait.Task] = EventWait(wait, s.Beat)
	}
	return w
}

// reportWaits reports how the watcher's waits differ from the last ones.
func (f *Feed) reportWaits() {
	now := readWatcherWaits(f.Store.Root, f.Now())
	for task, wait := range now {
		if was, waited := f.waits[task]; !waited || was.For != wait.For || was.Why != wait.Why || !was.Until.Equal(wait.Until) {
			f.emit(task, events.Event{Kind: events.Waiting, Wait: &wait})
		}
	}
	for task := range f.waits {
		if _, waits := now[task]; !waits {
			f.emit(task, events.Event{Kind: events.Changed})
		}
	}
	f.waits = now
}

// EventWait converts the wait that a watcher's heartbeat gives for a task into that of an event.
func EventWait(w pulse.Wait, b pulse.Beat) events.Wait {
	wait := events.Wait{For: waitKind(w.For), Why: w.For}
	if w.Until != nil {
		wait.Until = *w.Until
	}
	switch {
	case w.For == ForSlot:
		wait.Why = busySlots(b)
	case wait.For == "approval":
		wait.Next = "trellis approve " + trellis.ShellWord(w.Task)
	case wait.For == "trust":
		wait.Next = "trellis trust " + trellis.ShellWord(w.Task)
	}
	return wait
}

// waitKind returns the kind of a wait, as events name it, for the words of the watcher.
func waitKind(reason string) string {
	for _, of := range []struct{ begins, kind string }{{"approval", "approval"}, {pulse.Trust, "trust"}, {"somebody", "person"}, {"decision", "person"}, {"its time", "time"}, {"time", "time"},
		{"another try", "backoff"}, {"tomorrow", "budget"}, {"the provider of", "provider"}, {ForSlot, "slot"}, {"the process that holds it", "slot"}} {
		if strings.HasPrefix(reason, of.begins) {
			return of.kind
		}
	}
	if strings.Contains(reason, "limits.per_agent") {
		return "slot"
	}
	return "dependency"
}
