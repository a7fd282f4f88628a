package proc

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trellis-tasks/trellis/internal/patience"
)

// adoptOrphans makes every descendant that loses its parent a child of this process.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

func workerAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// endWithReaper does nothing: the kernel kills this process with the reaper.
func endWithReaper(ID) error { return nil }

// ownPath returns the file of this program. If that was replaced or removed since the program started, it is the running file.
func ownPath() (string, error) {
	const running = "/proc/self/exe"
	a, err := os.Stat(running)
	if err != nil {
		return "", err
	}
	path, err := os.Executable()
	if err != nil {
		return running, nil
	}
	if b, err := os.Stat(path); err != nil || !os.SameFile(a, b) {
		return running, nil
	}
	return path, nil
}

// endDescendants kills everything that came from this process, until it has no children: orphans of killed processes become
// children in turn. First, it kills the control groups of a worker as one: those that this process has to end, or those of the
// reaper that it outlived.
func endDescendants(from ID) {
	endCgroupsOf(Self())
	endCgroupsOf(from)
	root := map[int]bool{os.Getpid(): true}
	for end := patience.New(sweepTime); !reapDead() && !end.Over(); time.Sleep(time.Millisecond) {
		for _, i := range descendants(processes(), root) {
			unix.Kill(i.id.PID, syscall.SIGKILL)
		}
	}
}
