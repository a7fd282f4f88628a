package terminal

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Review prints all that a person agrees to: nothing of it is cut, and long lines are wrapped.
func Review(w io.Writer, r status.Review, style Style) error {
	p := reviewPage{Style: style}
	p.title(r.Task + "  " + r.Title)
	p.facts(r)
	p.section("Rejected", []string{r.Rejected}, "")
	p.section("The planning failed", []string{r.Failed}, "")
	if r.Rejected+r.Failed != "" && r.Document == "" { // nothing was planned
		_, err := io.WriteString(w, p.String())
		return err
	}
	p.paragraph(r.Summary)
	if len(r.Steps) == 0 {
		p.section("prd.md", strings.Split(strings.TrimSpace(r.Document), "\n"), "")
	}
	p.section("Requirements", r.Requirements, "- ")
	p.section("Design decisions", r.Decisions, "- ")
	p.section("Done when", criteriaLines(r), "- ")
	p.section("Decided by", commands(r.Verify), "$ ")
	p.section("Before the work", r.Before, "- ")
	if err := p.steps(r); err != nil {
		return err
	}
	p.section("Files", fileLines(r), "- ")
	p.section("It may touch", r.Touches, "- ")
	p.section("Assumptions", r.Assumptions, "- ")
	p.section("Open questions", r.Questions, "? ")
	p.section("Left out on purpose", r.Left, "- ")
	p.section("Out of scope", r.OutOfScope, "- ")
	p.section("To undo it", r.Undo, "- ")
	p.section("Estimate", estimate(r.Estimate), "- ")
	p.section("Problems", problemLines(r.Problems), "! ")
	why := r.Why
	if r.Asked && len(r.Agreed) > 0 {
		why = append(slices.Clone(why), "approved so far: "+strings.Join(r.Agreed, ", "))
	}
	p.section("Waits for approval", why, "- ")
	_, err := io.WriteString(w, p.String())
	return err
}

// reviewPage builds the text of a review.
type reviewPage struct {
	Style
	strings.Builder
}

func (p *reviewPage) title(s string) {
	p.WriteString(Paint(trellis.Visible(text.OneLine(s)), "1", p.Colour) + "\n")
}

func (p *reviewPage) facts(r status.Review) {
	var list []string
	for _, fact := range []struct{ name, value string }{{"type", r.Type}, {"package", r.Package}, {"priority", r.Priority}, {"branch", r.Branch}, {"base", r.Base}} {
		if fact.value != "" {
			list = append(list, fact.name+" "+fact.value)
		}
	}
	p.lines(strings.Join(list, " · "), "", "")
}

func (p *reviewPage) paragraph(s string) {
	if s = strings.TrimSpace(s); s == "" {
		return
	}
	p.WriteByte('\n')
	for line := range strings.SplitSeq(s, "\n") {
		p.lines(line, "", "")
	}
}

// section prints items below a heading, or nothing if there are none.
func (p *reviewPage) section(heading string, items []string, mark string) {
	if len(items) == 0 || len(items) == 1 && items[0] == "" {
		return
	}
	p.WriteByte('\n')
	p.title(heading)
	for _, item := range items {
		first := "  " + mark
		for line := range strings.SplitSeq(strings.TrimRight(item, "\n"), "\n") {
			p.lines(line, first, strings.Repeat(" ", len(first)))
			first = strings.Repeat(" ", 2+len(mark))
		}
	}
}

// lines prints a line wrapped to the terminal. first and next are what its first and its further lines begin with.
func (p *reviewPage) lines(line, first, next string) {
	list := []string{trellis.Visible(line)}
	if p.Width > 2*len(first) {
		list = text.Wrap(list[0], p.Width-len(first))
	}
	for i, part := range list {
		if i > 0 {
			first = next
		}
		p.WriteString(strings.TrimRight(first+part, " ") + "\n")
	}
}

func (p *reviewPage) steps(r status.Review) error {
	if len(r.Steps) == 0 {
		return nil
	}
	var b bytes.Buffer
	if err := Steps(&b, r.Steps); err != nil {
		return err
	}
	p.WriteByte('\n')
	p.title("Steps")
	for line := range strings.SplitSeq(strings.TrimRight(b.String(), "\n"), "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		p.lines(strings.TrimLeft(line, " "), "  "+indent, "  "+indent+"  ")
	}
	return nil
}

func criteriaLines(r status.Review) (list []string) {
	for _, c := range r.Criteria {
		line := c.ID + " " + c.Text
		if c.Level == "should" {
			line += " (should)"
		}
		if c.Verify != "" {
			line += "\n$ " + c.Verify
		} else {
			line += "\njudged by an agent: no command proves it"
		}
		list = append(list, line)
	}
	return list
}

func fileLines(r status.Review) (list []string) {
	for _, f := range r.Files {
		list = append(list, f.Change+" "+f.Path)
	}
	return list
}

func commands(list []string) []string {
	if len(list) == 0 {
		return []string{"(no command: set verify in .trellis/config.yaml)"}
	}
	return list
}

func problemLines(problems []trellis.Problem) (list []string) {
	for i := range problems {
		kind := "error: "
		if problems[i].Warning {
			kind = "warning: "
		}
		list = append(list, kind+problems[i].Error())
	}
	return list
}

// estimate returns what is known of how much work it is.
func estimate(e status.Estimate) (list []string) {
	if e.Size != "" {
		list = append(list, "size "+string(e.Size))
	}
	if e.Steps > 0 {
		list = append(list, text.Count(e.Steps, "step"))
	}
	list = append(list, "at most "+text.Count(e.Rounds, "round")+" of check and debug")
	for _, l := range []struct {
		set   bool
		words string
	}{{e.Tokens > 0, text.Tokens(e.Tokens) + " tokens"}, {e.CostUSD > 0, "$" + strconv.FormatFloat(e.CostUSD, 'f', 2, 64)}, {e.Seconds > 0, text.Seconds(float64(e.Seconds)) + " of agents' time"}} {
		if l.set {
			list = append(list, "at most "+l.words)
		}
	}
	if e.Likely != nil {
		list = append(list, "likely "+Forecast(*e.Likely))
	}
	if e.Used.Tokens() > 0 {
		list = append(list, fmt.Sprintf("used so far: %s", text.Usage(e.Used)))
	}
	return list
}
