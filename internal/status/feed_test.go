package status_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// fed runs a feed until the test ends.
type fed struct {
	*testing.T
	root string
	told chan events.Event
	mu   sync.Mutex
	set  []time.Duration // waits that the feed asked for
}

func feed(t *testing.T, tasks map[string]string) *fed {
	t.Helper()
	f := &fed{T: t, root: t.TempDir(), told: make(chan events.Event, 1000)}
	for name, text := range tasks {
		f.write(name, text)
	}
	begun, ended, others := make(chan struct{}), make(chan error), goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	of := status.Feed{Store: taskdir.Store{Root: f.root}, Decode: agents.Decoder, Now: time.Now, Emit: func(e events.Event) { f.told <- e }, After: func(d time.Duration) <-chan time.Time {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.set = append(f.set, d)
		return time.After(d)
	}}
	go func() { ended <- of.Run(ctx, func() { close(begun) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t, others)
	})
	<-begun
	return f
}

func (f *fed) write(task, text string) {
	f.Helper()
	path := filepath.Join(f.root, ".trellis", "tasks", task, taskdir.TaskJSON)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		f.Fatal(err)
	}
}

// until skips events until one of this kind and task arrives.
func (f *fed) until(kind events.Kind, task string) events.Event {
	f.Helper()
	for {
		select {
		case e := <-f.told:
			if e.Kind == kind && e.Task == task {
				return e
			}
		case <-time.After(15 * time.Minute):
			f.Fatalf("waited in vain for %s of %s", kind, task)
		}
	}
}

// While no process works, the feed sets no timer except to collect changes of files. It reports changes, also of a task.json that can't
// be read, and tasks that are removed.
func TestFeedRestsWhileNothingHappens(t *testing.T) {
	f := feed(t, map[string]string{"02-01-done": `{"status": "completed"}`, "02-02-broken": `{"status": `, "02-03-waits": `{"status": "waiting"}`})
	f.mu.Lock()
	if len(f.set) > 0 {
		t.Errorf("clocks were set before anything happened: %v", f.set)
	}
	f.mu.Unlock()
	f.write("02-02-broken", `{"status": "rea`)
	f.until(events.Changed, "02-02-broken")
	f.write("02-04-new", `{"status": "planning"}`)
	f.until(events.Changed, "02-04-new")
	if err := os.RemoveAll(filepath.Join(f.root, ".trellis", "tasks", "02-01-done")); err != nil {
		t.Fatal(err)
	}
	f.until(events.Changed, "02-01-done")
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.set {
		if d >= 100*time.Millisecond {
			t.Errorf("a clock of %v was set, though nobody works", d)
		}
	}
}

// A wait that the watcher reports becomes an event as soon as the watcher writes it, and is not repeated with later ones.
func TestFeedTellsWaits(t *testing.T) {
	f := feed(t, map[string]string{"02-01-auth": `{"status": "ready"}`, "02-02-list": `{"status": "ready"}`})
	if err := os.MkdirAll(filepath.Dir(pulse.Lock(f.root)), 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := durable.TryLock(pulse.Lock(f.root), durable.Holder{PID: 7, Host: "here", Since: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	beat := pulse.Beat{PID: 7, At: time.Now(), Parallel: 1, Running: []pulse.Work{{Task: "02-03-other"}}, Waiting: []pulse.Wait{{Task: "02-01-auth", For: status.ForSlot}}}
	if err := beat.Write(nil, f.root); err != nil {
		t.Fatal(err)
	}
	if w := f.until(events.Waiting, "02-01-auth").Wait; w.For != "slot" || w.Why != "1 of 1 slots busy" {
		t.Errorf("told %+v", w)
	}
	beat.Waiting = append(beat.Waiting, pulse.Wait{Task: "02-02-list", For: "approval"})
	if err := beat.Write(nil, f.root); err != nil {
		t.Fatal(err)
	}
	for e := range f.told {
		if e.Kind != events.Waiting {
			continue
		}
		if w := e.Wait; e.Task != "02-02-list" || w.For != "approval" || w.Next != "trellis approve 02-02-list" {
			t.Errorf("told %s %+v", e.Task, w)
		}
		break
	}
}

// A follower of another process's run is told what debug has to fix, unless the result of a failed command says it already.
func TestFeedTellsWhatIsToBeMended(t *testing.T) {
	f := feed(t, map[string]string{"02-01-auth": `{"status": "in_progress"}`})
	debug := flow.Act[agentcall.Request, agentcall.Reply]("debug")
	j, err := journal.Open(journal.Options{Dir: filepath.Join(f.root, ".trellis/tasks/02-01-auth/run"), Activities: []flow.Activity{
		debug.With(func(context.Context, flow.Call, agentcall.Request) (agentcall.Reply, error) {
			return agentcall.Reply{}, nil
		})}})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	f.write("02-01-auth", `{"status": "in_progress"}`) // as a run writes it once it has the lock
	if err := j.Begin(journal.Spec{Run: "02-01-auth/1", Flow: pipeline.Flow, Code: pipeline.Code, Input: json.RawMessage("{}")}); err != nil {
		t.Fatal(err)
	}
	_, err = journal.Execute(t.Context(), j, func(fl flow.Flow, _ struct{}) (struct{}, error) {
		for _, trouble := range []string{`{"code": "verify_failed", "detail": "it exited with 1", "failed": [{"command": "make"}]}`, `{"code": "verify_failed", "detail": "no command decides"}`} {
			if _, err := debug.Do(fl, agentcall.Request{Role: trellis.Debug, Agent: "mine", Data: json.RawMessage(`{"trouble": ` + trouble + `}`)}); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.until(events.Notice, "02-01-auth").Text, "verify_failed: no command decides"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// BenchmarkFeed measures how long the feed takes to report 1,000 new tasks.
func BenchmarkFeed(b *testing.B) {
	root := b.TempDir()
	path := filepath.Join(root, ".trellis", "tasks")
	if err := os.MkdirAll(path, 0o755); err != nil {
		b.Fatal(err)
	}
	told := make(chan events.Event, 1000)
	ctx, cancel := context.WithCancel(b.Context())
	ended, begun := make(chan error), make(chan struct{})
	of := status.Feed{Store: taskdir.Store{Root: root}, Decode: agents.Decoder, Now: time.Now, Emit: func(e events.Event) { told <- e }}
	go func() { ended <- of.Run(ctx, func() { close(begun) }) }()
	<-begun
	for n := 0; b.Loop(); n++ {
		for i := range 1000 {
			dir := filepath.Join(path, fmt.Sprintf("%d-%03d", n, i))
			if err := os.Mkdir(dir, 0o755); err != nil {
				b.Fatal(err)
			}
		}
		for seen := map[string]bool{}; len(seen) < 1000; {
			seen[(<-told).Task] = true
		}
	}
	cancel()
	<-ended
}
