package board_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/soak"
)

// TestTenThousand shows thousands of tasks, and events on the page: 2,000, which is more than a column shows, and 10,000 with
// TRELLIS_SOAK, where the time is limited too, for a machine without other load.
func TestTenThousand(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of task directories")
	}
	many := 2_000
	if soak.Asked() {
		many = 10_000
	}
	w := newWorld(t, nil)
	for i := range many {
		dir := filepath.Join(w.Dir, ".trellis", "tasks", fmt.Sprintf("02-01-task-%05d", i))
		doc := fmt.Sprintf(`{"title": "Task number %d", "status": %q}`, i, []string{"completed", "ready", "failed", "review"}[i%4])
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "task.json"), []byte(doc), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	w.serve()
	p := w.open("/").live()
	p.shows(fmt.Sprintf("%d tasks", many))
	p.close()
	began := time.Now()
	p = w.open("/")
	p.until("document.querySelector('.card')")
	t.Logf("first cards after %v; in the page %s ms", time.Since(began), p.evaluate("Math.round(performance.now())"))
	if ms := p.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime < 1000"); ms != "true" && soak.Asked() {
		t.Error("the first paint took more than a second")
	}
	p.live()
	var took []time.Duration
	for i := range 15 {
		title := fmt.Sprintf("Aaa %d is new", i)
		w.Write(".trellis/tasks/02-01-task-00002/task.json", fmt.Sprintf(`{"title": %q, "status": "failed", "priority": "P0"}`, title))
		began := time.Now()
		p.shows(title)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	half, slowest := took[len(took)/2], took[len(took)-1]
	t.Logf("an event is on the page after %v, %v at most", half, slowest)
	if limit, worst := 300*time.Millisecond, 2*time.Second; soak.Asked() && (half > limit || slowest > worst) {
		t.Errorf("events took %v, want half of them within %v and all within %v", took, limit, worst)
	}
}

// A card says why a task was rejected or how its planning failed. A task that a person writes is not shown as cut off.
func TestCardsSayWhy(t *testing.T) {
	w := newWorld(t, nil)
	w.task("02-01-no", `{"title": "No", "status": "rejected", "pipeline": {"rejection": {"category": "unclear", "details": "<i>Which</i> page?"}}}`, nil)
	w.task("02-02-hand", `{"title": "By hand", "status": "planning"}`, nil)
	w.task("02-03-out", `{"title": "Out", "status": "planning", "pipeline": {"failure": {"code": "agent_exit", "detail": "a cold"}}}`, nil)
	w.serve()
	p := w.open("/").live()
	p.shows("By hand")
	p.shows("unclear: <i>Which</i> page?")
	p.shows("its planning failed: agent_exit: a cold")
	if got := p.evaluate("document.body.innerText.includes('cut off')"); got != "false" {
		t.Error("it says of one that it was cut off")
	}
	page := w.open("/task/02-01-no").live()
	page.shows("unclear: <i>Which</i> page?")
}

// When a task changes, its card moves to its new place, and the other cards stay.
func TestCardsMove(t *testing.T) {
	w := newWorld(t, nil)
	doc := func(status, priority string) string {
		return fmt.Sprintf(`{"title": "One of three", "status": %q, "priority": %q}`, status, priority)
	}
	for _, id := range []string{"02-01-a", "02-02-b", "02-03-c"} {
		w.task(id, doc("failed", "P2"), nil)
	}
	w.serve()
	p := w.open("/").live()
	order := func(list, want string) {
		t.Helper()
		p.until(fmt.Sprintf("[...document.querySelectorAll('#list-%s a.open')].map(a => a.dataset.task.slice(-1)).join('') === %q", list, want))
	}
	order("needs", "abc")
	w.task("02-03-c", doc("failed", "P0"), nil)
	order("needs", "cab")
	w.task("02-01-a", doc("completed", "P2"), nil)
	order("needs", "cb")
	order("done", "a")
	early := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(w.Dir, ".trellis/tasks/02-01-a/task.json"), early, early); err != nil {
		t.Fatal(err)
	}
	w.task("02-02-b", doc("completed", "P2"), nil)
	order("done", "ba") // the one that ended last comes first
	w.task("02-01-a", doc("failed", "P1"), nil)
	order("needs", "ca")
	if err := os.RemoveAll(filepath.Join(w.Dir, ".trellis/tasks/02-03-c")); err != nil {
		t.Fatal(err)
	}
	order("needs", "a")
}
