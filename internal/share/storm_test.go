package share_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// watchAs is the work of a child that watches as a machine of its team until it is killed.
func watchAs(site *runner.Site, silence time.Duration) error {
	team := join(site, silence)
	look := make(chan string)
	go team.Sync(context.Background(), func(dir string) { look <- dir })
	for {
		_, err := scheduler.Watch(context.Background(), site, scheduler.WatchOptions{Rescan: time.Second, Parallel: 2, Look: look})
		if !errors.Is(err, durable.ErrHeld) {
			return err
		}
		time.Sleep(20 * time.Millisecond) // the previous watcher was killed, but still exists
	}
}

// watcher is a process that watches as a machine of the team.
type watcher struct {
	*exec.Cmd
	m *machine
}

func (m *machine) watch(silence time.Duration) *watcher {
	m.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), runnertest.ChildDir+"="+m.Dir, childRuns+"=all", childSilence+"="+silence.String(), runnertest.ChildKill+"=0",
		runnertest.ChildLog+"="+filepath.Join(m.Dir, "../steps.log"), "GORACE=atexit_sleep_ms=0", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	said, err := os.OpenFile(filepath.Join(m.Dir, "../watcher.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.Fatal(err)
	}
	defer said.Close() // the child has a copy
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	return &watcher{cmd, m}
}

func (w *watcher) kill() {
	_ = w.Process.Kill() // it may have ended, which the test notices
	_ = w.Wait()
}

// Three watchers share many tasks while they are killed at random and restarted: each task is completed with one commit.
func TestStorm(t *testing.T) {
	t.Parallel()
	const silence = 10 * time.Second // a busy machine pushes within this time, so that only killed watchers lose their tasks
	tasks, kills := 3, 2
	if soak.Asked() {
		tasks, kills = 200, 60
	}
	a := net(t, runnertest.Quickly, silence)
	var names []string
	for i := range tasks {
		names = append(names, fmt.Sprintf("02-01-task-%03d", i))
		if err := runnertest.Lay(filepath.Join(a.Site.Store.Tasks(), names[i]), "ready"); err != nil {
			t.Fatal(err)
		}
	}
	machines := []*machine{a, a.beside("b", silence), a.beside("c", silence)}
	looker := a.beside("looker", silence)
	var watchers []*watcher
	for _, m := range machines {
		watchers = append(watchers, m.watch(silence))
	}
	defer func() {
		for _, w := range watchers {
			w.kill()
		}
	}()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	killed := 0
	done := func() (n int) {
		looker.pull()
		for _, name := range names {
			if task, err := looker.Site.Store.Load(filepath.Join(looker.Site.Store.Tasks(), name)); err == nil && task.Status == trellis.Review {
				n++
			}
		}
		return n
	}
	last := 0
	for end := time.Now().Add(time.Duration(tasks)*30*time.Second + 15*time.Minute); ; {
		n := done()
		if n == tasks {
			break
		}
		if time.Now().After(end) {
			for _, m := range machines {
				t.Logf("%s:\n%s", m.Dir, m.Read("../watcher.log"))
			}
			t.Fatalf("%d of %d are done, after %d kills", n, tasks, killed)
		}
		if killed < kills && (killed == 0 || n > last || rng.IntN(8) == 0) {
			i := rng.IntN(len(watchers))
			watchers[i].kill()
			watchers[i] = machines[i].watch(silence)
			killed++
		}
		last = n
		time.Sleep(time.Duration(300+rng.IntN(400)) * time.Millisecond) // the pace of the storm
	}
	again := 0
	for _, name := range names {
		n := 0
		for _, m := range machines {
			data, _ := os.ReadFile(filepath.Join(m.Dir, "../calls.log")) // without the file nobody was called there
			n += strings.Count(string(data), name+"\n")
		}
		if n == 0 {
			t.Errorf("%s was never worked on", name)
		}
		again += max(0, n-1)
		branch := "feature/" + strings.TrimPrefix(name, "02-01-")
		if got := looker.Git("rev-list", "--count", "origin/main.."+branch); got != "1" {
			t.Errorf("%s has %s commits", branch, got)
		}
	}
	if again > 2*killed {
		t.Errorf("%d calls were made again, after %d kills of watchers with two tasks each", again, killed)
	}
	t.Logf("%d kills, %d calls again", killed, again)
}
