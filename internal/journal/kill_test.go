package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/flow"
)

// TestMain is one process of a bakery run when BAKERY names its world: then it dies at step
// BAKERY_KILL. BAKERY_POWER says what becomes of what was not synced: "cut" or "zeros".
func TestMain(m *testing.M) {
	if dir := os.Getenv("BAKERY"); dir != "" {
		os.Exit(bakeryProcess(dir))
	}
	goleak.VerifyTestMain(m)
}

func bakeryProcess(dir string) int {
	w := &world{dir: dir}
	at, _ := strconv.Atoi(os.Getenv("BAKERY_KILL"))
	k := &killer{journal: w.path("run/journal.jsonl"), at: at, power: os.Getenv("BAKERY_POWER")}
	if st, err := os.Stat(k.journal); err == nil {
		k.durable = st.Size()
	}
	w.step = func(string) { k.step("") }
	o := w.options()
	o.Disk = &durable.Disk{Fault: func(step, path string) error {
		if path == k.journal {
			k.step(step)
		}
		return nil
	}}
	_, err := w.execute(context.Background(), o)
	if err != nil && !errors.Is(err, flow.ErrCancelled) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Print(k.steps)
	return 0
}

// killer kills this process at one of its steps: before the first half of a record is written, before
// the second, before it is synced, and at three moments in each activity.
type killer struct {
	journal string
	at      int
	power   string

	mu      sync.Mutex
	steps   int
	durable int64 // bytes that a power cut can't take
	pending int64 // bytes that are durable when the sync under way is over
}

func (k *killer) step(step string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if step != "" && k.pending > 0 { // the next step on the journal, so the sync is over
		k.durable, k.pending = k.pending, 0
	}
	if k.steps++; k.steps == k.at {
		k.die()
	}
	if step == "sync" {
		st, err := os.Stat(k.journal)
		must(err)
		k.pending = st.Size()
	}
}

func (k *killer) die() {
	st, err := os.Stat(k.journal)
	must(err)
	if k.power != "" {
		must(os.Truncate(k.journal, k.durable))
	}
	if k.power == "zeros" {
		must(os.Truncate(k.journal, st.Size()))
	}
	must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	select {}
}

// process runs w's bakery in a process of its own. It returns whether it was killed, and its steps if not.
func process(t *testing.T, w *world, kill int, power string) (killed bool, steps int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "BAKERY="+w.dir, "BAKERY_KILL="+strconv.Itoa(kill), "BAKERY_POWER="+power, "GORACE=atexit_sleep_ms=0")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return true, 0
	}
	if err != nil {
		t.Fatalf("kill %d: %v: %s", kill, err, &stderr)
	}
	steps, err = strconv.Atoi(stdout.String())
	if err != nil {
		t.Fatalf("output %q", &stdout)
	}
	return false, steps
}

// undisturbed is what a run comes to that nobody kills.
func undisturbed(t *testing.T) (steps int, calls []string) {
	t.Helper()
	w := newWorld(t, bakeryCode)
	_, steps = process(t, w, 0, "")
	return steps, done(w.history(t))
}

// check says that w ended as an undisturbed run does: the same result and calls, each effect made
// once, each letter taken in once.
func (w *world) check(t *testing.T, kill string, calls []string) {
	t.Helper()
	got, err := w.execute(context.Background(), w.options())
	if err != nil || !reflect.DeepEqual(got, sold) || w.text("door") != "sold" {
		t.Errorf("%s: got %+v, %v, door %q, want %+v", kill, got, err, w.text("door"), sold)
	}
	h := w.history(t)
	if got := done(h); !reflect.DeepEqual(got, calls) || len(h.Calls) != len(calls) {
		t.Errorf("%s: calls %q, want %q", kill, got, calls)
	}
	if len(h.Signals) != 2 || !h.Signals[0].Taken || !h.Signals[1].Taken || h.Cancelled {
		t.Errorf("%s: signals %+v", kill, h.Signals)
	}
	for effect, n := range w.count("made") {
		if n != 1 {
			t.Errorf("%s: effect %s was made %d times", kill, effect, n)
		}
	}
	entered := w.count("entries")
	for _, c := range h.Calls {
		if n := entered[c.ID]; n > c.Entries && !strings.Contains(kill, "power") {
			t.Errorf("%s: %s was entered %d times, %d starts are recorded", kill, c.ID, n, c.Entries)
		}
	}
}

// checkFinished says that what was done when the process died has not been entered again since.
func (w *world) resume(t *testing.T, kill string, calls []string) {
	t.Helper()
	before, entered := done(w.history(t)), w.count("entries")
	w.check(t, kill, calls)
	now := w.count("entries")
	for _, id := range before {
		if now[id] != entered[id] {
			t.Errorf("%s: finished %s was entered again", kill, id)
		}
	}
}

// A process dies at each of its steps, and loses what it had not synced or keeps it. The next one ends as if
// nothing had been.
func TestKillAtEveryStep(t *testing.T) {
	steps, calls := undisturbed(t)
	t.Logf("%d steps, %d calls", steps, len(calls))
	for power, every := range map[string]int{"": 1, "cut": 1, "zeros": 5} {
		t.Run("power="+power, func(t *testing.T) {
			t.Parallel()
			for at := 1; at <= steps; at += every {
				w, kill := newWorld(t, bakeryCode), fmt.Sprintf("kill %d power %s", at, power)
				if killed, _ := process(t, w, at, power); !killed {
					t.Errorf("%s: it lived", kill)
				}
				w.resume(t, strings.TrimSuffix(kill, " power "), calls)
			}
		})
	}
}

// Up to six processes of one run die.
func TestKillOften(t *testing.T) {
	t.Parallel()
	steps, calls := undisturbed(t)
	for seed := range uint64(20) {
		rnd, w := rand.New(rand.NewPCG(seed, 0)), newWorld(t, bakeryCode)
		kill := fmt.Sprintf("seed %d", seed)
		for range 6 {
			if killed, _ := process(t, w, 1+rnd.IntN(steps/4), ""); !killed {
				break
			}
		}
		w.check(t, kill, calls)
	}
}

// An order that is called off while the cake of round 2 is in the oven, and a death at each step from there:
// always saved, always called off.
func TestKillWhileCancelling(t *testing.T) {
	t.Parallel()
	called := func() *world {
		w := newWorld(t, bakeryCode)
		w.write("call-off-at", "round-2/bake#1")
		return w
	}
	_, steps := process(t, called(), 0, "")
	for at := steps / 2; at <= steps; at++ {
		w := called()
		if killed, _ := process(t, w, at, []string{"", "cut"}[at%2]); !killed {
			t.Errorf("kill %d: it lived", at)
		}
		for range 2 {
			_, err := w.execute(context.Background(), w.options())
			if !errors.Is(err, flow.ErrCancelled) || w.text("door") != "called off" || w.count("made")["cancel/freeze#1"] != 1 {
				t.Errorf("kill %d: %v, door %q, made %v", at, err, w.text("door"), w.count("made"))
			}
		}
		if h := w.history(t); !h.Cancelled || !h.Ended || h.End == nil || h.End.Code != "cancelled" {
			t.Errorf("kill %d: history %+v", at, h)
		}
	}
}

// A full disk at any step of any record suspends the run, and nothing more is written; with room again
// it ends well.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	_, calls := undisturbed(t)
	for at := 1; ; at++ {
		w := newWorld(t, bakeryCode)
		full := &fullDisk{journal: w.path("run/journal.jsonl"), at: at}
		o := w.options()
		o.Disk = &durable.Disk{Fault: full.fault}
		_, err := w.execute(t.Context(), o)
		if full.steps < at {
			if err != nil {
				t.Errorf("undisturbed: %v", err)
			}
			break
		}
		if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, flow.ErrSuspended) {
			t.Errorf("step %d: %v", at, err)
		}
		if full.steps != at {
			t.Errorf("step %d: the journal was touched %d times more", at, full.steps-at)
		}
		w.resume(t, fmt.Sprintf("full at %d", at), calls)
	}
}

// fullDisk has no room for one step on the journal.
type fullDisk struct {
	journal   string
	at, steps int // the engine's mutex guards them
}

func (d *fullDisk) fault(step, path string) error {
	if path != d.journal {
		return nil
	}
	if d.steps++; d.steps == d.at {
		return &os.PathError{Op: step, Path: filepath.Base(path), Err: syscall.ENOSPC}
	}
	return nil
}
