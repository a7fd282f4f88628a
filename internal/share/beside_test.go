package share_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// If three machines, two of them in one clone, try at the same moment to take tasks that may not run beside each other, one succeeds. After
// it has given its task back, the next round again has one winner.
func TestTakenOneAfterTheOther(t *testing.T) {
	t.Parallel()
	const silence = time.Minute
	a := net(t, runnertest.Quickly, silence)
	b := a.beside("b", silence)
	takers := []struct {
		by   *machine
		task string
	}{{a, "02-01-first"}, {a, "02-02-second"}, {b, "02-03-third"}}
	for _, k := range takers {
		k.by.lay(k.task)
	}
	crowded := errors.New("crowded")
	alone := func(running []string) (competes bool, err error) {
		if len(running) > 0 {
			return true, fmt.Errorf("%w by %v", crowded, running)
		}
		return true, nil
	}
	for round := range 4 {
		var all sync.WaitGroup
		leases, errs, begin := make([]runner.Lease, len(takers)), make([]error, len(takers)), make(chan struct{})
		for i, k := range takers {
			all.Go(func() {
				<-begin
				leases[i], errs[i] = k.by.team.Take(t.Context(), filepath.Join(k.by.Site.Store.Tasks(), k.task), alone)
			})
		}
		close(begin)
		all.Wait()
		taken := 0
		for i, l := range leases {
			if errs[i] != nil && !errors.Is(errs[i], crowded) {
				t.Errorf("round %d, %s: %v", round, takers[i].task, errs[i])
			}
			if l != nil {
				taken++
				_, end := l.Hold(t.Context())
				if err := end(runner.Result{Status: trellis.Ready}); err != nil {
					t.Error(err)
				}
			}
		}
		if taken != 1 {
			t.Errorf("round %d: %d were taken: %v", round, taken, errs)
		}
	}
}

// With Unattended, a task does not begin while another machine works on a task with the same files, or while its agent already works on as
// many tasks as it may. Without it, the task begins at once.
func TestFitsBesideOtherMachines(t *testing.T) {
	t.Parallel()
	const silence = time.Minute
	for name, c := range soak.Rows(t, map[string]struct {
		pipeline string
		perAgent map[string]int
		waits    string
	}{
		"files":  {`{"touches": ["notes.txt"]}`, nil, "02-02-second waits for 02-01-first, which changes the same files (notes.txt)"},
		"agents": {`{}`, map[string]int{"rehearsal": 1}, "02-02-second waits for rehearsal, which works for as many tasks as it may (1, limits.per_agent)"},
	}, "files") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := net(t, runnertest.Quickly, silence)
			b := a.beside("b", silence)
			b.Site.Config.Limits.PerAgent = c.perAgent
			for _, id := range []string{"02-01-first", "02-02-second"} {
				dir := a.lay(id)
				if err := os.WriteFile(filepath.Join(dir, "task.json"), fmt.Appendf(nil, `{"status": "ready", "pipeline": %s}`, c.pipeline), 0o644); err != nil {
					t.Fatal(err)
				}
				if _, err := a.team.Submit(t.Context(), dir); err != nil {
					t.Fatal(err)
				}
			}
			lease, err := a.team.Take(t.Context(), filepath.Join(a.Site.Store.Tasks(), "02-01-first"), fits)
			if err != nil {
				t.Fatal(err)
			}
			b.pull()
			second := filepath.Join(b.Site.Store.Tasks(), "02-02-second")
			before := a.Git("ls-remote", "origin", "refs/trellis/*")
			_, err = b.Site.TaskRunner().Run(t.Context(), second, runner.RunOptions{Unattended: true}, nil)
			if crowded := (*runner.ConflictError)(nil); !errors.As(err, &crowded) || crowded.Error() != c.waits {
				t.Errorf("got %v", err)
			}
			if after := a.Git("ls-remote", "origin", "refs/trellis/*"); after != before {
				t.Errorf("the remote has\n%s\nand had\n%s", after, before)
			}
			_, end := lease.Hold(t.Context())
			if err := end(runner.Result{Status: trellis.Ready}); err != nil {
				t.Fatal(err)
			}
			res, err := b.Site.TaskRunner().Run(t.Context(), second, runner.RunOptions{Unattended: true}, nil)
			if err != nil || res.Status != trellis.Review {
				t.Errorf("with nothing beside it: %v, %v", res.Status, err)
			}
			if now := a.Git("ls-remote", "origin", "refs/trellis/*"); !strings.Contains(now, "refs/trellis/gate/claims") {
				t.Errorf("the remote has no gate:\n%s", now)
			}
			first := filepath.Join(b.Site.Store.Tasks(), "02-01-first")
			if _, err := a.team.Take(t.Context(), filepath.Join(a.Site.Store.Tasks(), "02-02-second"), fits); err != nil {
				t.Fatal(err)
			}
			if res, err := b.Site.TaskRunner().Run(t.Context(), first, runner.RunOptions{}, nil); err != nil || res.Status != trellis.Review {
				t.Errorf("by hand: %v, %v", res.Status, err)
			}
		})
	}
}
