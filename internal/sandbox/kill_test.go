package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/sandbox"
)

func pid() string { return strconv.Itoa(os.Getpid()) }

// ready closes c at the first write, and keeps the output.
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

// waited waits for the end of p, and calls do as soon as p prints something, unless p ends before that.
func (r *ready) waited(p *proc.Process, do func()) (got proc.Result, err error) {
	ended := make(chan struct{})
	go func() { defer close(ended); got, err = p.Wait() }()
	select {
	case <-r.c:
		do()
	case <-ended:
	}
	<-ended
	return got, err
}

// A program is told to end as it would be without the sandbox; one that ignores this is killed, with all processes that left it.
func TestStopsInTheSandbox(t *testing.T) {
	w := newWorld(t)
	for script, want := range map[string]proc.Result{
		`trap 'echo heard; exit 3' INT; echo ready; while :; do sleep 0.02; done`:                                       {Code: 3},
		`trap '' INT TERM; (setsid sleep 3000 &) ; env -i setsid sleep 3000 & echo ready; while :; do sleep 0.02; done`: {Code: 137, Signal: "SIGKILL"},
	} {
		for _, n := range []sandbox.Need{w.need(), w.agent()} {
			w.stops(n, script, want)
		}
	}
}

// stops checks how a program ends that is stopped once it prints something.
func (w *world) stops(n sandbox.Need, script string, want proc.Result) {
	w.t.Helper()
	t, enough := w.t, errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	c, out := w.command(n, script), &ready{c: make(chan struct{})}
	c.Stdout, c.Interrupt, c.Grace = out, true, 200*time.Millisecond
	if want.Signal == "" { // it ends by itself after the signal, which takes its time on a busy machine
		c.Grace = 15 * time.Minute
	}
	p, err := proc.Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := out.waited(p, func() { cancel(enough) })
	if got.Seconds = 0; got != want || err != enough {
		t.Errorf("`%s`: got %+v, %v, want %+v", script, got, err, want)
	}
	if left := proc.Sweep(c.Marker); len(left) > 0 {
		t.Errorf("`%s`: %v are left", script, left)
	}
}

func TestExitCodesAndMarkers(t *testing.T) {
	w := newWorld(t)
	for script, want := range map[string]int{
		`exit 7`: 7, `kill -9 $$`: 137,
		`test "$` + proc.MarkerVar + `" = ` + w.command(w.need(), "true").Marker: 0,
		`exec > >(sleep 0.1; cat >&2); echo tail`:                                0,
	} {
		for _, n := range []sandbox.Need{w.need(), w.agent()} {
			if code, said := w.run(n, script); code != want || strings.Contains(script, "tail") && !strings.Contains(said, "tail") {
				t.Errorf("%s, `%s`: got exit %d, %q, want %d", n.Kind, script, code, said, want)
			}
		}
	}
}

// Killing the launcher ends the program too.
func TestKilledLauncher(t *testing.T) {
	w := newWorld(t)
	c, out := w.command(w.need(), `echo ready; sleep 3000`), &ready{c: make(chan struct{})}
	c.Stdout = out
	p, err := proc.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	launcher, _ := os.FindProcess(p.PID())
	got, err := out.waited(p, func() {
		if err := launcher.Kill(); err != nil {
			t.Error(err)
		}
	})
	if got.Signal != "SIGKILL" || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if left := proc.Sweep(c.Marker); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// Processes that a program left in its sandbox, by whatever means, are found by the next run through the sandbox's own first
// process, even if no process that started them is left (edge S8).
func TestSweepEndsASandbox(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []string{sandbox.Verify, "implement"} {
		n := w.need()
		n.Kind = kind
		for name, end := range map[string]string{"at work": "sleep 3000", "ended": "true"} {
			c := w.command(n, `ulimit -R unlimited 2>/dev/null; (setsid sh -c 'env -i setsid sleep 3000 &' &); echo ready; `+end)
			said, all, err := os.Pipe() // ended when no process holds the other end, which all in the sandbox do
			if err != nil {
				t.Fatal(err)
			}
			parent := exec.Command("sh", append([]string{"-c", `"$@" & wait`, "sh"}, append(c.Launcher, c.Argv...)...)...)
			parent.Dir, parent.Env, parent.Stdout, parent.ExtraFiles = c.Dir, append(c.Env, proc.MarkerVar+"="+c.Marker), all, c.Files
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			all.Close()
			if got, err := bufio.NewReader(said).ReadString('\n'); got != "ready\n" || err != nil {
				t.Errorf("%s: got %q, %v", kind, got, err)
			}
			parent.Process.Kill()
			parent.Wait()
			if left := proc.Sweep(c.Marker); len(left) > 0 {
				t.Errorf("%s, %s: %v are left", kind, name, left)
			}
			if err := said.SetReadDeadline(time.Now().Add(15 * time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := said.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("%s, %s: something is left: %v", kind, name, err)
			}
			said.Close()
		}
	}
}
