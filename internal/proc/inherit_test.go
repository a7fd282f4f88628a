package proc_test

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// A folder that trellis inherited as an open file is not open in a program in a sandbox.
func TestLauncherInheritsNothing(t *testing.T) {
	fd, err := unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	look := proc.Shell(fmt.Sprintf("test ! -e /dev/fd/%d", fd))
	if r, err := proc.Run(t.Context(), proc.Command{Argv: look, Env: []string{}, Launcher: []string{"/usr/bin/env"}}); err != nil || r.Code != 0 {
		t.Errorf("got %+v, %v, want the folder closed", r, err)
	}
}
