package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// BootID changes with every boot of the machine. Empty when the system does not tell.
func BootID() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data))
}

// processes are all processes that can be seen.
func processes() (list []info) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if i, ok := inspect(pid); ok {
			list = append(list, i)
		}
	}
	return list
}

// inspect reads /proc/pid/stat: pid (name) state ppid pgrp …, start time as field 22.
func inspect(pid int) (info, bool) {
	if pid <= 0 {
		return info{}, false
	}
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return info{}, false
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:])) // from field 3 on: names may hold anything
	if len(fields) < 20 {
		return info{}, false
	}
	parent, _ := strconv.Atoi(fields[1])
	group, _ := strconv.Atoi(fields[2])
	dead := fields[0] == "Z" || fields[0] == "X"
	return info{ID{pid, fields[19]}, parent, group, dead}, true
}

// environ is the environment that a process began with; nil when it may not be read.
func environ(pid int) []string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	return strings.Split(string(data), "\x00")
}
