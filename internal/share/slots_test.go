package share_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// follow makes the machine watch as part of its team until the test ends.
func (m *machine) follow() {
	m.Helper()
	ctx, cancel := context.WithCancel(m.Context())
	look, over := make(chan string), make(chan struct{}, 2)
	go func() {
		m.team.Sync(ctx, func(dir string) {
			select {
			case look <- dir:
			case <-ctx.Done():
			}
		})
		over <- struct{}{}
	}()
	go func() {
		if _, err := scheduler.Watch(ctx, m.Site, scheduler.WatchOptions{Rescan: time.Minute, Parallel: 2, Look: look}); err != nil && ctx.Err() == nil {
			m.Error(err)
		}
		over <- struct{}{}
	}()
	m.Cleanup(func() { cancel(); <-over; <-over })
}

func (m *machine) status(id string) trellis.Status {
	t, err := m.Site.Store.Load(filepath.Join(m.Site.Store.Tasks(), id))
	if err != nil {
		return ""
	}
	return t.Status
}

// While one machine works on a task, another begins neither a task that changes the same files nor one whose agent already works on as many
// tasks as it may. It does so once the first task is over.
func TestSlotsOfAllMachines(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct {
		pipeline string
		perAgent map[string]int
		waits    string
	}{
		"files":  {`{"touches": ["notes.txt"]}`, nil, "02-02-second waits for 02-01-first, which changes the same files (notes.txt)"},
		"agents": {`{}`, map[string]int{"rehearsal": 1}, "02-02-second waits for rehearsal, which works for as many tasks as it may (1, limits.per_agent)"},
	}, "agents") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const silence = 2 * time.Minute // a machine that stalls is not taken for dead
			slow := strings.Replace(runnertest.Quickly, "run: [\"", "run: [\"touch $TRELLIS_REPO/../begun; while ! test -e $TRELLIS_REPO/../go; do sleep 0.1; done\", \"", 1)
			a := net(t, slow, silence)
			b := a.beside("b", silence)
			var dirs []string
			for _, id := range []string{"02-01-first", "02-02-second"} {
				dir := filepath.Join(a.Site.Store.Tasks(), id)
				if err := runnertest.Lay(dir, "ready"); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "task.json"), fmt.Appendf(nil, `{"status": "ready", "pipeline": %s}`, c.pipeline), 0o644); err != nil {
					t.Fatal(err)
				}
				if _, err := a.team.Submit(t.Context(), dir); err != nil {
					t.Fatal(err)
				}
				dirs = append(dirs, dir)
			}
			b.Site.Config.Limits.PerAgent = c.perAgent
			b.Write("../go", "") // agents of b don't wait
			ended := make(chan error, 1)
			go func() {
				_, err := a.Site.TaskRunner().Run(context.WithoutCancel(t.Context()), dirs[0], runner.RunOptions{}, nil)
				ended <- err
			}()
			a.Until("the agent at work", func() bool { _, err := os.Stat(filepath.Join(a.Dir, "../begun")); return err == nil })
			b.pull()
			b.follow()
			b.Until("the second to wait", func() bool { return b.Heard(c.waits) > 0 })
			if got := b.status("02-02-second"); got != trellis.Ready {
				t.Errorf("it is %s", got)
			}
			a.Write("../go", "")
			if err := <-ended; err != nil {
				t.Error(err)
			}
			b.Until("the second in review", func() bool { return b.status("02-02-second") == trellis.Review })
		})
	}
}

// A provider's limit that one machine met holds for all: the others don't call that agent until it is over.
func TestLimitsOfAllMachines(t *testing.T) {
	t.Parallel()
	const silence = 16 * time.Second
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	a := net(t, strings.Replace(runnertest.Quickly, "implement: [{run:", fmt.Sprintf("implement: [{fail: {code: rate_limited, detail: slow down, resume_at: %s}}, {run:", until.Format(time.RFC3339)), 1), silence)
	b := a.beside("b", silence)
	first, _ := a.lay("02-01-first"), a.lay("02-02-second")
	if res, err := a.Site.TaskRunner().Run(t.Context(), first, runner.RunOptions{}, nil); err != nil || res.Status != trellis.Paused {
		t.Fatalf("got %+v, %v", res, err)
	}
	b.pull()
	b.follow()
	b.Until("the second to wait", func() bool { return b.Heard("02-02-second waits for the provider of rehearsal") > 0 })
	if got := b.status("02-02-second"); got != trellis.Ready && got != trellis.Waiting {
		t.Errorf("it is %s", got)
	}
	if n := calls(b); len(n) > 0 {
		t.Errorf("b asked %v", n)
	}
}

// A task directory that a person removed on one machine does not come back there when others work on the task. A pull fetches it again.
func TestRemovedStaysAway(t *testing.T) {
	t.Parallel()
	const silence = 4 * time.Second
	a := net(t, runnertest.Quickly, silence)
	b := a.beside("b", silence)
	first := a.lay("02-01-first")
	b.pull()
	theirs := filepath.Join(b.Site.Store.Tasks(), "02-01-first")
	if err := os.RemoveAll(theirs); err != nil {
		t.Fatal(err)
	}
	if res, err := a.Site.TaskRunner().Run(t.Context(), first, runner.RunOptions{}, nil); err != nil || res.Status != trellis.Review {
		t.Fatalf("got %+v, %v", res, err)
	}
	a.lay("02-02-second") // published later
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { b.team.Sync(ctx, func(string) {}); close(over) }()
	b.Until("the second", func() bool { return b.status("02-02-second") != "" })
	cancel()
	<-over
	if _, err := os.Stat(theirs); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it came back: %v", err)
	}
	b.pull()
	if got := b.status("02-01-first"); got != trellis.Review {
		t.Errorf("asked for, it is %q", got)
	}
}
