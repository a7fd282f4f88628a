package eval

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/eval"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Document is what eval --json prints.
type Document struct {
	Agents  map[trellis.Role]string `json:"agents"`
	Cases   []eval.Result           `json:"cases"`
	Summary eval.Summary            `json:"summary"`
	Seconds float64                 `json:"seconds"` // from the first case to the last
}

// evalReport prints the progress and the results of cases.
type evalReport struct {
	app            *command.Console
	print          func(text string) // prints a line about a case
	json           bool
	printed, total int
}

// report begins a report. On a terminal that shows the progress too, the lines of cases are printed above it.
func (e *evaluation) report(asJSON bool, cases int) *evalReport {
	r := &evalReport{app: e.app, json: asJSON, total: cases}
	switch {
	case asJSON:
		r.print = func(text string) { e.app.Say("%s", text) }
	case command.IsTerminal(e.app.Stderr) && command.IsTerminal(e.app.Stdout):
		r.print = e.show.Say
	default:
		r.print = func(text string) { fmt.Fprintln(e.app.Stdout, text) }
	}
	return r
}

// printResult prints the result of a case.
func (r *evalReport) printResult(res eval.Result) {
	r.printed++
	line := fmt.Sprintf("%*d/%d  %s: %s; %s", len(fmt.Sprint(r.total)), r.printed, r.total, res.ID, verdict(res), text.Count(res.Calls, "call"))
	if used := text.Usage(res.Usage); used != "" {
		line += ", " + used
	}
	r.print(printable(line))
	if res.Got == eval.Reject && res.Score < 1 {
		r.print(printable("       it said: " + res.Details))
	}
	for _, c := range res.Checks {
		if !c.Held {
			r.print(printable(strings.TrimSuffix("       missing: "+c.What+" ("+c.Detail+")", " ()")))
		}
	}
}

// verdict returns how a case went, with what is wrong in capital letters.
func verdict(res eval.Result) string {
	right := strings.Join(res.Right, " or ")
	switch {
	case res.Got == eval.Failed:
		return "THE PLANNER FAILED: " + res.Failure
	case res.Got == eval.Accept && res.Wanted == eval.Reject:
		return "ACCEPTED, to be rejected as " + right
	case res.Got == eval.Accept:
		return fmt.Sprintf("accepted, %s, %d of %d checks of the plan hold", res.Size, res.Held(), len(res.Checks))
	case res.Wanted == eval.Accept:
		return "REJECTED as " + res.Category + ", to be accepted"
	case slices.Contains(res.Right, res.Category):
		return "rejected as " + res.Category
	}
	return "rejected AS " + strings.ToUpper(res.Category) + ", not " + right
}

// printSummary prints the summary of all cases.
func (r *evalReport) printSummary(d Document) error {
	if r.json {
		return terminal.JSON(r.app.Stdout, d)
	}
	var b bytes.Buffer
	decisions(&b, d.Summary)
	categories(&b, d.Summary)
	kinds(&b, d.Summary)
	totals(&b, d)
	_, err := r.app.Stdout.Write(b.Bytes())
	return err
}

func decisions(w io.Writer, s eval.Summary) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\ndecision\taccepted\trejected\tplanner failed\t\n")
	for _, row := range []struct{ wanted, words string }{{eval.Accept, "to be accepted"}, {eval.Reject, "to be rejected"}} {
		got := s.Decisions[row.wanted]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t\n", row.words, got[eval.Accept], got[eval.Reject], got[eval.Failed])
	}
	_ = t.Flush() // into memory
}

// rejections are the categories of rejections that the evaluate agent may give.
var rejections = []string{"unclear", "incomplete", "out_of_scope", "harmful", "too_large"}

func categories(w io.Writer, s eval.Summary) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\nrejected as\t%s\t\n", strings.Join(rejections, "\t"))
	for _, row := range rejections {
		fmt.Fprintf(t, "%s\t", row)
		for _, column := range rejections {
			fmt.Fprintf(t, "%d\t", s.Categories[row][column])
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // into memory
}

func kinds(w io.Writer, s eval.Summary) {
	var parts []string
	for _, kind := range eval.Kinds {
		if k := s.Kinds[kind]; k.Of > 0 {
			parts = append(parts, fmt.Sprintf("%s %d of %d", kind, k.Right, k.Of))
		}
	}
	fmt.Fprintf(w, "\nright decisions: %s\n", cmp.Or(strings.Join(parts, ", "), "none"))
}

func totals(w io.Writer, d Document) {
	s := d.Summary
	for _, row := range []struct {
		name string
		ids  []string
	}{{"false rejects", s.FalseRejects}, {"false accepts", s.FalseAccepts}, {"planner failures", s.Failures}} {
		fmt.Fprintf(w, "%s: %d\n", strings.TrimSuffix(fmt.Sprintf("%s (%s)", row.name, strings.Join(row.ids, ", ")), " ()"), len(row.ids))
	}
	fmt.Fprintf(w, "categories: %d of %d rejections have a right one\n", s.RightCategories.Right, s.RightCategories.Of)
	fmt.Fprintf(w, "plans: %d of %d checks hold\n", s.Checks.Right, s.Checks.Of)
	fmt.Fprintf(w, "%s, %s tokens, %s, %.0f s of cases in %.0f s\n", text.Count(s.Calls, "call"), text.Tokens(s.Usage.Tokens()), evalCost(s), s.Seconds, d.Seconds)
	if s.Ended < s.Cases {
		fmt.Fprintf(w, "cut off: %d of %d cases ended\n", s.Ended, s.Cases)
	}
	fmt.Fprintf(w, "score: %.1f of 100\n", s.Score)
}

// evalCost returns the cost of the cases, and how many of them have an unknown cost, which is not added.
func evalCost(s eval.Summary) string {
	switch {
	case s.Usage.CostUSD == nil:
		return "cost unknown"
	case s.UnknownCost > 0:
		return fmt.Sprintf("%s or more (the cost of %d cases is unknown)", text.USD(*s.Usage.CostUSD, s.Usage.CostEstimated), s.UnknownCost)
	}
	return text.Cost(s.Usage)
}

// printable returns text on one line, with control characters made visible, as agents may have written it.
func printable(text string) string {
	return strings.ReplaceAll(trellis.Visible(text), "\n", " ")
}
