package runner_test

import (
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
)

// spread is every how many-th of many cases is tried: all in a soak.
func spread(every int) int {
	if runnertest.Soak() {
		return 1
	}
	return every
}
