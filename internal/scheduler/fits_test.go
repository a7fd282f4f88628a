package scheduler_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// beside returns a script whose implement logs its begin and end. That of the task first ends only after other, which has to run at the
// same time, has begun.
func beside(first, other string) string {
	return strings.Replace(runnertest.Quickly, "run: [\"", fmt.Sprintf("run: [\"log=$TRELLIS_REPO/../log; echo begin $TRELLIS_TASK_ID >> $log; n=0; while test $TRELLIS_TASK_ID = %s && ! grep -q 'begin %s' $log && test $n -lt 9000; do n=$((n+1)); sleep 0.05; done; echo end $TRELLIS_TASK_ID >> $log; ", first, other), 1)
}

// with makes a ready task with additional fields in its task.json.
func (w *world) with(name, fields string) string {
	w.Helper()
	dir := w.Ready(name)[0]
	w.Write(".trellis/tasks/"+name+"/task.json", `{"status": "ready", `+fields+`}`)
	return dir
}

// order checks that the log has these lines in this order.
func (w *world) order(lines ...string) {
	w.Helper()
	log := w.Read("../log")
	at := -1
	for _, line := range lines {
		next := strings.Index(log, line+"\n")
		if next <= at {
			w.Errorf("%q is not behind what goes before it (%q):\n%s", line, lines, log)
			return
		}
		at = next
	}
}

func (w *world) saidOnce(text string) {
	w.Helper()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if n := strings.Count(strings.Join(w.Said, "\n"), text); n != 1 {
		w.Errorf("%q was said %d times:\n%s", text, n, strings.Join(w.Said, "\n"))
	}
}

// Tasks that change the same files run one after the other, by priority. A task of lower priority does not overtake a waiting task with the
// same files. A task with other files runs at the same time.
func TestTouches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, beside("02-01-a", "02-04-d"))
	w.with("02-01-a", `"priority": "P0", "pipeline": {"touches": ["api/**"]}`)
	w.with("02-02-b", `"priority": "P1", "pipeline": {"touches": ["api/x.go", "web/**"]}`)
	w.with("02-03-c", `"priority": "P2", "pipeline": {"touches": ["web/y"]}`)
	w.with("02-04-d", `"priority": "P3", "pipeline": {"touches": ["docs/*"]}`)
	for dir, r := range w.watchOnce(4) {
		if r.Status != trellis.Review {
			t.Errorf("%s: %+v", filepath.Base(dir), r)
		}
	}
	w.order("begin 02-04-d", "end 02-01-a", "begin 02-02-b", "end 02-02-b", "begin 02-03-c")
	w.saidOnce("02-02-b waits for 02-01-a, which changes the same files (api/x.go)")
	w.saidOnce("02-03-c waits for 02-02-b, which changes the same files (web/y)")
}

// Edge F8: tasks of the same priority run by age. Those without createdAt do not overtake those with it, and the last day of a year comes
// before the first day of the next.
func TestOrderOfAge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strings.Replace(runnertest.Quickly, "run: [\"", "run: [\"echo $TRELLIS_TASK_ID >> $TRELLIS_REPO/../log; ", 1))
	w.Site.Now = func() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }
	w.with("01-01-new", `"createdAt": "2026-01-01"`)
	w.with("01-02-bare", `"title": "x"`)
	w.with("12-30-first", `"title": "x"`)
	w.with("12-31-old", `"createdAt": "2025-12-31"`)
	w.watchOnce(1)
	w.order("12-30-first", "12-31-old", "01-01-new", "01-02-bare")
}

// If task.json has no touches, those of plan.json count. Tasks with neither run beside any other.
func TestTouchesOfPlans(t *testing.T) {
	t.Parallel()
	w := newWorld(t, beside("02-01-a", "02-03-c"))
	w.with("02-01-a", `"priority": "P0", "pipeline": {"touches": ["api/**"]}`)
	w.with("02-02-b", `"priority": "P1"`)
	w.Write(".trellis/tasks/02-02-b/plan.json", `{"schema_version": 1, "title": "b", "touches": ["api/x.go"], "steps": [{"id": "s", "prompt": "do it"}], "acceptance": [{"criterion": "notes.txt names the task"}]}`)
	w.with("02-03-c", `"priority": "P2"`)
	for dir, r := range w.watchOnce(3) {
		if r.Status != trellis.Review {
			t.Errorf("%s: %+v", filepath.Base(dir), r)
		}
	}
	w.order("begin 02-03-c", "end 02-01-a", "begin 02-02-b")
	w.saidOnce("02-02-b waits for 02-01-a, which changes the same files (api/x.go)")
}

// A run in another process conflicts too: a watcher waits for its end, and with --once leaves the task as it is. If a person starts such a
// task, it runs after a warning.
func TestTouchesOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, beside("02-01-a", "go"))
	a := w.with("02-01-a", `"pipeline": {"touches": ["api/**"]}`)
	other, err := runnertest.NewSite(w.Dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := other.Starter().Start(context.Background(), a, runner.RunOptions{})
		done <- err
	}()
	for end := time.Now().Add(15 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if data, _ := os.ReadFile(filepath.Join(w.Dir, "..", "log")); len(data) > 0 {
			break
		}
	}
	b, c := w.with("02-02-b", `"pipeline": {"touches": ["api/x.go"]}`), w.with("02-03-c", `"pipeline": {"touches": ["api"]}`)
	got := w.watchOnce(2)
	if r := got[b]; r.Status != trellis.Waiting || w.Task(b).Status != trellis.Ready || len(r.Waits) != 1 || !strings.HasPrefix(r.Waits.String(), "02-01-a, ") {
		t.Errorf("beside another process: %+v", r)
	}
	if res := w.Start(c); res.Status != trellis.Review {
		t.Errorf("started by a person: %+v", res)
	}
	w.saidOnce("02-03-c is started while it conflicts with 02-01-a, which changes the same files (api)")
	w.watching(scheduler.WatchOptions{})
	w.Write("../log", w.Read("../log")+"begin go\n")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if res, err := w.Site.Starter().Follow(context.Background(), b); err != nil || res.Status != trellis.Review {
		t.Errorf("got %+v, %v", res, err)
	}
	w.order("end 02-01-a", "begin 02-02-b")
}

// named lets the rehearsal agent also play an agent named other, with its own script.
func (w *world) named(other string) {
	w.Helper()
	w.Write("../other/.trellis/rehearsal.yaml", other)
	w.Site.Agent = func(name string) (agents.Agent, error) {
		o := agents.Options{Environ: append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null"), Root: w.Dir}
		if name == "other" {
			o.Root = filepath.Join(w.Dir, "..", "other")
		}
		return agents.New(agents.Rehearsal, o)
	}
}

// An agent works on at most as many tasks as limits.per_agent says. Tasks of another agent run at the same time.
func TestPerAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, beside("02-01-a", "02-03-c"))
	w.named(beside("02-01-a", "02-03-c"))
	w.Site.Config.Limits.PerAgent = map[string]int{agents.Rehearsal: 1}
	w.Ready("02-01-a", "02-02-b")
	w.with("02-03-c", `"priority": "P3", "pipeline": {"agent": "other"}`)
	for dir, r := range w.watchOnce(3) {
		if r.Status != trellis.Review {
			t.Errorf("%s: %+v", filepath.Base(dir), r)
		}
	}
	w.order("begin 02-03-c", "end 02-01-a", "begin 02-02-b")
	w.saidOnce("02-02-b waits for rehearsal, which works for as many tasks as it may (1, limits.per_agent)")
}

// After a provider limits an agent, no other task of that agent begins, while tasks of other agents do. A watcher that is started later
// knows the limit.
func TestLimitedAgent(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	w := newWorld(t, strings.Replace(runnertest.Quickly, "implement: [{run:", fmt.Sprintf("implement: [{fail: {code: rate_limited, detail: slow down, resume_at: %s}}, {run:", at.UTC().Format(time.RFC3339)), 1))
	w.named(runnertest.Quickly)
	a := w.with("02-01-a", `"priority": "P0"`)
	b := w.Ready("02-02-b")[0]
	c := w.with("02-03-c", `"pipeline": {"agent": "other"}`)
	for range 2 {
		got := w.watchOnce(1)
		if r := got[b]; w.Task(a).Status != trellis.Paused || w.Task(b).Status != trellis.Ready || r.Status != trellis.Waiting || !r.Until.Equal(at) || r.Waits.String() != "the provider of rehearsal" {
			t.Fatalf("got %+v", got)
		}
		if w.Task(c).Status != trellis.Review {
			t.Errorf("another agent's: %+v", got[c])
		}
	}
	if log := w.Read("../calls.log"); strings.Contains(log, "02-02-b") {
		t.Errorf("calls: %s", log)
	}
	w.Write(".trellis/rehearsal.yaml", runnertest.Quickly)
	w.Site.Now = func() time.Time { return at.Add(time.Second) }
	w.watchOnce(1)
	if w.Task(a).Status != trellis.Review || w.Task(b).Status != trellis.Review {
		t.Errorf("later: %s, %s", w.Task(a).Status, w.Task(b).Status)
	}
}
