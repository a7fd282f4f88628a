package agents

import "github.com/trellis-tasks/trellis/internal/trellis"

// priced is a use with what it costs by list prices, where the model's is known and the program told none. Of the input so many
// tokens were written to the provider's cache.
func (t *tally) priced(model string, u trellis.Usage, written int64) trellis.Usage {
	if u.CostUSD != nil || u.Tokens() == 0 || t.tells {
		return u
	}
	if p, known := t.prices.Of(model); known {
		cost := p.Cost(u, min(max(written, 0), u.InputTokens))
		u.CostUSD, u.CostEstimated = &cost, true
	}
	return u
}
