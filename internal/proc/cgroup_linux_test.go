package proc_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// cgroups returns the folder of control groups, or skips the test on a machine where none can be created.
func cgroups(t *testing.T) string {
	t.Helper()
	folder, err := proc.CgroupFolder()
	if err != nil {
		t.Skipf("calls have no control groups here, and the other tests show the other ways: %v", err)
	}
	return folder
}

// left returns the control groups that the processes with these pids should have removed.
func left(t *testing.T, folder string, pids ...int) (names []string) {
	t.Helper()
	for _, pid := range pids {
		found, err := filepath.Glob(filepath.Join(folder, fmt.Sprintf("trellis-*-%d.*", pid)))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	return names
}

// All processes of a call with a marker are in a separate control group from the first instant on, which is removed with the call.
func TestCallHasACgroup(t *testing.T) {
	folder := cgroups(t)
	c := shell(`cat /proc/self/cgroup`)
	c.Marker = marker("own")
	_, first := run(t, c)
	_, second := run(t, c)
	if !strings.Contains(first, "/trellis-") || first == second {
		t.Errorf("got %q, and then %q", first, second)
	}
	if _, out := run(t, shell(`cat /proc/self/cgroup`)); strings.Contains(out, "/trellis-") {
		t.Errorf("without a marker: got %q", out)
	}
	if _, err := proc.Run(t.Context(), proc.Command{Argv: []string{"/nowhere/at/all"}, Marker: marker("own")}); err == nil {
		t.Error("a program that is not there was started")
	}
	if names := left(t, folder, os.Getpid()); len(names) > 0 {
		t.Errorf("left are %q", names)
	}
}

// A process that starts its successor and ends, again and again, is faster than any search for it; its control group is killed as a
// whole (edge S8).
func TestHopperEndsWithItsCall(t *testing.T) {
	cgroups(t)
	dir := t.TempDir()
	hop := filepath.Join(dir, "hop.sh")
	if err := os.WriteFile(hop, []byte(`echo x >>"$1"; env -i PATH="$PATH" setsid sh "$0" "$1" & `), 0o600); err != nil {
		t.Fatal(err)
	}
	hops := filepath.Join(dir, "hops")
	c := proc.Command{Argv: []string{"bash", "-c", `ulimit -R unlimited; setsid sh "$0" "$1" & until test "$(wc -l <"$1")" -gt 3; do :; done`, hop, hops}, Env: []string{"PATH=" + os.Getenv("PATH")}, Marker: marker("hop")}
	run(t, c)
	size := func() int64 {
		st, err := os.Stat(hops)
		if err != nil {
			t.Fatal(err)
		}
		return st.Size()
	}
	for before, end := size(), time.Now().Add(200*time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if now := size(); now != before {
			if err := os.Remove(hop); err != nil { // ends the hopping
				t.Error(err)
			}
			t.Fatalf("it hops on: %d, then %d", before, now)
		}
	}
}

// If guard, reaper and worker are killed at once, a later Sweep finds the control groups of their calls, in its own folder of
// control groups or in the one that it is given, and ends the processes that hide there (edge S8).
func TestSweepEndsTheCgroupsOfTheKilled(t *testing.T) {
	folder := cgroups(t)
	elsewhere := filepath.Join(folder, marker("elsewhere"))
	if err := os.Mkdir(elsewhere, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(elsewhere)
	f, err := os.Open(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, place := range []string{folder, elsewhere} {
		cmd, out := guardedCommand(t, os.Args[0], "tools")
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = place == elsewhere, int(f.Fd())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pids := out.pids(t)
		pids["guard"] = cmd.Process.Pid
		killAll(t, cmd, pids)
		mark := fmt.Sprintf("guard-%d", pids["worker"])
		if place == elsewhere {
			proc.Sweep(mark)
		}
		if !alive(pids["hidden"]) {
			t.Error("nothing hides")
		}
		if left := proc.Sweep(mark, place); len(left) > 0 {
			t.Errorf("%v stay alive", left)
		}
		wantGone(t, pids)
		if names := left(t, place, pids["reaper"]); len(names) > 0 {
			t.Errorf("left are %q", names)
		}
	}
}

// killAll kills guard, reaper, worker and agent before one of them can react. The guard is last: with its end, stopped processes
// of its session go on. All are dead when killAll returns: until then the hidden tool would be found as the agent's child.
func killAll(t *testing.T, cmd *exec.Cmd, pids map[string]int) {
	t.Helper()
	who := []string{"reaper", "worker", "agent", "guard"}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // all are stopped before any of them dies, which the others would notice
		for _, name := range who {
			syscall.Kill(pids[name], sig)
		}
	}
	cmd.Wait()
	eventually(t, "they are dead", func() bool {
		return !slices.ContainsFunc(who, func(name string) bool { return alive(pids[name]) })
	})
}

// A worker, reaper or guard that is killed leaves no control groups either.
func TestKilledWorkerLeavesNoCgroups(t *testing.T) {
	folder := cgroups(t)
	for _, who := range []string{"worker", "reaper", "guard"} {
		cmd, out := startGuarded(t, "tools")
		pids := out.pids(t)
		pids["guard"] = cmd.Process.Pid
		if len(left(t, folder, pids["reaper"])) != 1 {
			t.Errorf("got %q, want one", left(t, folder, pids["reaper"]))
		}
		syscall.Kill(pids[who], syscall.SIGKILL)
		cmd.Wait()
		eventually(t, "no control group is left", func() bool { return len(left(t, folder, pids["reaper"])) == 0 })
		wantGone(t, pids)
	}
}

// Sweep does not write to a folder that is not a control group, even if a record names it.
func TestSweepBelievesNoFolder(t *testing.T) {
	mark, dir := marker("nowhere"), t.TempDir()
	for _, name := range cgroupNames(t, mark) {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"cgroup.events": "populated 1\n", "cgroup.kill": "old"} {
			if err := os.WriteFile(filepath.Join(path, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		proc.Sweep(mark, dir)
		if got, err := os.ReadFile(filepath.Join(path, "cgroup.kill")); string(got) != "old" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

// cgroupNames returns names that control groups of the run with this marker have.
func cgroupNames(t *testing.T, mark string) []string {
	t.Helper()
	cgroups(t)
	c := shell(`cat /proc/self/cgroup`)
	c.Marker = mark
	_, out := run(t, c)
	_, name, _ := strings.Cut(out, "/trellis-")
	name, _, _ = strings.Cut(name, "\n")
	return []string{"trellis-" + name}
}
