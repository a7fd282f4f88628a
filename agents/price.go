package agents

import "github.com/trellis-tasks/trellis/internal/trellis"

// withEstimatedCost returns u with its cost by list prices, if the prices of the model are known and the program did not report the cost.
// written is the number of input tokens that were written to the provider's cache.
func (t *tally) withEstimatedCost(model string, u trellis.Usage, written int64) trellis.Usage {
	if u.CostUSD != nil || u.Tokens() == 0 || t.reportsCost {
		return u
	}
	if p, known := t.prices.Of(model); known {
		cost := p.Cost(u, min(max(written, 0), u.InputTokens))
		u.CostUSD, u.CostEstimated = &cost, true
	}
	return u
}
