package proc

import (
	"bytes"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// seclude keeps what this process knows from other programs of the same person: accounts of agents stand in its environment,
// and in its memory. What the system shows of the environment is wiped, but for Trellis' own marks, by which processes are found, and
// nobody who is not root may read the rest. What this process, and what it starts, know of the environment is as before. Where a system lets none
// of that be done it is left as it is.
func seclude() {
	if from, to, err := environBlock(); err == nil {
		wipe(from, to)
	}
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // after it the memory could not be opened
}

// environBlock is where in the memory of this process the environment lies that it was started with.
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

// wipe overwrites what lies there, entry by entry, but for Trellis' own.
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
