package bases_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
)

// FirstWithoutNext returns the first wait for a task that has to go on, and ignores waits that have a Next.
func TestUnsaid(t *testing.T) {
	lost, rejected := bases.Wait{For: "lost", Next: "trellis retry lost"}, bases.Wait{For: "rejected, which is rejected: take it out"}
	ready := bases.Wait{For: "ready", Task: "ready"}
	for name, c := range map[string]struct {
		waits  bases.Waits
		want   bases.Wait
		unsaid bool
	}{
		"nothing is known":               {nil, bases.Wait{}, true},
		"each says so":                   {bases.Waits{lost}, bases.Wait{}, false},
		"one has to go on":               {bases.Waits{lost, ready}, ready, true},
		"behind one that nobody goes on": {bases.Waits{rejected, ready}, ready, true},
		"none has to go on":              {bases.Waits{rejected}, bases.Wait{}, true},
	} {
		if got, unsaid := c.waits.FirstWithoutNext(); got != c.want || unsaid != c.unsaid {
			t.Errorf("%s: got %+v, %v", name, got, unsaid)
		}
	}
}
