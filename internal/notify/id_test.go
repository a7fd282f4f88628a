package notify_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/notify"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A status that is set back and forth by hand is news each time, with an id of its own; a message that is sent again keeps its id.
func TestEachChangeHasAnID(t *testing.T) {
	h, s := newHouse(t), newServer(t, 500)
	hook := s.hook("failed", "completed")
	n := h.teller(hook)
	n.Late = true
	h.becomes(n, trellis.Failed)
	for _, change := range [][2]string{{"failed", "completed"}, {"completed", "failed"}} {
		h.pass(time.Second)
		h.write("task.json", strings.Replace(h.read("task.json"), change[0], change[1], 1))
		h.see(n)
	}
	n.Close(15 * time.Minute)
	h.pass(time.Minute)
	h.tell(hook)
	ids := map[string]int{}
	for _, text := range s.got {
		id, _, _ := strings.Cut(text, " ")
		ids[id]++
	}
	if len(s.got) != 4 || len(ids) != 3 {
		t.Errorf("got %v\n%s", ids, h.book())
	}
}

// A change that a watcher sees before its author reports it is sent once, and an older copy of the task changes nothing.
func TestOneChangeSeenByTwo(t *testing.T) {
	h, s := newHouse(t), newServer(t)
	hook := s.hook("in_progress", "failed")
	watcher, doer := h.teller(hook), h.teller(hook)
	store := h.store(doer)
	old, err := store.Load(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	doer.Late, watcher.Late = true, true
	h.becomes(&notify.Notifier{}, trellis.Ready)
	h.becomes(doer, trellis.InProgress) // creates the book
	before, err := store.Load(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	h.becomes(&notify.Notifier{}, trellis.Failed)
	after, err := store.Load(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	h.pass(time.Second)
	watcher.CheckChange(after)
	doer.RecordChange(before, after)
	watcher.CheckChange(old)
	watcher.Close(0)
	doer.Close(15 * time.Minute)
	var got []string
	for _, text := range s.got {
		got = append(got, change(text))
	}
	if want := []string{"02-01-auth@5:in_progress", "02-01-auth@6:failed"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q\n%s", got, want, h.book())
	}
}

// see passes the current task to n.CheckChange.
func (h *house) see(n *notify.Notifier) {
	h.Helper()
	task, err := h.store(n).Load(h.dir)
	if err != nil {
		h.Fatal(err)
	}
	n.CheckChange(task)
}

// tell sends what is left, as a later process does.
func (h *house) tell(hook config.Notify) {
	n := h.teller(hook)
	n.StartSending()
	n.Close(15 * time.Minute)
}
