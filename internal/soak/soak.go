// Package soak says how many of its cases a test runs: a fixed sample with `make test`, and all of them in a soak.
package soak

import (
	"os"
	"testing"
)

// Asked reports whether tests are to run all of their cases.
func Asked() bool { return os.Getenv("TRELLIS_SOAK") != "" }

// Every returns the distance between the cases that are run: n, or 1 in a soak.
func Every(n int) int {
	if Asked() {
		return 1
	}
	return n
}

// Rows returns the rows of a table that are run: the sample, which has one row of each kind, or all in a soak.
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

// Of returns the cases of a list that are run: the sample, or all in a soak.
func Of[V any](all []V, sample ...V) []V {
	if Asked() {
		return all
	}
	return sample
}

// Only skips a test except in a soak. like is a test of the same package that covers the same path with `make test`;
// internal/structure verifies that it does, and that no promise of docs/ is shown only in a soak.
func Only(t testing.TB, like string) {
	t.Helper()
	if !Asked() {
		t.Skipf("only in a soak (FULL=1 make soak): with make test %s goes this way", like)
	}
}
