package soak_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/internal/soak"
)

func TestRows(t *testing.T) {
	table := map[string]int{"first": 1, "second": 2, "third": 3}
	for asked, want := range map[string][]string{"": {"first", "third"}, "1": {"first", "second", "third"}} {
		t.Setenv("TRELLIS_SOAK", asked)
		if got := slices.Sorted(maps.Keys(soak.Rows(t, table, "first", "third"))); !slices.Equal(got, want) {
			t.Errorf("with TRELLIS_SOAK=%s: got %v, want %v", asked, got, want)
		}
		if got := soak.Of(want, "one"); len(got) != 1 && asked == "" || len(got) != len(want) && asked != "" {
			t.Errorf("with TRELLIS_SOAK=%s %v of a list are tried", asked, got)
		}
		if got := soak.Every(7); got != 7 && asked == "" || got != 1 && asked != "" {
			t.Errorf("with TRELLIS_SOAK=%s every %d. is tried", asked, got)
		}
	}
}
