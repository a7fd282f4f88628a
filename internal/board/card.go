package board

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// card is a task as a column shows it.
type card struct {
	ID, Title string
	Status    trellis.Status
	Column    string
	Priority  string
	Who       string
	Phase     string
	Round     int
	Bar       []segment
	Waits     string // what it waits for, or what is wrong with it
	Doing     string // what its agent said or did last
	Took      string // agents' time, shown while no process works on it
	Since     string // when the task came into this state
	Runs      bool   // a process works on it, so its time is counted on
	Tokens    int64
	Cost      string

	dependsOn []string
	order     string
	html      func() (string, error) // set by withHTML
}

// segment is a phase in the bar of a card.
type segment struct {
	Name  string
	State string // done, now, todo, bad
	At    int    // x position in the bar
}

func newCard(t *status.Task) card {
	c := card{ID: strings.TrimPrefix(t.ID, taskdir.DraftPrefix), Title: clip(t.Title, 160), Status: t.Status, Priority: clip(t.Priority, 4), Who: clip(t.Assignee, 40), Phase: clip(t.Phase, 40), Round: t.Round,
		Runs: t.HeldBy != nil, Since: t.Since, Tokens: t.Usage.Tokens(), dependsOn: slices.Clone(t.DependsOn)}
	c.Title = cmp.Or(c.Title, c.ID)
	if t.Usage.CostUSD != nil {
		c.Cost = text.Cost(t.Usage)
	}
	if t.Usage.Seconds > 0 {
		c.Took = text.Seconds(t.Usage.Seconds)
	}
	c.Column, c.Waits = columnOf(t), clip(waitWords(t), 240)
	c.Bar = barOf(t)
	c.order = fmt.Sprintf("%2s%s", cmp.Or(t.Priority, "P9"), c.ID)
	if c.Column == "done" {
		c.order = c.Since + c.ID
	}
	return c
}

// withHTML returns the card in the form in which it is stored: its HTML is rendered once, when the card is first shown.
func (c card) withHTML() *card {
	c.html = sync.OnceValues(func() (string, error) { return render("card", &c) })
	return &c
}

// compareCards puts the most urgent cards first, and of those that are done the ones that ended last.
func compareCards(a, b *card) int {
	if a.Column == "done" && b.Column == "done" {
		a, b = b, a
	}
	return cmp.Or(strings.Compare(a.Column, b.Column), strings.Compare(a.order, b.order))
}

// withEvent returns the card after its agent said or did something.
func (c card) withEvent(e events.Event) card {
	switch e.Kind {
	case events.Tool:
		c.Doing = clip(strings.TrimSpace(e.Tool+" "+e.Text), 160)
	case events.Text:
		c.Doing = clip(e.Text, 160)
	case events.Usage:
		if e.Usage != nil {
			c.Tokens = max(c.Tokens, e.Usage.Tokens())
		}
	}
	return c
}

// clip returns a text on one line, clipped to n columns, with what can't be seen made visible.
func clip(s string, n int) string { return text.Clip(trellis.Visible(text.OneLine(s)), n) }

// columnOf returns the column of a task, by what a person has to do.
func columnOf(t *status.Task) string {
	switch {
	case t.NeedsPerson():
		return "needs"
	case t.Status == trellis.Planning, t.Status == trellis.InProgress && t.HeldBy != nil:
		return "working"
	case t.Status.Ended():
		return "done"
	}
	return "queued"
}

// waitWords returns what a task waits for, or what is wrong with it.
func waitWords(t *status.Task) string {
	switch {
	case len(t.Problems) > 0 && t.Status == "":
		return t.Problems[0].Error()
	case t.Status == trellis.Failed:
		return strings.TrimSuffix(string(t.Failure.Code)+": "+t.Failure.Detail, ": ")
	case t.Status == trellis.Review && t.Failure.Code != "":
		return "in review: " + string(t.Failure.Code)
	case t.Status == trellis.Review:
		return "its work waits for your review"
	case t.NotStartedReason() != "":
		return t.NotStartedReason()
	case t.WaitingFor == "approval":
		return "waits for approval of its plan"
	case t.WaitingFor != "":
		return "waits for " + t.WaitingFor
	case t.Status == trellis.Planning && t.HeldBy == nil && t.CutOff:
		return "its planning was cut off"
	case t.Status == trellis.Planning && t.HeldBy == nil && t.Failure.Code != "":
		return strings.TrimSuffix("its planning failed: "+string(t.Failure.Code)+": "+t.Failure.Detail, ": ")
	case t.Status == trellis.Rejected && t.Source != nil:
		no := t.Source.Pipeline.Rejection
		return strings.TrimPrefix(no.Category+": "+no.Details, ": ")
	case t.Retry != "":
		return t.Retry
	}
	return ""
}

// barOf returns the phases of a task that has begun, and how far it is.
func barOf(t *status.Task) (bar []segment) {
	at := slices.Index(status.PhaseOrder, t.Phase)
	switch {
	case t.Phase == "debug":
		at = slices.Index(status.PhaseOrder, "implement")
	case t.Status == trellis.Completed || t.Status == trellis.Review && t.Failure.Code == "":
		at = len(status.PhaseOrder)
	case at < 0:
		return nil
	}
	for i, name := range status.PhaseOrder {
		state := "todo"
		switch {
		case i < at:
			state = "done"
		case i == at && t.Status == trellis.Failed:
			state = "bad"
		case i == at:
			state = "now"
		}
		bar = append(bar, segment{name, state, i * 12})
	}
	return bar
}

// statusWord returns a status as people read it.
func statusWord(s trellis.Status) string {
	if s == "" {
		return "can't be read"
	}
	return strings.ReplaceAll(string(s), "_", " ")
}

// statusIcon returns the symbol beside the colour of a status.
func statusIcon(s trellis.Status) string {
	return map[trellis.Status]string{"": "⚠", trellis.Planning: "✎", trellis.Ready: "○", trellis.Waiting: "◔", trellis.InProgress: "▶", trellis.Paused: "Ⅱ", trellis.Review: "◉",
		trellis.Completed: "✓", trellis.Failed: "✗", trellis.Cancelled: "⊘", trellis.Rejected: "⊘"}[s]
}
