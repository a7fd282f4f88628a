package terminal

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/trellis-tasks/trellis/internal/prices"
	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/text"
)

// Columns of the table of numbers.
const (
	columnKey = iota
	columnTasks
	columnCalls
	columnAgents
	columnChecks
	columnTokens
	columnHits
	columnCost
	columnRefused
	columnRounds
	columnEnds
)

// Stats prints numbers, one row for each phase, agent, model, day or task, and their totals.
func Stats(w io.Writer, t stats.Table, style Style) error {
	ends := t.By == stats.ByDay || t.By == stats.ByTask
	g := Grid{
		Rows: [][]string{{strings.ToUpper(string(t.By)), "TASKS", "CALLS", "AGENTS", "CHECKS", "TOKENS", "CACHED", "COST", "NO", "", ""}},
		Squeezes: []Squeeze{{columnKey, maxID}, {columnRefused, 0}, {columnTasks, 0}, {columnCalls, 0}, {columnKey, 24}, {columnChecks, 0}, {columnHits, 0},
			{columnRounds, 0}, {columnEnds, 9}, {columnKey, 12}},
		Paint: func(row, _ int) string {
			if row == len(t.Rows)+1 {
				return "1"
			}
			return ""
		},
	}
	if ends {
		g.Rows[0][columnRounds], g.Rows[0][columnEnds] = "ROUNDS", "ENDED"
	}
	for _, r := range t.Rows {
		g.Rows = append(g.Rows, statsRow(r))
	}
	g.Rows = append(g.Rows, statsRow(t.Total))
	last := g.Rows[len(g.Rows)-1]
	last[columnKey], last[columnEnds] = "in all", "" // which are printed below
	if !ends {
		last[columnRounds] = ""
	}
	if t.By == stats.ByTask {
		for _, row := range g.Rows {
			row[columnTasks] = ""
		}
	}
	if err := g.Print(w, style); err != nil {
		return err
	}
	return printWrapped(w, style, statsWords(t))
}

// printWrapped prints lines below a table, wrapped to the terminal.
func printWrapped(w io.Writer, style Style, list []string) error {
	width := cmp.Or(style.Width, math.MaxInt)
	var b strings.Builder
	for _, l := range list {
		b.WriteString("\n" + strings.Join(text.Wrap(text.Clip(l, math.MaxInt), width), "\n"))
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

func statsRow(r stats.Row) []string {
	cells := []string{r.Key, fmt.Sprint(r.Tasks), count(r.Calls), seconds(r.AgentSeconds), seconds(r.CheckSeconds), "", percent(r.CacheHits), statsCost(r), count(r.Refused), "", ""}
	if r.Calls > 0 {
		cells[columnTokens] = text.Tokens(r.Tokens())
	}
	if r.Ends != nil {
		cells[columnRounds], cells[columnEnds] = count(r.Ends.Rounds), endWords(*r.Ends)
	}
	return cells
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func seconds(s float64) string {
	if s == 0 {
		return ""
	}
	return text.Seconds(s)
}

// percent returns a share, "" if it is not known.
func percent(share *float64) string {
	if share == nil {
		return ""
	}
	return fmt.Sprintf("%.0f%%", *share*100)
}

// statsCost returns what calls cost, marked as a minimum if the cost of some is unknown.
func statsCost(r stats.Row) string {
	switch {
	case r.Calls == 0:
		return ""
	case r.CostUSD == nil:
		return "unknown"
	}
	return text.AtLeast(r.CostUnknown > 0) + text.USD(*r.CostUSD, r.Estimated)
}

// endWords returns how many tasks ended in which way, without those of which there are none.
func endWords(e stats.Ends) string {
	var list []string
	for _, of := range []struct {
		n    int
		what string
	}{{e.Delivered, "delivered"}, {e.Unneeded, "without need"}, {e.Failed, "failed"}, {e.Cancelled, "cancelled"}, {e.Rejected, "rejected"}} {
		switch {
		case of.n == 1 && e.Delivered+e.Unneeded+e.Failed+e.Cancelled+e.Rejected == 1:
			return of.what
		case of.n > 0:
			list = append(list, fmt.Sprintf("%d %s", of.n, of.what))
		}
	}
	return strings.Join(list, ", ")
}

// statsWords returns the numbers of all tasks in words.
func statsWords(t stats.Table) (list []string) {
	r, e := t.Total, t.Total.Ends
	if words := endWords(*e); words != "" {
		list = append(list, "tasks: "+words)
	}
	if e.FirstPassRate != nil {
		list = append(list, fmt.Sprintf("first pass: %d of %d delivered at once, with nothing to debug (%s)", e.FirstPass, e.Delivered+e.Failed, percent(e.FirstPassRate)))
	}
	if e.Worked > 0 {
		list = append(list, fmt.Sprintf("rounds: %d, %.1f a task", e.Rounds, float64(e.Rounds)/float64(e.Worked)))
	}
	if r.CheckRuns != nil {
		list = append(list, fmt.Sprintf("checks: a task took %.1f times one run of all of them", *r.CheckRuns))
	}
	if r.Refused > 0 {
		list = append(list, fmt.Sprintf("refused: %s said no", text.Count(r.Refused, "answer")))
	}
	if r.FailedCalls > 0 {
		list = append(list, fmt.Sprintf("failed calls: %d of %d", r.FailedCalls, r.Calls))
	}
	if r.CostUnknown > 0 {
		list = append(list, fmt.Sprintf("cost: %d of %s did not report theirs, which is not in the sums", r.CostUnknown, text.Count(r.Calls, "call")))
	}
	if r.Estimated {
		list = append(list, "cost: ~ is by list prices of "+prices.Date()+", or those of agents.prices")
	}
	if r.CacheMissed > 0 {
		list = append(list, fmt.Sprintf("cache: none of the input came from it in %s that could have hit it", text.Count(r.CacheMissed, "call")))
	}
	for i, f := range t.Failures {
		if i == 0 {
			list = append(list, "failed with:")
		}
		list[len(list)-1] += fmt.Sprintf(" %s (%d)", f.Code, f.Tasks)
	}
	for _, c := range t.Broken[:min(len(t.Broken), 3)] {
		list = append(list, fmt.Sprintf("failed most: %s (%d)", text.OneLine(c.Command), c.Times))
	}
	return list
}
