package taskdir_test

import (
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/taskdir"
)

func TestParallelMap(t *testing.T) {
	square := func(n int) int { return n * n }
	var items, want []int
	for n := range 1000 {
		items, want = append(items, n), append(want, n*n)
	}
	if got := taskdir.ParallelMap(items, square); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if got := taskdir.ParallelMap(nil, square); got == nil || len(got) > 0 {
		t.Errorf("of nothing: got %#v, want an empty list", got)
	}
}
