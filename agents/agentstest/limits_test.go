package agentstest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// window returns the event by which a provider reports one of its rate limit windows.
func window(name, status string, opens time.Time) string {
	return fmt.Sprintf(`{"type":"rate_limit_event","rate_limit_info":{"status":%q,"resetsAt":%d,"rateLimitType":%q,"overageStatus":"rejected"}}`+"\n", status, opens.Unix(), name)
}

// If several windows of a provider are used up, the last of them to open counts, in whatever order they are reported; a
// window that has opened again no longer counts.
func TestSeveralWindows(t *testing.T) {
	soon, late := time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(30*time.Hour).Truncate(time.Second)
	five, week := window("five_hour", "rejected", soon), window("seven_day", "rejected", late)
	for name, c := range map[string]struct {
		said string
		want time.Time
	}{
		"the later one last":  {five + week, late},
		"the later one first": {week + five, late},
		"told again":          {week + five + five, late},
		"opened again":        {week + five + window("seven_day", "allowed", late), soon},
	} {
		stream := recorded(t, agents.Claude, "rate-limited")
		lines := strings.SplitAfter(stream, "\n")
		for i, line := range lines {
			if strings.Contains(line, `"rate_limit_event"`) {
				lines[i] = c.said
			}
		}
		g := try(t, agents.Claude, fake{stream: strings.Join(lines, ""), exit: 1}, nothing)
		var f *flow.Failure
		if !errors.As(g.err, &f) || f.Code != string(trellis.RateLimited) || !f.ResumeAt.Equal(c.want) {
			t.Errorf("%s: got %+v, want %s until %s", name, f, trellis.RateLimited, c.want)
		}
	}
}

// Words about limits are not limits: not in the output of a tool, not in the answer, and not if only the overage of a
// provider is used up.
func TestWordsOfLimits(t *testing.T) {
	const words = "API Error: 429 rate_limit_error, usage limit reached, your limit resets at 5pm"
	for cli, told := range map[string]string{
		agents.Claude: `{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"` + words + `"}]}}` + "\n" +
			window("five_hour", "allowed", time.Now().Add(time.Hour)),
		agents.Codex:    `{"type":"item.completed","item":{"id":"x","type":"command_execution","command":"grep -r limit","aggregated_output":"` + words + `","exit_code":0,"status":"completed"}}` + "\n",
		agents.OpenCode: `{"type":"tool_use","timestamp":1,"sessionID":"s","part":{"type":"tool","tool":"bash","state":{"status":"completed","input":{"command":"grep"},"output":"` + words + `"}}}` + "\n",
	} {
		stream := recorded(t, cli, "answers")
		said := try(t, cli, fake{stream: stream}, nothing)
		if said.err != nil {
			t.Fatalf("%s: %v", cli, said.err)
		}
		stream = strings.ReplaceAll(stream, said.result.Text, words)
		first, rest, _ := strings.Cut(stream, "\n")
		g := try(t, cli, fake{stream: first + "\n" + told + rest}, nothing)
		if g.err != nil || g.result.Text != words {
			t.Errorf("%s: got %+v, %v, want its answer", cli, g.result, g.err)
		}
	}
}
