package proc_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// launcher returns a command that starts a program as its grandchild, and ends at once when it gets a signal.
func launcher() []string {
	return []string{"/bin/sh", "-c", `sh -c '"$@"; exit $?' in "$@"; exit $?`, "launcher"}
}

// The first signals of a stop go to the program only, not to its launcher.
func TestSignalsGoPastALauncher(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	c := shell(`trap 'echo INT; exit 3' INT; echo ready; while :; do sleep 0.02; done`)
	out := newLines()
	c.Stdout, c.Interrupt, c.Launcher = out, true, launcher()
	p, err := proc.Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	out.pids(t)
	cancel(errEnough)
	r, err := p.Wait()
	if got := strings.Join(rest(out), " "); err != errEnough || r.Code != 3 || r.Signal != "" || got != "INT" {
		t.Errorf("got %+v, %v, signals %q, want exit 3, %v, INT", r, err, got, errEnough)
	}
}

// A program that ignores signals is killed together with its launcher.
func TestKilledThroughALauncher(t *testing.T) {
	c := shell(deaf)
	out := newLines()
	c.Stdout, c.Launcher, c.Grace, c.Wall, c.Marker = out, launcher(), 50*time.Millisecond, 200*time.Millisecond, marker("launched")
	if r, err := proc.Run(t.Context(), c); err != nil || !r.TimedOut || r.Code != proc.CodeTimeout {
		t.Errorf("got %+v, %v, want a time-out", r, err)
	}
	if left := proc.Sweep(marker("launched")); len(left) > 0 {
		t.Errorf("got %v left", left)
	}
}

// The result of a program that ended, or could not start, is the same with a launcher and without.
func TestEndsThroughALauncher(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		argv []string
		want proc.Result
		err  error
	}{
		{argv: []string{"sh", "-c", "exit 7"}, want: proc.Result{Code: 7}},
		{argv: []string{"sh", "-c", "kill -9 $$"}, want: proc.Result{Code: 137, Signal: "SIGKILL"}},
		{argv: []string{"no-such-program"}, want: proc.Result{Code: proc.CodeNotFound}, err: fs.ErrNotExist},
		{argv: []string{plain + "er"}, want: proc.Result{Code: proc.CodeNotFound}, err: fs.ErrNotExist},
		{argv: []string{plain}, want: proc.Result{Code: proc.CodeNoExec}, err: fs.ErrPermission},
	} {
		for _, l := range [][]string{nil, launcher()} {
			got, err := proc.Run(t.Context(), proc.Command{Argv: c.argv, Launcher: l})
			got.Seconds = 0
			missing := c.err == fs.ErrNotExist && got.Code == proc.CodeNotFound // exec has a separate error for a name that is not in PATH
			if got != c.want || !missing && !errors.Is(err, c.err) {
				t.Errorf("%v through %v: got %+v, %v, want %+v, %v", c.argv, l, got, err, c.want, c.err)
			}
		}
	}
}
