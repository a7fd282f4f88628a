package agentstest

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

const offline = "AGENTSTEST_OFFLINE"

// Offline re-executes this test program in a separate network that has only loopback, so that no agent program can reach a
// provider. It returns in that network, and where the system does not allow creating one (it takes root). Call it first in
// TestMain.
func Offline() {
	if os.Getenv(offline) != "" {
		return
	}
	runtime.LockOSThread() // the new network belongs to the thread; exec keeps it
	defer runtime.UnlockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		fmt.Fprintf(os.Stderr, "agentstest: the agents could reach a network: %v\n", err)
		return
	}
	err := loopbackUp()
	if err == nil {
		err = unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), offline+"=1"))
	}
	fmt.Fprintf(os.Stderr, "agentstest: leaving the network: %v\n", err)
	os.Exit(1)
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
