package planner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// limited is a flow whose first two calls hit a rate limit of one second.
type limited struct {
	flow.Flow
	calls int
	slept []time.Duration
}

func (l *limited) Do(_ string, _, out any) error {
	if l.calls++; l.calls < 3 {
		at := time.Now()
		*out.(*agentcall.Reply) = agentcall.Reply{Failure: &flow.Failure{Code: string(trellis.RateLimited), At: at, ResumeAt: at.Add(time.Second)}}
	}
	return nil
}

func (l *limited) Sleep(d time.Duration) error { l.slept = append(l.slept, d); return nil }

// If a limit outlasts the wait that it announced, the next wait is longer, except with older code, whose replay has to match.
func TestWaitsLongerForLimits(t *testing.T) {
	for code, second := range map[int]time.Duration{Code: 10 * time.Second, 5: time.Second} {
		f, p := &limited{}, &planning{in: Input{Code: code}}
		if _, err := p.ask(f, trellis.Research, 0, promptData{}); err != nil || !slices.Equal(f.slept, []time.Duration{time.Second, second}) {
			t.Errorf("code %d: slept %v, %v", code, f.slept, err)
		}
	}
}

// An incomplete cost is marked as partial, except in a planning of older code, whose replay has to match its journal.
func TestTakesPartOfTheCost(t *testing.T) {
	cost := 0.5
	for code, partial := range map[int]bool{Code: true, 4: false} {
		p := &planning{in: Input{Code: code}}
		p.addTally(tally{calls: 1, usage: trellis.Usage{InputTokens: 5, CostUSD: &cost}})
		p.addTally(tally{calls: 1, usage: trellis.Usage{InputTokens: 5}})
		if u := p.rep.Usage; u.CostUSD == nil || *u.CostUSD != cost || u.CostPartial != partial {
			t.Errorf("code %d: got %+v", code, u)
		}
	}
}

// cutList counts the entries that it leaves out, and those it keeps take at most n bytes in a record.
func TestPart(t *testing.T) {
	angles := strings.Repeat("<", 10) // 62 bytes, with quotes
	for _, c := range []struct {
		list []string
		n    int
		kept []string
		left int
	}{
		{nil, 100, nil, 0},
		{[]string{"a", "b"}, 8, []string{"a", "b"}, 0},
		{[]string{"a", "b"}, 7, []string{"a"}, 1},
		{[]string{angles, "a"}, 60, []string{}, 2},
		{[]string{"a", angles, "b"}, 66, []string{"a"}, 2},
		{[]string{"a", angles, "b"}, 67, []string{"a", angles}, 1},
	} {
		if kept, left := cutList(c.list, c.n); !slices.Equal(kept, c.kept) || left != c.left {
			t.Errorf("%q within %d: got %q and %d", c.list, c.n, kept, left)
		}
	}
}
