package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the unit of process times in /proc, in 1/s.
const ticksPerSecond = 100

// idle measures what an idle watcher uses during a time.
func (b *bench) idle(s *site, what string, over time.Duration) error {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		b.logf("left out: the watcher at rest, which is looked at through /proc")
		return nil
	}
	return s.withWatcher(func(w *watcher) error {
		rows, err := w.measureIdle("watcher at rest, "+what, over)
		b.rows = append(b.rows, rows...)
		return err
	})
}

// measureIdle measures worker and guard during a time.
func (w *watcher) measureIdle(name string, over time.Duration) ([]row, error) {
	pids := []int{w.holder.PID, w.holder.Guard}
	rows := []row{{name: name + ": worker", unit: "MB"}, {name: "its guard", unit: "MB"}, {name: "both, what they share counted once", unit: "MB", p99: 40}}
	before, err := cpu(pids)
	if err != nil {
		return nil, err
	}
	const looks = 10
	for range looks {
		time.Sleep(over / looks)
		sum := 0.0
		for i, pid := range pids {
			own, err := megabytes(pid, "status", "VmRSS")
			if err != nil {
				return nil, err
			}
			share, err := megabytes(pid, "smaps_rollup", "Pss")
			if err != nil {
				return nil, err
			}
			rows[i].samples = append(rows[i].samples, own)
			sum += share
		}
		rows[len(pids)].samples = append(rows[len(pids)].samples, sum)
	}
	after, err := cpu(pids)
	used := row{name: fmt.Sprintf("CPU of both over %v", over), unit: "%", samples: []float64{100 * (after - before).Seconds() / over.Seconds()}}
	return append(rows, used), err
}

// megabytes returns a field of a file of a process, which is in kB.
func megabytes(pid int, file, name string) (float64, error) {
	path := fmt.Sprintf("/proc/%d/%s", pid, file)
	kb, err := strconv.Atoi(strings.TrimSuffix(field(path, name, ":"), " kB"))
	if err != nil {
		return 0, fmt.Errorf("reading %s of %s: %w", name, path, err)
	}
	return float64(kb) / 1024, nil
}

// cpu returns the CPU time that processes have used so far.
func cpu(pids []int) (sum time.Duration, err error) {
	for _, pid := range pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, fmt.Errorf("reading the time of process %d: %w", pid, err)
		}
		_, rest, _ := strings.Cut(string(data), ") ") // from the third field on
		fields := strings.Fields(rest)
		for _, at := range []int{11, 12} { // user and system
			n, err := strconv.Atoi(fields[at])
			if err != nil {
				return 0, fmt.Errorf("reading the time of process %d: %w", pid, err)
			}
			sum += time.Duration(n) * time.Second / ticksPerSecond
		}
	}
	return sum, nil
}
