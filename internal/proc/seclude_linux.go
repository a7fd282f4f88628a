package proc

import (
	"bytes"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// hideMemory hides what this process knows from other programs of the same user: accounts of agents are in its environment and in its
// memory. It wipes the environment that the system shows, except Trellis' own marks, by which processes are found, and lets nobody
// but root read the rest. What this process and its children know of the environment does not change. Where the system does not
// allow this, nothing changes.
func hideMemory() {
	if from, to, err := environBlock(); err == nil {
		wipe(from, to)
	}
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // last, since after it the memory can't be opened
}

// environBlock returns where the environment that this process was started with is in its memory.
func environBlock() (from, to int64, err error) {
	var buf [1024]byte
	n := readOnce("/proc/self/stat", buf[:])
	fields := bytes.Fields(buf[bytes.LastIndexByte(buf[:n], ')')+1 : n]) // from field 3 on
	const fromAt, toAt = 50 - 3, 51 - 3
	if len(fields) <= toAt {
		return 0, 0, fmt.Errorf("/proc/self/stat has %d fields", len(fields))
	}
	if from, err = strconv.ParseInt(string(fields[fromAt]), 10, 64); err != nil {
		return 0, 0, err
	}
	to, err = strconv.ParseInt(string(fields[toAt]), 10, 64)
	return from, to, err
}

// wipe overwrites a range of memory, entry by entry, except Trellis' own variables.
func wipe(from, to int64) {
	const most = 8 << 20 // more than any system starts a program with
	if to <= from || to-from > most {
		return
	}
	memory, err := unix.Open("/proc/self/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(memory)
	block := make([]byte, to-from)
	if n, err := unix.Pread(memory, block, from); err != nil || n < len(block) {
		return
	}
	for entry := range bytes.SplitSeq(block, []byte{0}) {
		if !bytes.HasPrefix(entry, []byte("TRELLIS_")) {
			clear(entry)
		}
	}
	_, _ = unix.Pwrite(memory, block, from)
}
