package stats_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// sized writes a task whose run took a number of rounds, each with work that costs round and a check at half of that; cost is the sum.
func (p project) sized(id string, size trellis.Size, agent string, round float64, rounds int) (cost float64) {
	p.Helper()
	dir := filepath.Join(p.Tasks(), id)
	p.must(os.MkdirAll(dir, 0o755))
	p.must(os.WriteFile(filepath.Join(dir, taskdir.TaskJSON), fmt.Appendf(nil, `{"status": "review", "pipeline": {"size": %q}}`, size), 0o644))
	all := []did{asked(trellis.Evaluate, "planner", 1000, 0, 10, 5)} // planning does not count as work
	for i := range rounds {
		role := trellis.Debug
		if i == 0 {
			role = trellis.Implement
		}
		tokens := int64(round * 100_000)
		all = append(all, asked(role, agent, tokens, 0, tokens/10, round), asked(trellis.Check, agent, tokens/2, 0, tokens/20, round/2), checked(30))
		cost += round * 1.5
	}
	p.run(id, pipeline.Input{}, noon, append(all, delivered(rounds))...)
	return cost
}

func (p project) forecast(size trellis.Size, agent string) *status.Forecast {
	p.Helper()
	r, err := (&stats.Reader{Store: p.Store}).Read(time.Time{})
	p.must(err)
	return r.Forecast(size, agent)
}

// For 50 tasks of several sizes and two agents, whose rounds and costs vary as usual, the cost of at least four fifths is in the
// range that was forecast.
func TestForecastHolds(t *testing.T) {
	p := newProject(t)
	random := rand.New(rand.NewPCG(7, 11))
	base := map[trellis.Size]float64{trellis.Tiny: 0.05, trellis.Small: 0.3, trellis.Medium: 1}
	sizes := []trellis.Size{trellis.Tiny, trellis.Small, trellis.Medium}
	told, held := 0, 0
	var wide []float64
	for i := range 50 {
		size, agent := sizes[random.IntN(len(sizes))], []string{"claude", "codex"}[random.IntN(2)]
		before := p.forecast(size, agent)
		rounds := 1 + min(random.IntN(3)*random.IntN(2), 2)
		cost := p.sized(fmt.Sprintf("02-%02d-task%d", 1+i%28, i), size, agent, base[size]*math.Exp(0.4*random.NormFloat64()), rounds)
		if before == nil || before.CostUSD == nil {
			continue
		}
		told++
		if before.CostUSD.Low <= cost && cost <= before.CostUSD.High {
			held++
		}
		wide = append(wide, before.CostUSD.High/before.CostUSD.Low)
	}
	t.Logf("%d of %d within what was told", held, told)
	if told < 45 || held*5 < told*4 {
		t.Errorf("%d of %d tasks cost what was told before", held, told)
	}
	for _, w := range wide[len(wide)-10:] {
		if w > 40 {
			t.Errorf("a range whose end is %.0f times its beginning says nothing", w)
		}
	}
}

// A forecast uses tasks of the size and agent if there are three, else those of the size, else all; from fewer there is none.
func TestForecast(t *testing.T) {
	p := newProject(t)
	p.sized("02-01-a", trellis.Small, "claude", 0.2, 1)
	p.sized("02-01-b", trellis.Small, "claude", 0.4, 1)
	if f := p.forecast(trellis.Small, "claude"); f != nil {
		t.Errorf("got %+v of two tasks", f)
	}
	p.sized("02-01-c", trellis.Small, "codex", 0.6, 2)
	for _, of := range []struct {
		size      trellis.Size
		agent     string
		bySize    trellis.Size
		byAgent   string
		wantCalls float64
	}{{trellis.Small, "claude", trellis.Small, "", 2}, {trellis.Large, "claude", "", "", 2}} {
		f := p.forecast(of.size, of.agent)
		if f == nil || f.Tasks != 3 || f.Size != of.bySize || f.Agent != of.byAgent || f.Calls.Median != of.wantCalls {
			t.Fatalf("%s by %s: got %+v", of.size, of.agent, f)
		}
		if c := f.CostUSD; c == nil || math.Abs(c.Median-0.6) > 1e-9 || math.Abs(c.Low-0.2) > 1e-9 || math.Abs(c.High-2.7) > 1e-9 {
			t.Errorf("got a cost of %+v", f.CostUSD)
		}
	}
	p.sized("02-01-d", trellis.Small, "claude", 0.4, 1)
	if f := p.forecast(trellis.Small, "claude"); f == nil || f.Tasks != 3 || f.Agent != "claude" || f.Minutes.Median <= 0 || f.Tokens.Median <= 0 {
		t.Errorf("got %+v", f)
	}
	for _, id := range []string{"02-02-a", "02-02-b", "02-02-c"} {
		p.sized(id, trellis.Tiny, "mine", 0, 1) // an agent that reports no cost
	}
	if f := p.forecast(trellis.Tiny, "mine"); f == nil || f.CostUSD != nil {
		t.Errorf("got %+v of tasks whose cost nobody knows", f)
	}
}
