package proc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
)

var errEnough = errors.New("enough")

// deaf is a script that prints the signals that it gets and goes on.
const deaf = `trap 'echo INT' INT; trap 'echo TERM' TERM; echo ready; while :; do sleep 0.02; done`

func TestStopInSteps(t *testing.T) {
	for _, interrupt := range []bool{false, true} {
		want := "TERM"
		if interrupt {
			want = "INT TERM"
		}
		got := ""
		for grace := 400 * time.Millisecond; got != want && grace < longest; grace *= 4 { // on a busy machine it may have no time to print the signals
			ctx, cancel := context.WithCancelCause(t.Context())
			c := shell(deaf)
			out := newLines()
			c.Stdout, c.Interrupt, c.Grace = out, interrupt, grace
			p, err := proc.Start(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			out.pids(t)
			cancel(errEnough)
			r, err := p.Wait()
			if err != errEnough || r.Signal != "SIGKILL" || r.Code != 137 || r.TimedOut {
				t.Errorf("interrupt %v: got %+v, %v, want SIGKILL, %v", interrupt, r, err, errEnough)
			}
			got = strings.Join(rest(out), " ")
		}
		if got != want {
			t.Errorf("interrupt %v: got signals %q, want %q", interrupt, got, want)
		}
	}
}

// longest is the longest time that a program gets to reach the point that a test is about. Tests try shorter times first.
const longest = 2 * time.Minute

func rest(l *lines) (got []string) {
	for {
		select {
		case line := <-l.c:
			got = append(got, line)
		default:
			return got
		}
	}
}

// A program that obeys the first signal gets no other one, and its last output arrives.
func TestStopIsGentle(t *testing.T) {
	out := newLines()
	c := shell(`trap 'echo last words; exit 7' INT; echo ready; while :; do sleep 0.02; done`)
	c.Stdout, c.Interrupt, c.Grace = out, true, 15*time.Minute
	p, err := proc.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	out.pids(t)
	p.Stop(errEnough)
	p.Stop(errFull) // comes too late
	for range 2 {
		r, err := p.Wait()
		if err != errEnough || r.Code != 7 || r.Signal != "" {
			t.Errorf("got %+v, %v, want code 7, %v", r, err, errEnough)
		}
	}
	if got := strings.Join(rest(out), " "); got != "last words" {
		t.Errorf("got %q", got)
	}
}

func TestWallTimeout(t *testing.T) {
	c := shell("echo begun; sleep 3000")
	var r proc.Result
	out := ""
	for c.Wall = 300 * time.Millisecond; out == "" && c.Wall < longest; c.Wall *= 4 { // on a busy machine it may not have begun by then
		r, out = run(t, c)
	}
	if r.Code != proc.CodeTimeout || !r.TimedOut || r.Signal != "SIGTERM" || out != "begun\n" {
		t.Errorf("got %+v, output %q", r, out)
	}
	c = shell("exit 5")
	c.Wall = 15 * time.Minute
	if r, _ := run(t, c); r.Code != 5 || r.TimedOut {
		t.Errorf("in time: got %+v", r)
	}
}

// A program that was stopped by SIGSTOP is continued, since it can't handle SIGTERM before.
func TestStopWakesTheStopped(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads the state of a process from /proc")
	}
	c := shell("kill -STOP $$")
	c.Grace = 50 * time.Minute
	p, err := proc.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process is stopped", func() bool {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		return err == nil && strings.Contains(string(data), ") T ")
	})
	p.Stop(nil)
	began := time.Now()
	if _, err := p.Wait(); err != nil || time.Since(began) > 15*time.Minute {
		t.Errorf("got %v after %v", err, time.Since(began))
	}
}

// stopper stops its process from within Write, as an adapter does that has seen the last event.
type stopper struct {
	bytes.Buffer
	p chan *proc.Process
}

func (s *stopper) Write(data []byte) (int, error) {
	p := <-s.p
	s.p <- p
	p.Stop(nil)
	return s.Buffer.Write(data)
}

func TestStopFromWrite(t *testing.T) {
	out := &stopper{p: make(chan *proc.Process, 1)}
	c := shell("echo result; sleep 3000")
	c.Stdout = out
	p, err := proc.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	out.p <- p
	if r, err := p.Wait(); err != nil || r.Signal != "SIGTERM" || out.String() != "result\n" {
		t.Errorf("got %+v, %v, output %q", r, err, out.String())
	}
}

// Everything that a run started is gone when Run returns, and a child that keeps the pipe open does
// not delay Run.
func TestNothingStays(t *testing.T) {
	tests := []struct {
		name   string
		marker string
		stop   bool
		args   []string
		escape bool // tools in a new session are not found
	}{
		{"after the end, marked", marker("end"), false, []string{"leave"}, false},
		{"after the end, not marked", "", false, []string{"leave"}, true},
		{"stopped, marked", marker("stop"), true, nil, false},
	}
	for _, tt := range tests {
		out := newLines()
		c := play("tree", tt.args...)
		c.Stdout, c.Marker = out, tt.marker
		p, err := proc.Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		pids := out.pids(t)
		if tt.stop {
			if !alive(pids["group"]) || !alive(pids["session"]) || !alive(pids["bare"]) {
				t.Errorf("%s: tools are not there before the stop", tt.name)
			}
			p.Stop(nil)
		}
		began := time.Now()
		if _, err := p.Wait(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if d := time.Since(began); d > 15*time.Minute {
			t.Errorf("%s: took %v", tt.name, d)
		}
		for _, kind := range []string{"session", "daemon"} {
			if pid := pids[kind]; tt.escape && pid != 0 {
				syscall.Kill(pid, syscall.SIGKILL)
				delete(pids, kind)
			}
		}
		wantGone(t, pids)
	}
}

// The output of a child that ends by itself right after its parent still arrives.
func TestLateOutput(t *testing.T) {
	for range 10 {
		if _, got := run(t, shell("(i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; echo late) & exit 0")); got != "late\n" {
			t.Fatalf("got %q", got)
		}
	}
}

// A process left behind that ignores SIGTERM is killed.
func TestDeafLeftOver(t *testing.T) {
	out := newLines()
	c := shell(`sh -c 'trap "" TERM; echo deaf $$; echo ready; : > deaf; while :; do sleep 0.1; done' & until test -e deaf; do sleep 0.02; done`)
	c.Stdout, c.Dir = out, t.TempDir()
	if _, err := proc.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	wantGone(t, out.pids(t))
}

// The end of one program of a run does not affect other programs of the same run.
func TestOneRunManyCalls(t *testing.T) {
	long := newLines()
	c := play("tree")
	c.Stdout, c.Marker = long, marker("shared")
	p, err := proc.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	pids := long.pids(t)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			c := shell("true")
			c.Marker = marker("shared")
			if _, err := proc.Run(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for kind, pid := range pids {
		if !alive(pid) {
			t.Errorf("%s was ended by another call", kind)
		}
	}
	p.Stop(nil)
	p.Wait()
	wantGone(t, pids)
}

// killTools ends the tools that the output of tree names.
func killTools(t *testing.T, output string) {
	t.Helper()
	for line := range strings.Lines(output) {
		kind, pid, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.Atoi(pid); err == nil && slices.Contains([]string{"group", "session", "bare", "daemon"}, kind) {
			syscall.Kill(n, syscall.SIGKILL)
		}
	}
}
