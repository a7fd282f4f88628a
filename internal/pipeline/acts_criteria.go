package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// acceptanceHeading is the section of prd.md that criteria stand in.
const acceptanceHeading = "## acceptance criteria"

// box is a checkbox of prd.md. Level: it says itself whether it blocks.
type box struct {
	Criterion
	level bool
}

// criteriaOf are the criteria of a run: the checkboxes of prd.md, in order, numbered by code. An entry of the
// plan with the same text lends a box the command and the level that the box does not name. Entries without a
// box follow, each with a note. None at all: one, that prd.md is met.
func criteriaOf(prd string, p *plan.Plan) (list []Criterion, notes []string) {
	boxes := boxesOf(prd)
	if p != nil {
		boxes, notes = join(boxes, p.Acceptance)
	}
	for i, b := range boxes {
		b.ID = fmt.Sprintf("A%d", i+1)
		list = append(list, b.Criterion)
	}
	if len(list) == 0 {
		list = []Criterion{{ID: "A1", Text: "prd.md is met"}}
	}
	return list, notes
}

func join(boxes []box, acceptance []plan.Criterion) (_ []box, notes []string) {
	for _, c := range acceptance {
		text := oneLine(c.Criterion)
		if i := slices.IndexFunc(boxes, func(b box) bool { return oneLine(b.Text) == text }); i >= 0 {
			boxes[i].borrow(c)
			continue
		}
		boxes = append(boxes, box{Criterion: Criterion{Text: text, Verify: c.Verify, Should: c.Level == "should"}})
		notes = append(notes, fmt.Sprintf("A%d stands in plan.json alone, prd.md has no box for it: %s", len(boxes), short(text)))
	}
	return boxes, notes
}

// borrow takes from an entry of the plan what the box does not say.
func (b *box) borrow(c plan.Criterion) {
	if b.Verify == "" {
		b.Verify = c.Verify
	}
	if !b.level {
		b.Should = c.Level == "should"
	}
}

// boxesOf reads the checkboxes under "## Acceptance Criteria" of prd.md, ticked or not, in order, with the
// command and the level that stand indented below.
func boxesOf(prd string) (list []box) {
	inside, fence := false, ""
	for line := range strings.Lines(prd) {
		line = strings.TrimRight(line, " \t\r\n")
		bare := strings.TrimLeft(line, " \t")
		if mark := fenceOf(bare); mark != "" && (fence == "" || strings.HasPrefix(mark, fence)) {
			if fence == "" {
				fence = mark
			} else {
				fence = ""
			}
			continue
		}
		switch {
		case fence != "":
		case strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "## "):
			inside = strings.EqualFold(strings.TrimSpace(strings.TrimRight(line, "#: ")), acceptanceHeading)
		case !inside:
		case checkbox(bare) != "":
			list = append(list, box{Criterion: Criterion{Text: checkbox(bare)}})
		case len(list) > 0 && bare != line:
			below(&list[len(list)-1], bare)
		}
	}
	return list
}

func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}

// checkbox is the text of a "- [ ] text" line, "" for another.
func checkbox(line string) string {
	for _, bullet := range []string{"- ", "* ", "+ "} {
		rest, ok := strings.CutPrefix(line, bullet)
		if !ok {
			continue
		}
		for _, box := range []string{"[ ]", "[x]", "[X]"} {
			if text, ok := strings.CutPrefix(strings.TrimLeft(rest, " "), box); ok {
				return strings.TrimSpace(text)
			}
		}
	}
	return ""
}

// below takes in an indented line under a checkbox.
func below(c *box, line string) {
	line = strings.TrimPrefix(strings.TrimPrefix(line, "- "), "* ")
	key, value, ok := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch strings.ToLower(strings.Trim(key, "*_ ")) {
	case "verify":
		if ok {
			c.Verify = unquote(value)
			return
		}
	case "level":
		if ok {
			c.Should, c.level = strings.EqualFold(value, "should"), value != ""
			return
		}
	}
	c.Text += " " + line
}

// unquote takes a code span's backticks off.
func unquote(s string) string {
	n := len(s) - len(strings.TrimLeft(s, "`"))
	ticks := s[:n]
	if n == 0 || len(s) < 2*n || !strings.HasSuffix(s, ticks) {
		return s
	}
	inner := s[n : len(s)-n]
	if strings.HasPrefix(inner, " `") || strings.HasSuffix(inner, "` ") {
		return strings.TrimSuffix(strings.TrimPrefix(inner, " "), " ")
	}
	return strings.TrimSpace(inner)
}
