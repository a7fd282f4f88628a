package proc_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// startTree starts tree with os/exec, in a new session, like processes that a dead orchestrator left.
func startTree(t *testing.T, mark string) (cmd *exec.Cmd, pids map[string]int) {
	t.Helper()
	out := newLines()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(roleEnviron("tree"), proc.MarkerVar+"="+mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids = out.pids(t)
	pids["tree"] = cmd.Process.Pid
	return cmd, pids
}

func TestSweep(t *testing.T) {
	cmd, pids := startTree(t, marker("sweep"))
	other, others := startTree(t, marker("sweep-2"))
	if left := proc.Sweep(marker("sweep")); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	wantGone(t, pids)
	cmd.Wait()
	for kind, pid := range others {
		if !alive(pid) {
			t.Errorf("%s of another run was killed", kind)
		}
	}
	proc.Sweep(marker("sweep-2"))
	wantGone(t, others)
	other.Wait()
	if left := proc.Sweep(""); left != nil {
		t.Errorf("no marker: got %v", left)
	}
}

// Processes that left the group are found after a quick command, where pids tell which are new, and after a slow one.
func TestRunEndsWhatLeftTheGroup(t *testing.T) {
	scripts := map[string]string{
		"quick": `setsid sleep 100 & echo "stray $!"`,
		"slow":  `setsid sleep 100 & echo "stray $!"; sleep 0.05`,
		"deep":  `{ setsid sh -c 'env -i sleep 100 & echo "stray $!"; sleep 100' & } | head -n 1`,
	}
	if runtime.GOOS == "linux" {
		scripts["cleared"] = `sleep 0.1; env -i setsid sleep 100 >/dev/null & echo "stray $!"`
		scripts["forked twice"] = `sleep 0.1; env -i setsid sh -c 'sleep 100 >/dev/null & echo "stray $!"' & wait`
	}
	for name, script := range scripts {
		c := shell(script)
		c.Marker = marker(name)
		_, out := run(t, c)
		var pid int
		if _, err := fmt.Sscanf(out, "stray %d", &pid); err != nil {
			t.Fatalf("%s: got %q", name, out)
		}
		wantGone(t, map[string]int{name: pid})
	}
}

func TestSweepSparesItself(t *testing.T) {
	c := play("inside", "sweep")
	c.Marker = marker("self")
	if r, out := run(t, c); r.Code != 0 || out != "true\n" {
		t.Errorf("got %+v, output %q", r, out)
	}
}

func TestInsideRun(t *testing.T) {
	if proc.StartedByRun(os.Environ()) {
		t.Skip("these tests are run by a run themselves")
	}
	if proc.StartedByRun([]string{"A=1"}) {
		t.Error("outside it is said to be inside")
	}
	c := play("inside")
	c.Marker = marker("in")
	if _, got := run(t, c); got != "true\n" {
		t.Errorf("own environment: got %q", got)
	}
	c = play("inside", "child")
	c.Marker = marker("up")
	if _, got := run(t, c); got != "true\n" {
		t.Errorf("ancestor's environment: got %q", got)
	}
	c = play("inside", "child")
	if _, got := run(t, c); got != "false\n" {
		t.Errorf("no run above: got %q", got)
	}
}

// inside prints the result of StartedByRun, with "child" in a child process without markers, with "sweep" after a Sweep of its marker.
func inside(args []string) int {
	switch strings.Join(args, " ") {
	case "child":
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(roleEnviron("inside"), proc.MarkerVar+"=")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if cmd.Run() != nil {
			return 1
		}
		return 0
	case "sweep":
		if left := proc.Sweep(os.Getenv(proc.MarkerVar)); len(left) > 0 {
			return 1
		}
	}
	fmt.Println(proc.StartedByRun(os.Environ()))
	return 0
}
