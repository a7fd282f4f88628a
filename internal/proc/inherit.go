package proc

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// closeFilesOnExec keeps the files that this process inherited, besides its three streams, from being passed on: an open folder leads out
// of a sandbox. Go itself opens no file that children inherit.
func closeFilesOnExec() {
	entries, _ := os.ReadDir("/dev/fd") // without it nothing can be done
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}
