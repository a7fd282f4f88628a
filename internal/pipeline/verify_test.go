package pipeline

import (
	"slices"
	"testing"
)

// Commands begin in order, and those that may be spared come last where none needs another.
func TestCommandsBegin(t *testing.T) {
	t.Parallel()
	commands, later := []string{"build", "lint", "test", "vet"}, []string{"build", "test"}
	for atOnce, want := range map[int][]int{0: {0, 1, 2, 3}, 1: {0, 1, 2, 3}, 2: {1, 3, 0, 2}} {
		in := checksIn{Job: Job{VerifyParallel: atOnce}, Later: later}
		if got := in.beginning(commands); !slices.Equal(got, want) {
			t.Errorf("%d at once: got %v, want %v", atOnce, got, want)
		}
	}
}
