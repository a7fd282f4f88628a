package proc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// guarded runs a command under Guard. Its first argument says what the worker does: exit N; die; tools: run
// tree until a signal comes; guard: print its reaper; nested, orphans, hides: see these functions.
func guarded(args []string) int {
	worker, code, err := proc.Guard()
	if errors.As(err, new(*proc.SignalError)) {
		fmt.Println(err)
	} else if err != nil {
		fmt.Println(err)
		return 99
	}
	if !worker {
		return code
	}
	switch args[0] {
	case "exit":
		n, _ := strconv.Atoi(args[1])
		return n
	case "die":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		stay()
	case "tools":
		return work()
	case "guard":
		g, _ := proc.Guarded()
		fmt.Println(g)
		return 0
	case "nested":
		return nested()
	case "orphans":
		return orphans()
	case "hides":
		return hides()
	}
	return 98
}

func work() int {
	ctx, stop := proc.SignalContext(context.Background())
	defer stop()
	g, ok := proc.Guarded()
	fmt.Println("reaper", g.PID)
	fmt.Println("worker", os.Getpid())
	if !ok || g.PID != os.Getppid() {
		return 97
	}
	c := play("tree", hide...)
	c.Stdout, c.Marker = os.Stdout, marker("guard")
	proc.Run(ctx, c)
	var e *proc.SignalError
	if errors.As(context.Cause(ctx), &e) {
		fmt.Println(e)
		return e.Code()
	}
	return 96
}

// hide holds the argument that makes tree start a hidden tool too, on systems where such a tool is found.
var hide = map[string][]string{"linux": {"hide"}}[runtime.GOOS]

// hides runs a call that leaves a hidden tool, while another call is running that has left a tool as well. The other call starts
// its tool once it has its tag (see setTag).
func hides() int {
	busy := newLines()
	tagged, begin := io.Pipe()
	c := shell(`read -r go; env -i setsid sh -c 'sleep 3000 >/dev/null & echo "stray $!"'; echo ready; sleep 3000`)
	c.Stdin, c.Stdout, c.Marker = tagged, busy, marker("busy")
	p, err := proc.Start(context.Background(), c)
	if err != nil {
		return 91
	}
	fmt.Fprintln(begin, "go")
	begin.Close()
	other, err := strconv.Atoi(strings.TrimPrefix(<-busy.c, "stray "))
	if err != nil || <-busy.c != "ready" {
		return 90
	}
	c = play("tree", "leave", "hide")
	c.Stdout, c.Marker = os.Stdout, marker("hides")
	if _, err := proc.Run(context.Background(), c); err != nil {
		return 89
	}
	fmt.Println("ended", alive(other))
	p.Stop(nil)
	p.Wait() //nolint:errcheck // it was stopped
	fmt.Println("busy", alive(other))
	stay() // the end of this process would end the tool in any case
	return 0
}

// Processes that a call left, even one that hides by removing all marks, are ended with the call; those of another call,
// which is still running, are not (edge S8).
func TestWhatHidesEndsWithItsCall(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nobody adopts orphans there")
	}
	cmd, out := startGuarded(t, "hides")
	pids := out.pids(t)
	if got := out.next(t); got != "ended true" {
		t.Errorf("the tool of a call at work: got %q", got)
	}
	if got := out.next(t); got != "busy false" {
		t.Errorf("the tool of a call that has ended: got %q", got)
	}
	wantGone(t, pids)
	cmd.Process.Kill()
	cmd.Wait()
}

// nested starts another guarded command with the same environment, which has to get a separate guard.
func nested() int {
	cmd := exec.Command(os.Args[0], "guard")
	out, err := cmd.Output()
	if g, ok := proc.Guarded(); err != nil || !ok || string(out) == fmt.Sprintln(g) {
		fmt.Println(err, string(out), g, ok)
		return 95
	}
	return 0
}

// orphans starts a process that loses its parent and dies, and waits until the guard has waited for it.
func orphans() int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = roleEnviron("orphan")
	out, err := cmd.Output()
	if err != nil {
		return 94
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return 93
	}
	for end := time.Now().Add(15 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if syscall.Kill(pid, 0) == syscall.ESRCH { // not a zombie either
			return 0
		}
	}
	return 92
}

// orphan starts a child, prints its pid and does not wait for it.
func orphan([]string) int {
	cmd := exec.Command("sleep", "0.1")
	if cmd.Start() != nil {
		return 1
	}
	fmt.Println(cmd.Process.Pid)
	return 0
}

// startGuarded starts a guarded command with os/exec.
func startGuarded(t *testing.T, args ...string) (*exec.Cmd, *lines) {
	t.Helper()
	cmd, out := guardedCommand(t, os.Args[0], args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// guardedCommand returns a guarded command that is killed if it hangs, in a new process group: if a process of a group is stopped
// and the last parent outside of the group dies, the kernel sends SIGHUP to the whole group, which would be all the tests.
func guardedCommand(t *testing.T, name string, args ...string) (*exec.Cmd, *lines) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	t.Cleanup(cancel)
	out := newLines()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.SysProcAttr = roleEnviron("guarded"), &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.WaitDelay = time.Second // tools left behind would keep the pipe open
	return cmd, out
}

func TestGuardPassesTheExitCodeOn(t *testing.T) {
	tests := []struct {
		args []string
		want int
	}{
		{[]string{"exit", "0"}, 0},
		{[]string{"exit", "7"}, 7},
		{[]string{"die"}, 137},
		{[]string{"nested"}, 0},
		{[]string{"orphans"}, 0},
	}
	for _, tt := range tests {
		cmd, out := startGuarded(t, tt.args...)
		cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != tt.want {
			t.Errorf("%v: got code %d, want %d; output %q", tt.args, got, tt.want, rest(out))
		}
	}
}

func TestGuardPassesSignalsOn(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		cmd, out := startGuarded(t, "tools")
		pids := out.pids(t)
		cmd.Process.Signal(sig)
		cmd.Wait()
		if got, want := cmd.ProcessState.ExitCode(), 128+int(sig); got != want {
			t.Errorf("%v: got code %d, want %d", sig, got, want)
		}
		wantGone(t, pids)
	}
}

// A terminal signals guard and worker, and the guard passes its signal on: the worker treats both as one.
func TestGuardAndTerminal(t *testing.T) {
	words := ""
	for tries := 0; words == "" && tries < 5; tries++ { // if the machine stalls, the guard may pass its signal on too late to count as the same
		cmd, out := guardedCommand(t, os.Args[0], "tools")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pids := out.pids(t)
		syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != 130 {
			t.Errorf("got code %d, want 130", got)
		}
		words = strings.Join(rest(out), " ")
		wantGone(t, pids)
	}
	if words != "stopped by Ctrl-C" {
		t.Errorf("got last words %q", words)
	}
}

func TestKilledWorkerLeavesNothing(t *testing.T) {
	cmd, out := startGuarded(t, "tools")
	pids := out.pids(t)
	syscall.Kill(pids["worker"], syscall.SIGKILL)
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 137 {
		t.Errorf("got code %d, want 137", got)
	}
	if words := strings.Join(rest(out), "|"); words != "stopped by SIGKILL" {
		t.Errorf("got last words %q, want its end told once", words)
	}
	wantGone(t, pids)
}

// Whichever processes are killed (the guard, which is the one that people see, the reaper, the worker, two of them, or the
// agent too), what the agent started, even if it hides, is ended at once, without a later Sweep (edges A4, S8).
func TestKilledLeavesNothing(t *testing.T) {
	for _, killed := range [][]string{{"guard"}, {"reaper"}, {"worker"}, {"guard", "worker"}, {"worker", "guard"}, {"reaper", "worker"}, {"worker", "reaper"}, {"guard", "worker", "agent"}} {
		t.Run(strings.Join(killed, " "), func(t *testing.T) {
			t.Parallel()
			cmd, out := startGuarded(t, "tools")
			pids := out.pids(t)
			pids["guard"] = cmd.Process.Pid
			for _, who := range killed {
				syscall.Kill(pids[who], syscall.SIGKILL)
			}
			cmd.Wait()
			for kind, pid := range pids {
				if kind == "bare" && runtime.GOOS != "linux" { // nothing tells where such a process came from
					syscall.Kill(pid, syscall.SIGKILL)
				}
				eventually(t, kind+" has ended", func() bool { return !alive(pid) })
			}
		})
	}
}

// Sweep ends all tools of a call, also a daemon, which has an empty environment and a new session.
func TestSweepFindsADaemon(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing tells there where such a process came from")
	}
	c := play("tree")
	out := newLines()
	c.Stdout, c.Marker = out, marker("daemon")
	p, err := proc.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	pids := out.pids(t)
	if left := proc.Sweep(c.Marker); len(left) > 0 {
		t.Errorf("the sweep left %v", left)
	}
	wantGone(t, pids)
	p.Wait() //nolint:errcheck // it was killed
}

// A SIGHUP that is ignored from the start, as under nohup, stays ignored.
func TestGuardKeepsIgnoringSignals(t *testing.T) {
	cmd, out := guardedCommand(t, "sh", "-c", `trap "" HUP; exec "$0" tools`, os.Args[0])
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids := out.pids(t)
	cmd.Process.Signal(syscall.SIGHUP)
	syscall.Kill(pids["worker"], syscall.SIGHUP)
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 143 {
		t.Errorf("got code %d, want 143", got)
	}
	wantGone(t, pids)
}

func TestNotGuarded(t *testing.T) {
	if g, ok := proc.Guarded(); ok {
		t.Errorf("got %+v", g)
	}
	t.Setenv("TRELLIS_GUARD", fmt.Sprintf("%d:%s", os.Getppid(), "0"))
	if g, ok := proc.Guarded(); ok {
		t.Errorf("a former process of our parent's pid: got %+v", g)
	}
}
