package terminal

import (
	"fmt"
	"io"
	"strings"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// quiet are activities that only do bookkeeping.
var quiet = map[string]bool{"status": true, "observe": true, "finish": true}

// line is a line of a log in the form that people are shown.
type line struct{ status.Line }

// How much of a long text a log shows: of a text with more than longText lines, the first shortText.
const (
	longText  = 30
	shortText = 20
)

// LogPrinter prints a log for people.
type LogPrinter struct {
	W     io.Writer
	Style Style
	Full  bool   // long texts are not cut
	Whole string // the command that prints them whole

	lastTexts map[string]string // the last text of an agent, by run and activity
}

// Print writes a line of a log. It skips lines that mean nothing to people, or that repeat the one before.
func (p *LogPrinter) Print(of status.Line) error {
	l := line{of}
	shown := l.text()
	if shown == "" || p.isRepeated(of) {
		return nil
	}
	at := strings.Repeat(" ", len("15:04:05"))
	if !l.At.IsZero() {
		at = l.At.Local().Format("15:04:05")
	}
	var b strings.Builder
	for i, part := range p.lines(l, trellis.Visible(shown)) {
		if i > 0 {
			at = strings.Repeat(" ", len("15:04:05"))
		}
		b.WriteString(strings.TrimRight(at+"  "+part, " ") + "\n")
	}
	_, err := io.WriteString(p.W, b.String())
	return err
}

// isRepeated reports whether an agent repeats its last text: some give their last words as an answer too.
func (p *LogPrinter) isRepeated(l status.Line) bool {
	if l.Kind != status.KindAgent || l.Event.Kind != agents.EventText {
		return false
	}
	if p.lastTexts == nil {
		p.lastTexts = map[string]string{}
	}
	call, text := l.Run+" "+l.ID, strings.TrimSpace(l.Event.Text)
	before := p.lastTexts[call]
	p.lastTexts[call] = text
	return text != "" && text == before
}

// lines splits a text into lines, wrapped to the terminal if an agent speaks, and cut off if there are too many.
func (p *LogPrinter) lines(l line, shown string) (list []string) {
	room := p.Style.Width - len("15:04:05  ")
	for part := range strings.SplitSeq(shown, "\n") {
		switch {
		case l.Kind != status.KindAgent || room < 12 || p.Full && l.Event.Kind != agents.EventText:
			list = append(list, part)
		case l.Event.Kind != agents.EventText:
			list = append(list, text.Clip(part, room))
		default:
			lead := part[:strings.Index(part, bar)+len(bar)]
			for _, piece := range text.Wrap(part[len(lead):], room-text.Width(lead)) {
				list = append(list, lead+piece)
			}
		}
	}
	if p.Full || len(list) <= longText {
		return list
	}
	last := list[shortText-1]
	lead := last[:len(last)-len(strings.TrimLeft(last, " "))]
	if at := strings.Index(last, bar); at == len(lead) {
		lead += bar
	}
	return append(list[:shortText], fmt.Sprintf("%s… %s; next: %s", lead, text.Count(len(list)-shortText, "more line"), p.Whole))
}

// bar precedes what an agent says.
const bar = "│ "

func (l line) text() string {
	if l.Step != "" {
		return l.stepText()
	}
	return l.plainText()
}

func (l line) plainText() string {
	if quiet[l.Activity] && l.Failure == nil {
		return ""
	}
	switch l.Kind {
	case status.KindRun:
		return fmt.Sprintf("run %s (%s) of %s", l.Run, l.Text, l.At.Local().Format("2006-01-02"))
	case status.KindStart:
		if l.Agent == "" {
			return ""
		}
		return strings.TrimSuffix(fmt.Sprintf("%s: %s works: %s", l.label(), l.Agent, l.Text), ": ")
	case status.KindAgent:
		return eventText(*l.Event)
	case status.KindDone:
		return l.doneText()
	case status.KindSignal:
		return "signal: " + l.Text
	case status.KindCancel:
		return "cancelled by a person"
	}
	return l.endText()
}

func (l line) doneText() string {
	head := fmt.Sprintf("%s: done in %s", l.label(), text.Seconds(l.Seconds))
	switch {
	case l.Failure != nil:
		head = fmt.Sprintf("%s: %s", l.label(), l.Failure)
	case strings.HasPrefix(l.Activity, "await:") || l.Activity == "sleep":
		head = fmt.Sprintf("waited %s", text.Seconds(l.Seconds))
	}
	if l.Text == "" {
		return head
	}
	return head + "\n" + text.Indent(l.Text)
}

func (l line) endText() string {
	head := "ended after " + text.Seconds(l.Seconds)
	if l.Text != "" {
		head += ": " + l.Text
	}
	if l.Failure != nil {
		head += ": " + l.Failure.Error()
	}
	return head
}

// label returns an activity's id without the number of a first call: round-2/check#1 becomes
// round-2/check. For an activity of a step, the path of the step comes first.
func (l line) label() string {
	id := l.ID
	if path, rest := status.StepOf(id); path != "" {
		id = path + "/" + rest
	}
	return strings.TrimSuffix(id, "#1")
}

// eventText returns what an agent did, "" for what people need not see.
func eventText(e agents.Event) string {
	switch e.Kind {
	case agents.EventText:
		return "  " + bar + strings.ReplaceAll(strings.TrimSpace(e.Text), "\n", "\n  "+bar)
	case agents.EventTool:
		return strings.TrimRight("  → "+e.Tool+" "+e.Input, " ")
	case agents.EventNotice:
		return "  ! " + e.Text
	}
	return ""
}

// stepText returns a line of a log about a step, for people; "" if it says nothing to them.
func (l line) stepText() string {
	switch {
	case l.Activity == status.StepBegins && l.Kind == status.KindStart:
		return fmt.Sprintf("step %s, %s", l.Step, l.Text)
	case l.Activity == status.StepEnds && l.Kind == status.KindDone && l.Failure == nil:
		return fmt.Sprintf("step %s: %s (%s)", l.Step, l.Text, text.Seconds(l.Seconds))
	case l.Activity == status.StepAsks && l.Text != "" && l.Failure == nil:
		return text.Indent(l.Step + " waits for people: " + l.Text)
	case workflow.IsDetail(l.Activity) && l.Text == "" && l.Failure == nil:
		return ""
	}
	if plain := l.plainText(); plain != "" {
		return text.Indent(plain)
	}
	return ""
}
