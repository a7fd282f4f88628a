package plot

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/text"
)

// Figures returns the charts of a record: usage by phase, agent, day and task, and the outcomes of tasks.
func Figures(r *stats.Record) (list []Figure) {
	for _, by := range []stats.Grouping{stats.ByPhase, stats.ByAgent, stats.ByDay, stats.ByTask} {
		for _, c := range charts(r.Table(by)) {
			list = append(list, c.Figure())
		}
	}
	return list
}

func charts(t stats.Table) []Chart {
	shape, share, rows := Bars, Bars, t.Rows
	if t.By == stats.ByDay {
		shape, share, rows = Columns, Lines, lastDays(rows)
	}
	if t.By == stats.ByTask { // those with the most tokens first
		rows = slices.Clone(rows)
		slices.SortStableFunc(rows, func(a, b stats.Row) int { return cmp.Compare(b.Tokens(), a.Tokens()) })
	}
	called := slices.DeleteFunc(slices.Clone(rows), func(r stats.Row) bool { return t.By != stats.ByDay && r.Calls == 0 })
	list := []Chart{
		{ID: "time", Title: "Time", About: "How long agents worked, and the project's own commands ran.", Shape: shape, Format: text.Seconds, Labels: keys(rows), Series: []Series{
			series("agents", rows, func(r stats.Row) float64 { return r.AgentSeconds }), series("checks", rows, func(r stats.Row) float64 { return r.CheckSeconds })}},
		{ID: "tokens", Title: "Tokens", About: "What agents read without the cache, read from the cache, and wrote.", Shape: shape, Format: tokens, Labels: keys(called), Series: []Series{
			series("input", called, func(r stats.Row) float64 { return float64(r.InputTokens) }), series("cached input", called, func(r stats.Row) float64 { return float64(r.CachedTokens) }),
			series("output", called, func(r stats.Row) float64 { return float64(r.OutputTokens) })}},
		{ID: "cost", Title: "Cost", About: "The cost that agents reported. " + missingCostNote(t.Total), Shape: shape, Format: dollars, Labels: keys(called),
			Series: []Series{series("cost", called, func(r stats.Row) float64 { return valueOrNaN(r.CostUSD, r.Calls) })}},
		{ID: "cache", Title: "Cache hits", About: "The share of the input that came from the provider's cache.", Shape: share, Format: percent, Top: 1, Labels: keys(called),
			Series: []Series{series("cache hits", called, func(r stats.Row) float64 { return valueOrNaN(r.CacheHits, 1) })}},
	}
	switch t.By {
	case stats.ByDay:
		list = append(list, outcomeCharts(rows)...)
	case stats.ByTask:
		list = append(list[:3], roundsChart(t.Rows))
	}
	for i := range list {
		list[i].ID += "-" + string(t.By)
		list[i].Title += map[stats.Grouping]string{stats.ByPhase: " by phase", stats.ByAgent: " by agent", stats.ByDay: " by day", stats.ByTask: " by task"}[t.By]
	}
	return list
}

// outcomeCharts returns charts of the outcomes of tasks by day.
func outcomeCharts(rows []stats.Row) []Chart {
	outcomeSeries := func(name string, n func(stats.Ends) int) Series {
		return series(name, rows, func(r stats.Row) float64 { return float64(n(*r.Ends)) })
	}
	return []Chart{
		{ID: "ends", Title: "Tasks", About: "What became of the tasks that came to an end.", Shape: Columns, Labels: keys(rows), Series: []Series{
			outcomeSeries("delivered", func(e stats.Ends) int { return e.Delivered }), outcomeSeries("no change needed", func(e stats.Ends) int { return e.Unneeded }), outcomeSeries("failed", func(e stats.Ends) int { return e.Failed }),
			outcomeSeries("cancelled", func(e stats.Ends) int { return e.Cancelled }), outcomeSeries("rejected", func(e stats.Ends) int { return e.Rejected })}},
		{ID: "first", Title: "First passes", About: "The share of tasks that their first run delivered with nothing to debug, of those delivered or failed.", Shape: Lines, Format: percent, Top: 1,
			Labels: keys(rows), Series: []Series{series("first passes", rows, func(r stats.Row) float64 { return valueOrNaN(r.Ends.FirstPassRate, 1) })}},
	}
}

// roundsChart returns a chart of how many tasks took how many rounds.
func roundsChart(rows []stats.Row) Chart {
	var count []float64 // index 0: one round
	for _, r := range rows {
		n := min(r.Ends.Rounds, maxRounds)
		for n > len(count) {
			count = append(count, 0)
		}
		if n > 0 {
			count[n-1]++
		}
	}
	c := Chart{ID: "rounds", Title: "Rounds", About: "How many tasks took how many rounds of check and debug.", Shape: Columns, Series: []Series{{"tasks", count}}}
	for i := range count {
		c.Labels = append(c.Labels, fmt.Sprint(i+1))
	}
	if len(count) == maxRounds {
		c.Labels[maxRounds-1] += " or more"
	}
	return c
}

// maxRounds is the last column of the rounds chart, which includes tasks with more rounds.
const maxRounds = 12

// maxDays is how many days are drawn, up to the last one.
const maxDays = 31

// lastDays returns the rows of the last days, including days without any work.
func lastDays(rows []stats.Row) (list []stats.Row) {
	if len(rows) == 0 {
		return nil
	}
	byDay := map[string]stats.Row{}
	for _, r := range rows {
		byDay[r.Key] = r
	}
	day, err := time.Parse(time.DateOnly, rows[len(rows)-1].Key)
	for ; err == nil && len(list) < maxDays && day.Format(time.DateOnly) >= rows[0].Key; day = day.AddDate(0, 0, -1) {
		r, ok := byDay[day.Format(time.DateOnly)]
		if !ok {
			r = stats.Row{Key: day.Format(time.DateOnly), Ends: &stats.Ends{}}
		}
		list = append(list, r)
	}
	slices.Reverse(list)
	return list
}

func keys(rows []stats.Row) (list []string) {
	for _, r := range rows {
		list = append(list, r.Key)
	}
	return list
}

func series(name string, rows []stats.Row, of func(stats.Row) float64) Series {
	s := Series{Name: name}
	for _, r := range rows {
		s.Values = append(s.Values, of(r))
	}
	return s
}

// valueOrNaN returns a number that may be unknown (NaN); without any call it is 0.
func valueOrNaN(v *float64, calls int) float64 {
	switch {
	case v != nil:
		return *v
	case calls == 0:
		return 0
	}
	return math.NaN()
}

// missingCostNote says how many calls are missing in a sum of costs.
func missingCostNote(total stats.Row) string {
	if total.CostUnknown == 0 {
		return "All calls reported theirs."
	}
	return fmt.Sprintf("%d of %s did not report theirs, which is not in it.", total.CostUnknown, text.Count(total.Calls, "call"))
}

func tokens(v float64) string  { return text.Tokens(int64(v)) }
func dollars(v float64) string { return fmt.Sprintf("$%.2f", v) }
func percent(v float64) string { return fmt.Sprintf("%.0f%%", v*100) }
