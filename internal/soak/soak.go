// Package soak says how much of what can be tried a test tries: a sample that is always the same with `make test`, and all of it in
// a soak.
package soak

import (
	"os"
	"testing"
)

// Asked reports whether tests are to take their full measure.
func Asked() bool { return os.Getenv("TRELLIS_SOAK") != "" }

// Every is how many steps on the next case is that is tried: 1 in a soak.
func Every(n int) int {
	if Asked() {
		return 1
	}
	return n
}

// Rows are those of a table that are tried: one of each kind, which a test names, and all in a soak.
func Rows[V any](t testing.TB, table map[string]V, sample ...string) map[string]V {
	t.Helper()
	if Asked() {
		return table
	}
	rows := map[string]V{}
	for _, name := range sample {
		row, ok := table[name]
		if !ok {
			t.Fatalf("the table has no row %q", name)
		}
		rows[name] = row
	}
	return rows
}

// Of are the cases that are tried of a list: a sample, and all in a soak.
func Of[V any](all []V, sample ...V) []V {
	if Asked() {
		return all
	}
	return sample
}

// Only leaves a test to a soak. Its like is the test of the same package that goes the same way with `make test`; internal/structure
// holds that it does, and that no promise of docs/ is shown in a soak alone.
func Only(t testing.TB, like string) {
	t.Helper()
	if !Asked() {
		t.Skipf("only in a soak (FULL=1 make soak): with make test %s goes this way", like)
	}
}
