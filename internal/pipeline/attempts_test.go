package pipeline

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Further attempts after a transient failure are counted over a task's lifetime; each retry grants as many again.
func TestAttempts(t *testing.T) {
	for _, c := range []struct {
		name                      string
		granted, retries, earlier int
		tries                     int // further attempts that this run may make
	}{
		{"the first run", 3, 0, 0, 2},
		{"none granted beyond the first", 1, 0, 0, 0},
		{"a run that goes on", 3, 0, 1, 1},
		{"all used up by earlier runs", 3, 0, 2, 0},
		{"a retry after that", 3, 1, 2, 3},
		{"two retries", 2, 2, 1, 4},
	} {
		r := &run{in: Input{Retries: c.retries}, job: Job{Limits: Limits{Attempts: c.granted}}, rep: Report{Attempts: c.earlier}}
		again, tries := r.asker(0).Again, 0
		for again(flow.Fail(string(trellis.AgentExit), "")) {
			tries++
		}
		if tries != c.tries || r.rep.Attempts != c.earlier+tries {
			t.Errorf("%s: %d tries, %d counted; want %d", c.name, tries, r.rep.Attempts, c.tries)
		}
	}
}
