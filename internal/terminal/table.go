package terminal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Style is what an output can show. The zero value is a file: no colours, no limit to the length of a line.
type Style struct {
	Colour bool
	Width  int // columns; 0 means no limit
	Height int // rows; 0 means no limit
}

// Paint returns s in a colour, given by its terminal code, if colours are shown; "" means no colour.
func Paint(s, colour string, shown bool) string {
	if !shown || colour == "" || s == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// statusColour has the colours of statuses that people should notice.
var statusColour = map[trellis.Status]string{
	trellis.InProgress: "36", trellis.Review: "32", trellis.Completed: "32", trellis.Failed: "31", trellis.Rejected: "31",
	trellis.Waiting: "33", trellis.Paused: "33", "": "31",
}

// Columns of the table of tasks.
const (
	columnTask = iota
	columnStatus
	columnFor
	columnRemark
	columnPriority
	columnTitle
)

// maxID is the length of the longest task name that the planner makes: the date and 30 characters.
const maxID = len("01-02-") + 30

// Table prints one task a line: directory, status, for how long it has had it at now unless that is
// zero, what is special about it, priority, title.
func Table(w io.Writer, tasks []status.Task, style Style, now time.Time) error {
	g := Grid{
		Rows: [][]string{{"TASK", "STATUS", "", "", "", "TITLE"}},
		Squeezes: []Squeeze{{columnTask, maxID}, {columnRemark, 16}, {columnTitle, 24}, {columnPriority, 0}, {columnRemark, 8}, {columnRemark, 0},
			{columnFor, 0}, {columnTitle, 8}, {columnTask, 12}},
		Paint: func(row, column int) string {
			if row == 0 || column != columnStatus {
				return ""
			}
			return statusColour[tasks[row-1].Status]
		},
	}
	if !now.IsZero() {
		g.Rows[0][columnFor] = "FOR"
	}
	for _, of := range tasks {
		t, state, title := task{of}, string(of.Status), of.Title
		state = cmp.Or(state, "broken")
		if of.Status == "" && len(of.Problems) > 0 {
			title = t.readError() // its title can't be read
		}
		g.Rows = append(g.Rows, []string{t.finalName(), state, t.age(now), t.remark(), t.Priority, title})
	}
	return g.Print(w, style)
}

// age returns how long a task has been in its state, in the largest unit that fits; "" if now is zero or that is unknown.
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

// remark returns what people want to know besides the status.
func (t task) remark() string {
	switch {
	case t.WaitingFor == status.ForPerson:
		return "not ready: run `trellis validate TASK`"
	case t.WaitingFor == pulse.Trust:
		return "not trusted: run `trellis trust`"
	case t.WaitingFor != "":
		return cmp.Or(t.NotStartedReason(), t.WaitingFor)
	case t.Status == trellis.Planning && t.HeldBy != nil:
		return "at work"
	case t.Status == trellis.Planning && t.CutOff:
		return "cut off: run `trellis plan --retry TASK`"
	case t.Status == trellis.InProgress && t.Round > 0:
		return fmt.Sprintf("%s, round %d", t.Phase, t.Round)
	case t.Status == trellis.InProgress:
		return t.Phase
	case t.Failure.Code != "" && (t.Status == trellis.Failed || t.Status == trellis.Paused || t.Status == trellis.Planning):
		return string(t.Failure.Code)
	case t.Outcome == trellis.NoChangeNeeded:
		return string(t.Outcome)
	}
	return subtasksDone(t.Subtasks)
}

// JSON prints v as one indented document, without escaping HTML characters.
func JSON(w io.Writer, v any) error { return encode(w, v, "  ") }

// JSONLine prints v on one line, without escaping HTML characters.
func JSONLine(w io.Writer, v any) error { return encode(w, v, "") }

func encode(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}
