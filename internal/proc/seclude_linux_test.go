package proc_test

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"testing"
)

// No process of a guarded command shows its environment to other programs of the same user (edge S7): what /proc has of it is
// wiped, and belongs to root.
func TestGuardedCommandsShowNoAccounts(t *testing.T) {
	const word = "geheim0123456789"
	cmd, out := guardedCommand(t, "/proc/self/exe", "tools")
	cmd.Env = append(cmd.Env, "ANTHROPIC_API_KEY="+word, "LAST="+word)
	if os.Geteuid() == 0 { // whose processes belong to root in any case
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		cmd.Dir = "/"
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids := out.pids(t)
	for name, pid := range map[string]int{"guard": cmd.Process.Pid, "reaper": pids["reaper"], "worker": pids["worker"]} {
		file := fmt.Sprintf("/proc/%d/environ", pid)
		if data, err := os.ReadFile(file); err == nil && bytes.Contains(data, []byte(word)) {
			t.Errorf("the %s shows %q", name, data)
		}
		if st, err := os.Stat(file); err != nil || st.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("the %s can be read by others of its person: %v", name, err)
		}
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err == nil {
		t.Error("got no exit code of the signal")
	}
	wantGone(t, pids)
}
