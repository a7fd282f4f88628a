package view

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Style is what a terminal can do. The zero value is a file: no colours, no end of a line.
type Style struct {
	Colour bool
	Width  int // columns; 0 is no limit
	Height int // rows; 0 is no limit
}

// colours of the statuses that ask for a look.
var statusColour = map[trellis.Status]string{
	trellis.InProgress: "36", trellis.Review: "32", trellis.Completed: "32", trellis.Failed: "31", trellis.Rejected: "31",
	trellis.Waiting: "33", trellis.Paused: "33",
}

// Table prints tasks one a line: directory, status, what is special about it, priority, title.
func Table(w io.Writer, tasks []Task, style Style) error {
	rows := [][]string{{"TASK", "STATUS", "", "", "TITLE"}}
	for _, t := range tasks {
		status := string(t.Status)
		if status == "" {
			status = "broken"
		}
		rows = append(rows, []string{t.ID, status, t.remark(), t.Priority, t.Title})
	}
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	width[2] = min(width[2], 48)
	var b strings.Builder
	for n, row := range rows {
		paint := ""
		if n > 0 && style.Colour {
			paint = statusColour[tasks[n-1].Status]
		}
		b.WriteString(line(row, width, style.Width, paint) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// line is the cells of a row below each other's, no longer than limit; the second one in a colour.
func line(row []string, width []int, limit int, paint string) string {
	var b strings.Builder
	for i, cell := range row {
		if width[i] > 0 {
			fmt.Fprintf(&b, "%s%s  ", clip(cell, width[i]), strings.Repeat(" ", width[i]-min(width[i], utf8.RuneCountInString(cell))))
		}
	}
	text := strings.TrimRight(b.String(), " ")
	if limit > 0 {
		text = clip(text, limit)
	}
	if from := width[0] + 2; paint != "" && utf8.RuneCountInString(text) >= from+len(row[1]) {
		r := []rune(text)
		return string(r[:from]) + "\x1b[" + paint + "m" + row[1] + "\x1b[0m" + string(r[from+len(row[1]):])
	}
	return text
}

// remark is what one wants to know beside the status.
func (t Task) remark() string {
	switch {
	case t.Status == "" && len(t.Problems) > 0:
		return t.Problems[0].Error()
	case t.WaitingFor != "":
		return t.WaitingFor
	case t.Status == trellis.InProgress && t.Round > 0:
		return fmt.Sprintf("%s, round %d", t.Phase, t.Round)
	case t.Status == trellis.InProgress:
		return t.Phase
	case t.Failure.Code != "" && (t.Status == trellis.Failed || t.Status == trellis.Paused):
		return string(t.Failure.Code)
	case t.Outcome == trellis.NoChangeNeeded:
		return string(t.Outcome)
	}
	return t.Subtasks.words()
}

// clip is s in one line of at most n letters, without anything that a terminal would obey.
func clip(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	return string([]rune(s)[:n-1]) + "…"
}

// JSON prints v as one indented document, with its letters as they are.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
