package view

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/trellis-tasks/trellis/agents"
)

// quiet are activities that only keep the books.
var quiet = map[string]bool{"status": true, "observe": true, "finish": true}

// Print writes a line of a log for people; what says nothing to them is passed over.
func (l Line) Print(w io.Writer, style Style) error {
	text := l.text()
	if text == "" {
		return nil
	}
	at := strings.Repeat(" ", len("15:04:05"))
	if !l.At.IsZero() {
		at = l.At.Local().Format("15:04:05")
	}
	var b strings.Builder
	for i, part := range strings.Split(Safe(text), "\n") {
		if i > 0 {
			at = strings.Repeat(" ", len("15:04:05"))
		}
		if style.Width > 20 && l.Kind == KindAgent {
			part = clip(part, style.Width-10)
		}
		b.WriteString(strings.TrimRight(at+"  "+part, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (l Line) text() string {
	if l.Step != "" {
		return l.stepText()
	}
	return l.plainText()
}

func (l Line) plainText() string {
	if quiet[l.Activity] && l.Failure == nil {
		return ""
	}
	switch l.Kind {
	case KindRun:
		return fmt.Sprintf("run %s (%s) of %s", l.Run, l.Text, l.At.Local().Format("2006-01-02"))
	case KindStart:
		if l.Agent == "" {
			return ""
		}
		return strings.TrimSuffix(fmt.Sprintf("%s: %s works: %s", l.label(), l.Agent, l.Text), ": ")
	case KindAgent:
		return eventText(*l.Event)
	case KindDone:
		return l.done()
	case KindSignal:
		return "signal: " + l.Text
	case KindCancel:
		return "cancelled by a person"
	}
	return l.ended()
}

func (l Line) done() string {
	head := fmt.Sprintf("%s: done in %s", l.label(), seconds(l.Seconds))
	switch {
	case l.Failure != nil:
		head = fmt.Sprintf("%s: %s", l.label(), l.Failure)
	case strings.HasPrefix(l.Activity, "await:") || l.Activity == "sleep":
		head = fmt.Sprintf("waited %s", seconds(l.Seconds))
	}
	if l.Text == "" {
		return head
	}
	return head + "\n" + indent(l.Text)
}

func (l Line) ended() string {
	head := "ended after " + seconds(l.Seconds)
	if l.Text != "" {
		head += ": " + l.Text
	}
	if l.Failure != nil {
		head += ": " + l.Failure.Error()
	}
	return head
}

// label is an activity's id without the number of a first call: round-2/check#1 is round-2/check, and what belongs to a
// step is led by its path.
func (l Line) label() string {
	id := l.ID
	if path, rest := stepOf(id); path != "" {
		id = path + "/" + rest
	}
	return strings.TrimSuffix(id, "#1")
}

// eventText is what an agent did, "" for what people need not see.
func eventText(e agents.Event) string {
	switch e.Kind {
	case agents.EventText:
		return "  │ " + strings.ReplaceAll(strings.TrimSpace(e.Text), "\n", "\n  │ ")
	case agents.EventTool:
		return strings.TrimRight("  → "+e.Tool+" "+e.Input, " ")
	case agents.EventNotice:
		return "  ! " + e.Text
	}
	return ""
}

// Safe is s without anything that a terminal would obey, line ends excepted.
func Safe(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
