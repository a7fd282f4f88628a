package terminal_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/terminal"
	letters "github.com/trellis-tasks/trellis/internal/text"
)

// numbers returns statistics of three tasks: one has a long name, and one reported no cost.
func numbers() stats.Table {
	cost, hits, rate := 12.345, 0.857, 0.5
	sum := stats.Row{Tasks: 3, Calls: 19, FailedCalls: 2, Refused: 1, AgentSeconds: 4210, CheckSeconds: 380, InputTokens: 120_000, CachedTokens: 720_000, OutputTokens: 31_000,
		CacheHits: &hits, CostUSD: &cost, CostUnknown: 4, Ends: &stats.Ends{Delivered: 1, FirstPass: 1, Failed: 1, Rejected: 1, Rounds: 5, Worked: 2, FirstPassRate: &rate}}
	long, none, no := sum, sum, stats.Row{Key: "02-03-no", Tasks: 1, Calls: 1, Refused: 1, AgentSeconds: 4, CostUnknown: 1, Ends: &stats.Ends{Rejected: 1}}
	long.Key, long.Ends, long.CostUnknown, long.Refused = "02-01-"+strings.Repeat("x", 30), &stats.Ends{Delivered: 1, Rounds: 3}, 0, 0
	none.Key, none.Ends, none.CostUSD = "02-02-\x1b[2Jlist", &stats.Ends{Failed: 1, Rounds: 2}, nil
	return stats.Table{By: stats.ByTask, Total: sum, Rows: []stats.Row{long, none, no}, Failures: []stats.Failures{{Code: "verify_failed", Tasks: 1}}}
}

// The table fits each width by leaving out the least important columns. In a file nothing is cut.
func TestStatsWidths(t *testing.T) {
	for _, width := range []int{60, 80, 140, 0} {
		var got bytes.Buffer
		if err := terminal.Stats(&got, numbers(), terminal.Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(got.String()) {
			if n := letters.Width(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
				t.Errorf("%d columns at width %d: %q", n, width, line)
			}
		}
		golden(t, fmt.Sprintf("stats_%d.txt", width), got.Bytes())
	}
}
