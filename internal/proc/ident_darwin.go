package proc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB of sys/proc.h

// BootID returns a value that changes with every boot of the machine, "" if the system does not tell.
func BootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}

// processes returns all processes that can be seen.
func processes() (list []info) {
	all, _ := unix.SysctlKinfoProcSlice("kern.proc.all")
	for i := range all {
		list = append(list, toInfo(&all[i]))
	}
	return list
}

// startedAfter always returns false: pids are not assigned in order.
func startedAfter(int) (list []info, ok bool) { return nil, false }

func inspect(pid int) (info, bool) {
	if pid <= 0 {
		return info{}, false
	}
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return info{}, false
	}
	return toInfo(k), true
}

func toInfo(k *unix.KinfoProc) info {
	at := k.Proc.P_starttime
	start := fmt.Sprintf("%d.%06d", at.Sec, at.Usec)
	return info{ID{int(k.Proc.P_pid), start}, int(k.Eproc.Ppid), int(k.Eproc.Pgid), k.Proc.P_stat == zombie}
}

// environ returns the environment that a process was started with, nil if it may not be read. The kernel returns the number of
// arguments, the program's path, zeros, the arguments and then the environment.
func environ(pid int) []string {
	data, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil || len(data) < 4 {
		return nil
	}
	args := int(binary.NativeEndian.Uint32(data))
	_, rest, ok := bytes.Cut(data[4:], []byte{0})
	if !ok {
		return nil
	}
	words := strings.Split(string(bytes.TrimLeft(rest, "\x00")), "\x00")
	return words[min(args, len(words)):]
}
