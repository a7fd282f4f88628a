package status

import (
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// watched is what the watcher says that tasks wait for, by directory name.
type watched map[string]events.Wait

// watchedAt reads that. Without a watcher nobody says anything.
func watchedAt(root string, now time.Time) watched {
	s := pulse.Look(root, now)
	w := watched{}
	for _, wait := range s.Beat.Waiting {
		w[wait.Task] = WaitSaid(wait, s.Beat)
	}
	return w
}

// pulse tells what the watcher says now that it did not say before.
func (f *Feed) pulse() {
	now := watchedAt(f.Store.Root, f.Now())
	for task, wait := range now {
		if was, waited := f.beat[task]; !waited || was.For != wait.For || was.Why != wait.Why || !was.Until.Equal(wait.Until) {
			f.tell(task, events.Event{Kind: events.Waiting, Wait: &wait})
		}
	}
	for task := range f.beat {
		if _, waits := now[task]; !waits {
			f.tell(task, events.Event{Kind: events.Changed})
		}
	}
	f.beat = now
}

// WaitSaid is what a watcher says that a task waits for, as an event says it.
func WaitSaid(w pulse.Wait, b pulse.Beat) events.Wait {
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

// waitKind is what a task waits for, as an event says it, of what the watcher says of it in words.
func waitKind(said string) string {
	for _, of := range []struct{ begins, kind string }{{"approval", "approval"}, {pulse.Trust, "trust"}, {"somebody", "person"}, {"decision", "person"}, {"its time", "time"}, {"time", "time"},
		{"another try", "backoff"}, {"tomorrow", "budget"}, {"the provider of", "provider"}, {ForSlot, "slot"}, {"the process that holds it", "slot"}} {
		if strings.HasPrefix(said, of.begins) {
			return of.kind
		}
	}
	if strings.Contains(said, "limits.per_agent") {
		return "slot"
	}
	return "dependency"
}
