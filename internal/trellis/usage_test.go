package trellis_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A sum says that its cost is partial if the cost of a part is unknown, whichever part came first.
func TestUsageAdd(t *testing.T) {
	cent := 0.01
	told, untold, nothing := trellis.Usage{InputTokens: 10, CostUSD: &cent}, trellis.Usage{OutputTokens: 5, Seconds: 1}, trellis.Usage{}
	for name, c := range map[string]struct {
		parts   []trellis.Usage
		cost    float64 // -1 if it is unknown
		partial bool
	}{
		"all told":             {[]trellis.Usage{told, told}, 0.02, false},
		"none told":            {[]trellis.Usage{untold, untold}, -1, false},
		"the first told":       {[]trellis.Usage{told, untold}, 0.01, true},
		"the last told":        {[]trellis.Usage{untold, told}, 0.01, true},
		"one of three did not": {[]trellis.Usage{told, untold, told}, 0.02, true},
		"nothing was used":     {[]trellis.Usage{nothing, told, nothing}, 0.01, false},
	} {
		var sum trellis.Usage
		for _, part := range c.parts {
			sum = sum.Add(part)
		}
		if cost := sum.CostUSD; (cost == nil) != (c.cost < 0) || cost != nil && *cost != c.cost || sum.CostPartial != c.partial {
			t.Errorf("%s: got %+v, want %v, %t", name, sum, c.cost, c.partial)
		}
	}
}
