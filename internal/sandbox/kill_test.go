package sandbox_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
)

func pid() string { return strconv.Itoa(os.Getpid()) }

// ready closes c when it is written to, and keeps what is said.
type ready struct {
	mu   sync.Mutex
	once sync.Once
	c    chan struct{}
	said strings.Builder
}

func (r *ready) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.once.Do(func() { close(r.c) })
	return r.said.Write(p)
}

// A program hears of its end as it would without the sandbox, and what does not listen is gone with all that left it.
func TestStopsInTheSandbox(t *testing.T) {
	w := newWorld(t)
	enough := errors.New("enough")
	for script, want := range map[string]proc.Result{
		`trap 'echo heard; exit 3' INT; echo ready; while :; do sleep 0.02; done`:                                     {Code: 3},
		`trap '' INT TERM; (setsid sleep 300 &) ; env -i setsid sleep 300 & echo ready; while :; do sleep 0.02; done`: {Code: 137, Signal: "SIGKILL"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		c, out := w.command(w.need(), script), &ready{c: make(chan struct{})}
		c.Stdout, c.Interrupt, c.Grace = out, true, 200*time.Millisecond
		p, err := proc.Start(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		<-out.c
		cancel(enough)
		got, err := p.Wait()
		if got.Seconds = 0; got != want || err != enough {
			t.Errorf("`%s`: got %+v, %v, want %+v", script, got, err, want)
		}
		if left := proc.Sweep(c.Marker); len(left) > 0 {
			t.Errorf("`%s`: %v are left", script, left)
		}
	}
}

func TestExitCodesAndMarkers(t *testing.T) {
	w := newWorld(t)
	for script, want := range map[string]int{
		`exit 7`: 7, `kill -9 $$`: 137,
		`test "$` + proc.MarkerVar + `" = ` + w.command(w.need(), "true").Marker: 0,
		`exec > >(sleep 0.1; cat >&2); echo tail`:                                0,
	} {
		if code, said := w.run(w.need(), script); code != want || strings.Contains(script, "tail") && !strings.Contains(said, "tail") {
			t.Errorf("`%s`: got exit %d, %q, want %d", script, code, said, want)
		}
	}
}

// Whoever kills the launcher ends the program too.
func TestKilledLauncher(t *testing.T) {
	w := newWorld(t)
	c, out := w.command(w.need(), `echo ready; sleep 300`), &ready{c: make(chan struct{})}
	c.Stdout = out
	p, err := proc.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	<-out.c
	launcher, _ := os.FindProcess(p.PID())
	if err := launcher.Kill(); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Wait(); got.Signal != "SIGKILL" || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if left := proc.Sweep(c.Marker); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}
