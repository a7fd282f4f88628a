package agentcall

import (
	"cmp"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/agents"
)

// Made is a call that was made, as a journal has it.
type Made struct {
	Request      Request
	Reply        Reply
	Began, Ended time.Time
}

// Model is the model that answered, or was asked for; "" where nobody told.
func (m Made) Model() string { return cmp.Or(m.Reply.Model, m.Request.Model) }

// A provider keeps in its cache what has at least so many tokens, for at least so long.
const (
	leastCached = 4096
	keptFor     = 5 * time.Minute
)

// Uncached says of each of the calls of a run, which stand in their order, whether none of its input came from the provider's cache
// although some of it could: just before, the same model was asked with the same tools. Agents that never tell of a cache are left
// out.
func Uncached(calls []Made) []bool {
	tell := map[string]bool{}
	for _, name := range agents.Programs() {
		tell[name] = true
	}
	for _, c := range calls {
		tell[c.Request.Agent] = tell[c.Request.Agent] || c.Reply.Usage.CachedTokens > 0
	}
	missed := make([]bool, len(calls))
	for i, c := range calls {
		u := c.Reply.Usage
		missed[i] = tell[c.Request.Agent] && u.InputTokens >= leastCached && u.CachedTokens == 0 &&
			slices.ContainsFunc(calls[:i], func(before Made) bool { return before.warms(c) })
	}
	return missed
}

// warms reports whether a call left in the cache what a later one begins with.
func (m Made) warms(later Made) bool {
	between := later.Began.Sub(m.Ended)
	return m.Request.Agent == later.Request.Agent && m.Model() == later.Model() && m.Request.Permission == later.Request.Permission &&
		m.Reply.Usage.InputTokens+m.Reply.Usage.CachedTokens >= leastCached && between >= 0 && between <= keptFor
}
