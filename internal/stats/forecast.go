package stats

import (
	"cmp"
	"slices"

	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// minTasks is the minimum number of tasks for a forecast.
const minTasks = 3

// taskUsage is what a task took from the beginning of its work to its end.
type taskUsage struct {
	size                   trellis.Size
	agent                  string // the first agent that worked on it
	calls, tokens, seconds float64
	cost                   float64
	priced, estimated      bool // cost is complete; cost is partly by list prices
}

// Forecast estimates what a task of a size takes with an agent, from the tasks of that size and agent that were delivered or
// failed; if there are too few, from those of that size, or from all. It returns nil if even those are too few.
func (r *Record) Forecast(size trellis.Size, agent string) *status.Forecast {
	all := r.finishedTasks()
	for _, like := range []taskUsage{{size: size, agent: agent}, {size: size}, {}} {
		alike := slices.DeleteFunc(slices.Clone(all), func(d taskUsage) bool {
			return like.size != "" && d.size != like.size || like.agent != "" && d.agent != like.agent
		})
		if len(alike) >= minTasks {
			return forecast(alike, like)
		}
	}
	return nil
}

// finishedTasks returns what the tasks took that were delivered or failed.
func (r *Record) finishedTasks() (list []taskUsage) {
	at := map[string]int{}
	for _, t := range r.tasks {
		if t.end == delivered || t.end == failed {
			at[t.id] = len(list)
			list = append(list, taskUsage{size: t.size, priced: true})
		}
	}
	for _, c := range r.calls {
		if i, ok := at[c.task]; ok && !trellis.Role(c.Phase).IsPlanning() {
			list[i].add(c)
		}
	}
	return slices.DeleteFunc(list, func(d taskUsage) bool { return d.calls == 0 })
}

func (d *taskUsage) add(c call) {
	d.seconds += c.Usage.Seconds + c.CheckSeconds
	if c.Agent == "" {
		return
	}
	d.agent = cmp.Or(d.agent, c.Agent)
	d.calls++
	d.tokens += float64(c.Usage.Tokens())
	d.priced = d.priced && !c.Usage.Unpriced() && !c.Usage.CostPartial
	if c.Usage.CostUSD == nil {
		return
	}
	d.cost += *c.Usage.CostUSD
	d.estimated = d.estimated || c.Usage.CostEstimated
}

func forecast(list []taskUsage, like taskUsage) *status.Forecast {
	spanOf := func(list []taskUsage, number func(taskUsage) float64) status.Span {
		var all []float64
		for _, d := range list {
			all = append(all, number(d))
		}
		return span(all)
	}
	f := &status.Forecast{Tasks: len(list), Size: like.size, Agent: like.agent,
		Calls:   spanOf(list, func(d taskUsage) float64 { return d.calls }),
		Tokens:  spanOf(list, func(d taskUsage) float64 { return d.tokens }),
		Minutes: spanOf(list, func(d taskUsage) float64 { return d.seconds / 60 })}
	priced := slices.DeleteFunc(slices.Clone(list), func(d taskUsage) bool { return !d.priced })
	if len(priced) >= minTasks {
		cost := spanOf(priced, func(d taskUsage) float64 { return d.cost })
		f.CostUSD, f.Estimated = &cost, slices.ContainsFunc(priced, func(d taskUsage) bool { return d.estimated })
	}
	return f
}

// From minSample numbers on, the range from the smallest to the largest is used. With fewer numbers it is widened by widenFactor.
const (
	minSample   = 15
	widenFactor = 1.5
)

// span returns the range in which the next number lies in seven of eight cases. Whatever the distribution, the number after n
// others lies between the kth smallest and the kth largest in (n+1-2k) of n+1 cases.
func span(all []float64) status.Span {
	slices.Sort(all)
	n := len(all)
	k := max(1, (n+1)/16)
	s := status.Span{Low: all[k-1], Median: (all[(n-1)/2] + all[n/2]) / 2, High: all[n-k]}
	if n < minSample {
		s.Low, s.High = s.Low/widenFactor, s.High*widenFactor
	}
	return s
}
