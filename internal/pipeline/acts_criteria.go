package pipeline

import (
	"fmt"
	"strings"
)

// acceptanceHeading is the section of prd.md that criteria stand in.
const acceptanceHeading = "## acceptance criteria"

// parseCriteria reads the checkboxes under "## Acceptance Criteria" of prd.md, ticked or not, in order,
// with the command and the level that stand indented below. None at all: one, that prd.md is met.
func parseCriteria(prd string) (list []Criterion) {
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
			list = append(list, Criterion{ID: fmt.Sprintf("A%d", len(list)+1), Text: checkbox(bare)})
		case len(list) > 0 && bare != line:
			below(&list[len(list)-1], bare)
		}
	}
	if len(list) == 0 {
		return []Criterion{{ID: "A1", Text: "prd.md is met"}}
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
func below(c *Criterion, line string) {
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
			c.Should = strings.EqualFold(value, "should")
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
