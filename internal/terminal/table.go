package terminal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/text"
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

// Table prints tasks one a line: directory, status, for how long at now unless that is zero, what is special about it,
// priority, title.
func Table(w io.Writer, tasks []status.Task, style Style, now time.Time) error {
	rows := [][]string{{"TASK", "STATUS", "", "", "", "TITLE"}}
	if !now.IsZero() {
		rows[0][2] = "FOR"
	}
	for _, of := range tasks {
		t, state := task{of}, string(of.Status)
		if state == "" {
			state = "broken"
		}
		rows = append(rows, []string{t.ID, state, t.age(now), t.remark(), t.Priority, t.Title})
	}
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	width[3] = min(width[3], 48)
	var b strings.Builder
	for n, row := range rows {
		paint := ""
		if n > 0 && style.Colour {
			paint = statusColour[tasks[n-1].Status]
		}
		b.WriteString(tableLine(row, width, style.Width, paint) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Columns prints rows with their cells below each other's.
func Columns(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// tableLine is the cells of a row below each other's, no longer than limit; the second one in a colour.
func tableLine(row []string, width []int, limit int, paint string) string {
	var b strings.Builder
	for i, cell := range row {
		if width[i] > 0 {
			fmt.Fprintf(&b, "%s%s  ", text.Clip(cell, width[i]), strings.Repeat(" ", width[i]-min(width[i], utf8.RuneCountInString(cell))))
		}
	}
	shown := strings.TrimRight(b.String(), " ")
	if limit > 0 {
		shown = text.Clip(shown, limit)
	}
	if from := width[0] + 2; paint != "" && utf8.RuneCountInString(shown) >= from+len(row[1]) {
		r := []rune(shown)
		return string(r[:from]) + "\x1b[" + paint + "m" + row[1] + "\x1b[0m" + string(r[from+len(row[1]):])
	}
	return shown
}

// age is how long a task has stood as it does, in the largest unit that fits; "" when nobody asks or knows.
func (t task) age(now time.Time) string {
	since, err := time.Parse(time.RFC3339, t.Since)
	if err != nil || now.IsZero() {
		return ""
	}
	switch d := max(now.Sub(since), 0); { // the clock may have been set back
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

// remark is what one wants to know beside the status.
func (t task) remark() string {
	switch {
	case t.Status == "" && len(t.Problems) > 0:
		return t.Problems[0].Error()
	case t.WaitingFor != "":
		return cmp.Or(t.unstarted(), t.WaitingFor)
	case t.Status == trellis.InProgress && t.Round > 0:
		return fmt.Sprintf("%s, round %d", t.Phase, t.Round)
	case t.Status == trellis.InProgress:
		return t.Phase
	case t.Failure.Code != "" && (t.Status == trellis.Failed || t.Status == trellis.Paused):
		return string(t.Failure.Code)
	case t.Outcome == trellis.NoChangeNeeded:
		return string(t.Outcome)
	}
	return subtasksDone(t.Subtasks)
}

// JSON prints v as one indented document, with its letters as they are.
func JSON(w io.Writer, v any) error { return encode(w, v, "  ") }

// JSONLine prints v on one line, with its letters as they are.
func JSONLine(w io.Writer, v any) error { return encode(w, v, "") }

func encode(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}
