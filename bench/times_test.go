package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	log := filepath.Join(t.TempDir(), "times.log")
	s := int64(time.Second)
	if err := os.WriteFile(log, []byte(line("check", 20*s, 30*s)+line("setup", s, 4*s)+line("check", 5*s, 9*s)+line("check", 22*s, 26*s)+line("check", 29*s, 31*s)), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := readTimes(log)
	if err != nil {
		t.Fatal(err)
	}
	if busy := got.busyTime(); busy != 18*time.Second { // 1 to 4, 5 to 9 and 20 to 31 s
		t.Errorf("got busy for %v", busy)
	}
	rows := got.rows("it", 8, 40*time.Second, 14*time.Second, 7)
	for i, want := range []row{{samples: []float64{40}}, {samples: []float64{20}, p50: 44}, {samples: []float64{4, 10, 4, 2}}, {samples: []float64{3}}, {samples: []float64{3}}, {samples: []float64{22}}, {samples: []float64{10}}, {samples: []float64{1.5}}, {samples: []float64{2.5}}, {samples: []float64{7}}} {
		if got := rows[i]; got.p50 != want.p50 || len(got.samples) != len(want.samples) || got.samples[0] != want.samples[0] {
			t.Errorf("row %d: got %v, want %v", i, got, want)
		}
	}
	if _, err := readTimes(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("read a log that is not there")
	}
}

func line(kind string, began, ended int64) string {
	return fmt.Sprintln(kind, began, ended, (ended-began)/2)
}
