package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// span is when a command ran, and its processor time, which is hardly affected by the load of the machine.
type span struct {
	began, ended time.Time
	processor    time.Duration
}

// times are the spans of a project's commands, by kind.
type times map[string][]span

// readTimes reads the log of bench/timed.
func readTimes(log string) (times, error) {
	data, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	t := times{}
	for line := range strings.Lines(string(data)) {
		var kind string
		var began, ended, processor int64
		if _, err := fmt.Sscan(line, &kind, &began, &ended, &processor); err != nil {
			return nil, fmt.Errorf("reading %q of %s: %w", line, log, err)
		}
		t[kind] = append(t[kind], span{time.Unix(0, began), time.Unix(0, ended), time.Duration(processor)})
	}
	return t, nil
}

// seconds returns the duration of each command of a kind, in the order in which they began.
func (t times) seconds(kind string) (list []float64) {
	for _, s := range t.sortByStart(t[kind]) {
		list = append(list, s.ended.Sub(s.began).Seconds())
	}
	return list
}

func (times) sortByStart(list []span) []span {
	return slices.SortedFunc(slices.Values(list), func(a, b span) int { return cmp.Compare(a.began.UnixNano(), b.began.UnixNano()) })
}

// processor returns the total processor time of all commands of a kind.
func (t times) processor(kind string) (sum time.Duration) {
	for _, s := range t[kind] {
		sum += s.processor
	}
	return sum
}

// busyTime returns how long at least one command was running.
func (t times) busyTime() (sum time.Duration) {
	var all []span
	for _, list := range t {
		all = append(all, list...)
	}
	var until time.Time
	for _, s := range t.sortByStart(all) {
		if s.ended.After(until) {
			sum += s.ended.Sub(laterTime(s.began, until))
			until = s.ended
		}
	}
	return sum
}

func laterTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// rows returns the results of n tasks. The baseline is the first run of the checks. The target takes the median of the other
// runs as the duration of one run, since runs take longer while two tasks are running.
func (t times) rows(what string, n int, whole, processor time.Duration, disk float64) []row {
	checks, setups := t.seconds("check"), t.seconds("setup")
	one := row{samples: checks[min(1, len(checks)-1):]}.percentile(50)
	newRow := func(name, unit string, samples ...float64) row {
		return row{name: what + ": " + name, unit: unit, samples: samples}
	}
	inAll := newRow(fmt.Sprintf("checks, %d runs", len(checks)), "s", sum(checks))
	inAll.p50 = 1.25*float64(n)*one + checks[0]
	list := []row{newRow("from ready to review", "s", whole.Seconds()), inAll, newRow("one run of the checks", "s", checks...)}
	if len(setups) > 0 {
		list = append(list, newRow(fmt.Sprintf("setup, %d runs", len(setups)), "s", sum(setups)), newRow("one setup", "s", setups...))
	}
	ofChecks, ofSetup := t.processor("check"), t.processor("setup")
	return append(list, newRow("neither setup nor checks at work", "s", (whole-t.busyTime()).Seconds()),
		newRow("processor time of checks", "s", ofChecks.Seconds()), newRow("that of setup", "s", ofSetup.Seconds()),
		newRow("that of all else", "s", (processor-ofChecks-ofSetup).Seconds()), newRow("disk beside the repository in the end", "MB", disk))
}

func sum(list []float64) (all float64) {
	for _, one := range list {
		all += one
	}
	return all
}
