package agentcall

import (
	"cmp"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/agents"
)

// CompletedCall is a call that was made, as recorded in a journal.
type CompletedCall struct {
	Request      Request
	Reply        Reply
	Began, Ended time.Time
}

// Model returns the model that answered, or else the requested one; "" if neither is known.
func (m CompletedCall) Model() string { return cmp.Or(m.Reply.Model, m.Request.Model) }

// A provider caches input of at least minCached tokens, for at least cacheLifetime.
const (
	minCached     = 4096
	cacheLifetime = 5 * time.Minute
)

// Uncached reports for each of a run's calls, given in order, whether none of its input came from the provider's cache although
// some of it could: an earlier call ended shortly before, to the same model with the same tools. Agents that never report cached
// tokens are left out.
func Uncached(calls []CompletedCall) []bool {
	reportsCached := map[string]bool{}
	for _, name := range agents.Programs() {
		reportsCached[name] = true
	}
	for _, c := range calls {
		reportsCached[c.Request.Agent] = reportsCached[c.Request.Agent] || c.Reply.Usage.CachedTokens > 0
	}
	missed := make([]bool, len(calls))
	for i, c := range calls {
		u := c.Reply.Usage
		missed[i] = reportsCached[c.Request.Agent] && u.InputTokens >= minCached && u.CachedTokens == 0 &&
			slices.ContainsFunc(calls[:i], func(before CompletedCall) bool { return before.warmsCacheFor(c) })
	}
	return missed
}

// warmsCacheFor reports whether m left the beginning of a later call in the cache.
func (m CompletedCall) warmsCacheFor(later CompletedCall) bool {
	between := later.Began.Sub(m.Ended)
	return m.Request.Agent == later.Request.Agent && m.Model() == later.Model() && m.Request.Permission == later.Request.Permission &&
		m.Reply.Usage.InputTokens+m.Reply.Usage.CachedTokens >= minCached && between >= 0 && between <= cacheLifetime
}
