package events_test

import (
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func TestWaitWords(t *testing.T) {
	now := time.Date(2026, 2, 3, 12, 0, 0, 0, time.Local)
	for want, w := range map[string]events.Wait{
		"agent crashed (exit 3): no luck; attempt 2 of 3 in 10 s": {For: "backoff", Why: events.CrashText(trellis.AgentExit, "it ended with exit 3: no luck\nat all"), Until: now.Add(10 * time.Second), Attempt: 2, Of: 3},
		"agent crashed (signal: killed); attempt 2 of 3 in 10 s":  {For: "backoff", Why: events.CrashText(trellis.AgentSignal, "signal: killed"), Until: now.Add(10 * time.Second), Attempt: 2, Of: 3},
		"agent crashed: no luck; attempt 2 until 12:05:00":        {For: "backoff", Why: events.CrashText(trellis.AgentExit, "no luck\nat all"), Until: now.Add(5 * time.Minute), Attempt: 2},
		"waits for the rate limit: slow down until 12:05:00":      {For: "rate_limit", Why: "slow down", Until: now.Add(5 * time.Minute)},
		"waits for approval": {For: "approval"},
		"waits for approval of the plan; next: trellis approve 02-01-a": {For: "approval", Why: "approval of the plan; next: trellis approve 02-01-a"},
		"waits for the checks at base, which 02-01-a runs":              {For: "checks", Why: "the checks at base, which 02-01-a runs"},
		"waits for trust":            {For: "trust", Why: "trust"},
		"waits for 02-01-a (ready)":  {For: "dependency", Why: "dependency 02-01-a (ready)"},
		"queued (3 of 3 slots busy)": {For: "slot", Why: "3 of 3 slots busy"},
		"waits for a budget: the task used 10 tokens of 9 until 2026-02-04 12:00:00": {For: "budget", Why: "the task used 10 tokens of 9", Until: now.Add(24 * time.Hour)},
	} {
		if got := w.Text(now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestCheckWords(t *testing.T) {
	for want, c := range map[string]events.Check{
		"verify ✗ 1 of 2: go test ./... (exit 1)":            {Command: "go test ./...", N: 1, Of: 2, Code: 1},
		"verify ✓ 2 of 2: go vet ./... (passed)":             {Command: "go vet ./...", N: 2, Of: 2},
		"verify ! 1 of 1: make (exit 2, as before the work)": {Command: "make", N: 1, Of: 1, Code: 2, Forgiven: true},
	} {
		if got := c.Text("verify"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
