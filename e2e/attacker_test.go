package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// attacker is the name under which this test's own program runs the parts of attacks that shells can't.
const attacker = "attacker"

// attackBy runs a command of the attacker and returns the exit code.
func attackBy(args []string) int {
	var err error
	switch {
	case len(args) > 0 && args[0] == "dial":
		for place := range slices.Chunk(args[1:], 2) {
			err = errors.Join(err, dial(place[0], place[1]))
		}
	case len(args) > 0 && args[0] == "via":
		for _, address := range args[1:] {
			err = errors.Join(err, via(address))
		}
	case len(args) == 2 && args[0] == "outlive":
		err = outlive(args[1])
	case len(args) == 2 && args[0] == "hydra":
		err = hydra(args[1])
	default:
		err = fmt.Errorf("no such attack: %q", args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// dial sends something to the listener at address.
func dial(network, address string) error {
	conn, err := net.DialTimeout(network, address, 2*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte("secret\n"))
	return err
}

// via sends something to the listener at address, by the proxy that the environment names.
func via(address string) error {
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(os.Getenv("HTTPS_PROXY"), "http://"), 2*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\nsecret\n", address)
	if err == nil {
		_, err = io.Copy(io.Discard, conn)
	}
	return err
}

// outlive starts a process that has no tie to its starter: no environment, session, folder, open file or limit.
func outlive(word string) error {
	const rttime, unlimited = 15, ^uint64(0)
	if err := syscall.Setrlimit(rttime, &syscall.Rlimit{Cur: unlimited, Max: unlimited}); err != nil {
		fmt.Fprintln(os.Stderr, err) // not every user may raise this limit
	}
	cmd := exec.Command("sh", "-c", "env -i setsid sleep "+word+" & exit 0")
	cmd.Env, cmd.Dir, cmd.SysProcAttr = []string{"PATH=" + os.Getenv("PATH")}, "/", &syscall.SysProcAttr{Setsid: true}
	return cmd.Run()
}

// hydra starts a chain of processes: each lives for a moment and leaves a child, so one that is found is gone. It ends after a while.
func hydra(word string) error {
	const head = `[ "$2" -lt 900 ] || exit 0; sleep 0.01; env -i PATH=/usr/bin:/bin setsid sh -c "$3" sh "$1" $(($2+1)) "$3" & exit 0`
	cmd := exec.Command("sh", "-c", head, "sh", word, "0", head)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}
