package notify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// That a pull request can be merged is reported once for each commit, and does not count as a status.
func TestMergeable(t *testing.T) {
	h, s := newHouse(t), newServer(t)
	n := h.teller(s.hook("mergeable", "completed"))
	h.becomes(n, trellis.Review)
	task, err := taskdir.Store{Root: h.root}.Load(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		n.Mergeable(task, "aaaa")
	}
	n.Close(15 * time.Minute)
	n = h.teller(s.hook("mergeable", "completed")) // another process
	n.Mergeable(task, "aaaa")
	n.Mergeable(task, "bbbb")
	n.CheckChange(task)
	h.becomes(n, trellis.Completed)
	n.Close(15 * time.Minute)
	var got []string
	for _, text := range s.got {
		got = append(got, text)
	}
	if len(got) != 3 || !strings.Contains(got[0], `"id":"02-01-auth@mergeable:aaaa"`) || !strings.Contains(got[0], `"event":"mergeable","from":"review","status":"review"`) || !strings.Contains(got[0], `"commit":"aaaa"`) ||
		!strings.Contains(got[1], "mergeable:bbbb") || !strings.Contains(got[2], `"event":"","from":"review","status":"completed"`) {
		t.Errorf("got %q", got)
	}
}
