package proc_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/trellis-tasks/trellis/internal/proc"
)

func TestID(t *testing.T) {
	self := proc.Self()
	if self.PID != os.Getpid() || self.Start == "" || !self.Alive() {
		t.Errorf("got %+v, alive %v", self, self.Alive())
	}
	if id := (proc.ID{PID: self.PID, Start: "1"}); id.Alive() {
		t.Error("a process of the same pid and another start is alive")
	}
	if id := (proc.ID{PID: self.PID}); !id.Alive() {
		t.Error("without a start, the pid alone counts")
	}
	for _, pid := range []int{0, -1, 1 << 30} {
		if (proc.ID{PID: pid}).Alive() {
			t.Errorf("pid %d is alive", pid)
		}
	}
	if proc.BootID() == "" {
		t.Error("no boot id")
	}
}

func TestDeadAndNotWaitedForIsNotAlive(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id := proc.ID{PID: cmd.Process.Pid}
	eventually(t, "the process is dead", func() bool { return !id.Alive() })
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
