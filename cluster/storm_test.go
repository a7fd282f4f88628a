package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/soak"
)

// Three machines share many tasks while they are killed at random and started again: each task is done once, and none is lost.
func TestStorm(t *testing.T) {
	t.Parallel()
	tasks, kills := 10, 4
	if soak.Asked() {
		tasks, kills = 200, 60
	}
	w := newWorld(t, silence)
	a := w.machine("a")
	machines := []*machine{w.machine("b"), w.machine("c"), w.machine("d")}
	var workers []*serving
	for _, m := range machines {
		workers = append(workers, m.serve("--parallel", "1"))
	}
	var names []string
	for i := range tasks {
		names = append(names, fmt.Sprintf("02-01-task-%02d", i))
		a.lay(names[i])
		a.must("submit", names[i])
	}
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, seed))
	killed, left := 0, len(names)
	for end := time.Now().Add(time.Duration(tasks) * time.Minute); left > 0; time.Sleep(time.Duration(200+rng.IntN(400)) * time.Millisecond) { // the pace of the storm itself
		if time.Now().After(end) {
			t.Fatalf("%d of %d are left, after %d kills, seed %d:\n%s", left, tasks, killed, seed, a.must("status"))
		}
		a.says("pull")
		was := left
		left = 0
		for _, name := range names {
			if a.told(name) != "review" {
				left++
			}
		}
		if killed < kills && (left < was || rng.IntN(8) == 0) {
			if i := rng.IntN(len(workers) + 1); i < len(workers) {
				workers[i].kill()
				workers[i] = machines[i].serve("--parallel", "1")
			} else {
				w.srv.kill()
				w.srv.start()
			}
			killed++
		}
	}
	again := 0
	for _, name := range names {
		n := w.calls("begun", "implement", name)
		if n == 0 {
			t.Errorf("%s was never worked on", name)
		}
		again += n - 1
		for _, role := range []string{"check", "accept"} {
			again += max(0, w.calls("begun", role, name)-1)
		}
		if got := a.commits(name); got != "1" {
			t.Errorf("%s has %s commits", name, got)
		}
	}
	if again > killed {
		t.Errorf("%d calls were made again, after %d kills of machines with one task each, or of the server", again, killed)
	}
	t.Logf("%d kills, %d calls again, seed %d", killed, again, seed)
}
