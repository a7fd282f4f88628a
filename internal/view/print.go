package view

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/trellis"
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

// Safe is s as a terminal can show it.
func Safe(s string) string { return trellis.Visible(s) }

// SafeWriter shows what is written to it as a terminal can, line by line. Close writes a last line without an end.
type SafeWriter struct {
	W    io.Writer
	held []byte // a line that is not at its end
}

func (s *SafeWriter) Write(p []byte) (int, error) {
	s.held = append(s.held, p...)
	end := bytes.LastIndexByte(s.held, '\n') + 1
	if _, err := io.WriteString(s.W, trellis.Visible(string(s.held[:end]))); err != nil {
		return 0, err
	}
	s.held = append(s.held[:0], s.held[end:]...)
	return len(p), nil
}

// Close writes what is held.
func (s *SafeWriter) Close() error {
	_, err := io.WriteString(s.W, trellis.Visible(string(s.held)))
	return err
}
