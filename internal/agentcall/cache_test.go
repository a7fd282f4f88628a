package agentcall_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A call is reported to have missed the cache if it could have hit it: soon after another call of the same agent, model and tools,
// with an input worth keeping.
func TestUncached(t *testing.T) {
	noon := time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)
	call := func(agent, model string, p trellis.Permission, minute int, in, cached int64) agentcall.CompletedCall {
		at := noon.Add(time.Duration(minute) * time.Minute)
		return agentcall.CompletedCall{Request: agentcall.Request{Agent: agent, Permission: p}, Began: at, Ended: at.Add(time.Minute),
			Reply: agentcall.Reply{Model: model, Usage: trellis.Usage{InputTokens: in, CachedTokens: cached}}}
	}
	first := call("claude", "opus", "edit", 0, 20_000, 0)
	for name, c := range map[string]struct {
		calls []agentcall.CompletedCall
		want  bool // of the last call
	}{
		"the first":           {[]agentcall.CompletedCall{first}, false},
		"soon after":          {[]agentcall.CompletedCall{first, call("claude", "opus", "edit", 2, 20_000, 0)}, true},
		"a hit":               {[]agentcall.CompletedCall{first, call("claude", "opus", "edit", 2, 100, 19_900)}, false},
		"too late":            {[]agentcall.CompletedCall{first, call("claude", "opus", "edit", 7, 20_000, 0)}, false},
		"at the same time":    {[]agentcall.CompletedCall{first, call("claude", "opus", "edit", 0, 20_000, 0)}, false},
		"another model":       {[]agentcall.CompletedCall{first, call("claude", "haiku", "edit", 2, 20_000, 0)}, false},
		"other tools":         {[]agentcall.CompletedCall{first, call("claude", "opus", "read", 2, 20_000, 0)}, false},
		"another agent":       {[]agentcall.CompletedCall{first, call("codex", "opus", "edit", 2, 20_000, 0)}, false},
		"a short one":         {[]agentcall.CompletedCall{first, call("claude", "opus", "edit", 2, 4000, 0)}, false},
		"after a short one":   {[]agentcall.CompletedCall{call("claude", "opus", "edit", 0, 4000, 0), call("claude", "opus", "edit", 2, 20_000, 0)}, false},
		"who tells none":      {[]agentcall.CompletedCall{call("mine", "", "edit", 0, 20_000, 0), call("mine", "", "edit", 2, 20_000, 0)}, false},
		"who tells sometimes": {[]agentcall.CompletedCall{call("mine", "", "edit", 0, 20_000, 5), call("mine", "", "edit", 2, 20_000, 0)}, true},
	} {
		got := agentcall.Uncached(c.calls)
		if len(got) != len(c.calls) || got[len(got)-1] != c.want || got[0] {
			t.Errorf("%s: got %s, want the last to be %t", name, fmt.Sprint(got), c.want)
		}
	}
}
