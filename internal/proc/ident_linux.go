package proc

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// BootID returns a value that changes with every boot of the machine, "" if the system does not tell.
func BootID() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data))
}

// processes returns all processes that can be seen.
func processes() (list []info) { return inspectAll(pids()) }

// pids returns the pids of all processes that can be seen.
func pids() (list []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

func inspectAll(pids []int) (list []info) {
	for _, pid := range pids {
		if i, ok := inspect(pid); ok {
			list = append(list, i)
		}
	}
	return list
}

// startedAfter returns the processes that were started after pid, which was started moments ago. Pids are assigned in ascending order:
// unless the last one assigned is below pid, all these are above it. ok is false if that can't be told.
func startedAfter(pid int) (list []info, ok bool) {
	if !manyPIDs() {
		return nil, false
	}
	found := slices.DeleteFunc(pids(), func(p int) bool { return p <= pid })
	var buf [128]byte
	load := bytes.Fields(buf[:readOnce("/proc/loadavg", buf[:])]) // its last field is the pid assigned last
	if len(load) != 5 {
		return nil, false
	}
	if last, err := strconv.Atoi(string(load[4])); err != nil || last < pid {
		return nil, false
	}
	return inspectAll(found), true
}

// manyPIDs reports whether there are too many pids to assign all of them within moments.
var manyPIDs = sync.OnceValue(func() bool {
	data, _ := os.ReadFile("/proc/sys/kernel/pid_max")
	n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return n >= 1<<15
})

// inspect reads /proc/pid/stat: pid (name) state ppid pgrp …, start time as field 22.
func inspect(pid int) (info, bool) {
	if pid <= 0 {
		return info{}, false
	}
	var buf [1024]byte // on the stack: a sweep reads hundreds of these, and os.ReadFile costs more than the kernel does
	n := readOnce("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	rest := bytes.TrimSpace(buf[bytes.LastIndexByte(buf[:n], ')')+1 : n]) // from field 3 on, since a name may contain anything
	fields := bytes.SplitN(rest, []byte(" "), 20+1)
	if len(fields) < 20 {
		return info{}, false
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	group, _ := strconv.Atoi(string(fields[2]))
	dead := fields[0][0] == 'Z' || fields[0][0] == 'X'
	return info{ID{pid, string(fields[19])}, parent, group, dead}, true
}

// readOnce reads a file that the kernel returns whole in one call, and returns its length, 0 on errors.
func readOnce(path string, buf []byte) int {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Read(fd, buf)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0)
		}
	}
}

// environ returns the environment that a process was started with, nil if it may not be read.
func environ(pid int) []string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	return strings.Split(string(data), "\x00")
}
