package journal_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// TestMain runs one process of a bakery run when BAKERY names its world: the process dies at step
// BAKERY_KILL. BAKERY_POWER says what happens to bytes that were not synced: "cut" or "zeros".
func TestMain(m *testing.M) {
	if dir := os.Getenv("BAKERY"); dir != "" {
		os.Exit(bakeryProcess(dir))
	}
	// With goroutines, no two executions have quite the same coverage, and the fuzzer would minimize forever.
	flag.Parse()
	must(flag.Set("test.fuzzminimizetime", "5x"))
	gittest.VerifyTestMain(m)
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
	pending int64 // bytes that are durable when the current sync is over
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

// process runs w's bakery in a process of its own. It returns whether that was killed, and its steps if not: if the machine stalls,
// one run may have a step more than another, since the journal is synced again when the mailbox is read.
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

// undisturbed returns the steps and calls of a run that nobody kills.
func undisturbed(t *testing.T) (steps int, calls []string) {
	t.Helper()
	w := newWorld(t, bakeryCode)
	_, steps = process(t, w, 0, "")
	return steps, done(w.history(t))
}

// check checks that w ended as an undisturbed run does: the same result and calls, each effect made once,
// each letter taken once.
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

// resume continues w after its process died, and checks it: a call that was done by then is not entered again.
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

// A process dies at one of its steps, and loses what it had not synced or keeps it: at every second step, with zeros at every
// eighth, and with TRELLIS_SOAK at each. The next process ends as if nothing had happened.
func TestKillAtEveryStep(t *testing.T) {
	steps, calls := undisturbed(t)
	t.Logf("%d steps, %d calls", steps, len(calls))
	for power, kills := range map[string]struct{ first, every int }{"": {1, 2}, "cut": {2, 2}, "zeros": {1, 8}} {
		t.Run("power="+power, func(t *testing.T) {
			t.Parallel()
			if soak.Asked() {
				kills.first, kills.every = 1, 1
			}
			for at := kills.first; at <= steps; at += kills.every {
				w, kill := newWorld(t, bakeryCode), fmt.Sprintf("kill %d power %s", at, power)
				if killed, took := process(t, w, at, power); !killed && took >= at {
					t.Errorf("%s: it lived", kill)
				}
				w.resume(t, strings.TrimSuffix(kill, " power "), calls)
			}
		})
	}
}

// Up to six processes of one run die, one after the other.
func TestKillOften(t *testing.T) {
	t.Parallel()
	steps, calls := undisturbed(t)
	for seed := range uint64(12) {
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

// An order is called off while the cake of round 2 is in the oven, and the process dies at any step from there: the
// cancellation and the freezing of the parts are never lost.
func TestKillWhileCancelling(t *testing.T) {
	t.Parallel()
	const calledOff = "round-2/bake#1"
	called := func() *world {
		w := newWorld(t, bakeryCode)
		w.write("call-off-at", calledOff)
		return w
	}
	whole := called()
	_, steps := process(t, whole, 0, "")
	calls := done(whole.history(t))
	for at := steps / 2; at <= steps; at++ {
		w := called()
		if killed, took := process(t, w, at, []string{"", "cut"}[at%2]); !killed && took >= at {
			t.Errorf("kill %d: it lived", at)
		}
		for range 2 {
			_, err := w.execute(context.Background(), w.options())
			if !errors.Is(err, flow.ErrCancelled) || w.text("door") != "called off" || w.count("made")["cancel/freeze#1"] != 1 {
				t.Errorf("kill %d: %v, door %q, made %v", at, err, w.text("door"), w.count("made"))
			}
		}
		h := w.history(t)
		if !h.Cancelled || !h.Ended || h.End == nil || h.End.Code != "cancelled" {
			t.Errorf("kill %d: cancelled %v, ended %v: %v", at, h.Cancelled, h.Ended, h.End)
		}
		without := calls // a power cut may take the start of the call that was called off
		if !slices.Contains(done(h), calledOff) {
			without = slices.DeleteFunc(slices.Clone(calls), func(id string) bool { return id == calledOff })
		}
		if got := done(h); !slices.Equal(got, without) {
			t.Errorf("kill %d: calls %q, want %q", at, got, calls)
		}
	}
}

// A full disk at any step of any record suspends the run, and nothing more is written; with free space again the
// run ends well.
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

// After a failed write nothing more is appended, not even the outcome of an activity that succeeds meanwhile, whether
// or not the failed record left a part of itself behind.
func TestNothingAfterFailedWrite(t *testing.T) {
	for _, step := range []int{1, 2, 3} { // before the record, in it, when it is synced
		var full fullDisk
		failed := make(chan struct{})
		w := &world{dir: t.TempDir()}
		o := journal.Options{Dir: w.dir, Activities: []flow.Activity{one.With(echo), two.With(
			func(ctx context.Context, _ flow.Call, in string) (string, error) {
				<-ctx.Done()
				close(failed)
				return in, nil
			})}}
		begin(t, o, "")
		o.Disk = &durable.Disk{Fault: func(s, path string) error { return full.fault(s, path) }}
		full.journal = w.path("journal.jsonl")
		_, err := execute(t, t.Context(), o, func(f flow.Flow, _ string) (string, error) {
			return "", f.All(0, flow.Branch{Name: "x", Run: func(f flow.Flow) error { _, err := two.Do(f, ""); return err }},
				flow.Branch{Name: "y", Run: func(f flow.Flow) error {
					for len(readHistory(t, w.dir).Calls) == 0 { // until x has begun
						runtime.Gosched()
					}
					full.at = full.steps + 2 + step // the start of one, then a step of its done
					_, err := one.Do(f, "")
					return err
				}})
		})
		<-failed
		if !errors.Is(err, syscall.ENOSPC) || full.steps != full.at {
			t.Errorf("step %d: %v, %d steps, want %d", step, err, full.steps, full.at)
		}
		if h := readHistory(t, w.dir); len(h.Calls) != 2 || h.Calls[0].Done {
			t.Errorf("step %d: %+v", step, h.Calls)
		}
	}
}

// fullDisk fails one step on the journal for lack of space.
type fullDisk struct {
	journal   string
	at, steps int // guarded by the engine's mutex
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
