package board

import (
	"bytes"
	"path/filepath"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const (
	keptLogs  = 8       // tasks whose logs are kept open
	keptLines = 2000    // of a log
	keptBytes = 1 << 20 // of what an agent leaves at once
	lineWidth = 2000    // letters
	firstShow = 400     // lines that a page begins with
)

// logs are those of the tasks that people look at.
type logs struct {
	p *app.Project

	mu   sync.Mutex
	open []*taskLog // that was looked at last: the last one
}

// taskLog is the log of a task as far as it was read.
type taskLog struct {
	id string

	mu       sync.Mutex
	log      *status.Log
	print    *terminal.LogPrinter
	lines    []logLine
	first    int // number of the first line that is kept
	timeline timeline
}

// logLine is a line of a log.
type logLine struct {
	At, Text string
	Kind     string // what it is about, for its colour
}

// of is the log of a task.
func (l *logs) of(id string) *taskLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, one := range l.open {
		if one.id == id {
			l.open = append(append(l.open[:i:i], l.open[i+1:]...), one)
			return one
		}
	}
	if len(l.open) == keptLogs {
		l.open = l.open[1:]
	}
	one := &taskLog{id: id, log: &status.Log{Dir: filepath.Join(l.p.Store.Tasks(), id), Decode: agents.Decoder, Tail: keptBytes}, print: &terminal.LogPrinter{Whole: "trellis logs --full " + id}}
	l.open = append(l.open, one)
	return one
}

// read takes in what is new. What can't be read now is read with what comes next.
func (t *taskLog) read() {
	news, _, err := t.log.Next()
	if err != nil && len(news) == 0 {
		return
	}
	for _, l := range news {
		t.timeline.add(l)
		var b bytes.Buffer
		t.print.W = &b
		if t.print.Print(l) != nil {
			continue // it is printed into memory
		}
		for line := range strings.Lines(b.String()) {
			t.lines = append(t.lines, newLine(l, strings.TrimRight(line, "\n")))
		}
	}
	if over := len(t.lines) - keptLines; over > 0 {
		t.lines, t.first = append([]logLine{}, t.lines[over:]...), t.first+over
	}
}

// newLine is a line as a terminal is shown it, its time apart.
func newLine(l status.Line, shown string) logLine {
	const clock = len("15:04:05")
	line := logLine{Kind: kindOf(l), Text: shown}
	if len(shown) >= clock {
		line.At, line.Text = strings.TrimSpace(shown[:clock]), strings.TrimPrefix(shown[clock:], "  ")
	}
	line.Text = text.Clip(line.Text, lineWidth)
	return line
}

// kindOf is what a line is about.
func kindOf(l status.Line) string {
	switch {
	case l.Failure != nil:
		return "bad"
	case l.Event != nil && l.Event.Kind == agents.EventTool:
		return "tool"
	case l.Event != nil && l.Event.Kind == agents.EventNotice:
		return "note"
	case l.Event != nil:
		return "said"
	}
	for _, c := range l.Checks {
		if c.Failed() {
			return "bad"
		}
	}
	if len(l.Checks) > 0 {
		return "good"
	}
	return l.Kind
}

// since are the lines from a number on, and the number of the one that comes next. whole: they are all that are kept, since
// some between are not.
func (t *taskLog) since(from, most int) (list []logLine, end int, whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read()
	end = t.first + len(t.lines)
	if from < t.first || from > end {
		from, whole = t.first, true
	}
	if most > 0 && end-from > most {
		from = end - most
	}
	return append([]logLine{}, t.lines[from-t.first:]...), end, whole
}

// phases are those of all runs, in the order in which they began.
func (t *taskLog) phases() []span {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read()
	return append([]span{}, t.timeline.spans...)
}

// timeline is what was done for a task, and how long it took.
type timeline struct {
	spans []span
	at    map[string]int // by run and activity
}

// span is a phase of a run.
type span struct {
	Run, Phase, Agent string
	Round             int
	Began             string
	Seconds           float64
	Took              string
	State             string // now, done, bad
	Why               string
}

// keptSpans is how many phases are kept.
const keptSpans = 300

// spanned are the activities that people know as phases.
var spanned = map[string]bool{"prepare": true, "baseline": true, "verify": true, "accept": true, "commit": true, "final": true, "final-verify": true, "update": true, "push": true, "pull": true, "prove": true, "setup": true}

func (t *timeline) add(l status.Line) {
	if l.Step != "" || l.Wait != nil {
		return
	}
	key := l.Run + " " + l.ID
	switch l.Kind {
	case status.KindStart:
		if l.Agent == "" && !spanned[l.Activity] {
			return
		}
		if t.at == nil || len(t.spans) >= keptSpans {
			t.spans, t.at = nil, map[string]int{}
		}
		t.at[key] = len(t.spans)
		t.spans = append(t.spans, span{Run: l.Run[strings.LastIndexByte(l.Run, '/')+1:], Phase: l.Activity, Agent: trellis.Visible(l.Agent), Round: l.Round, Began: clock(l.At), State: "now"})
	case status.KindDone:
		if i, there := t.at[key]; there {
			t.spans[i].end(l)
		}
	case status.KindEnd:
		for i := range t.spans {
			if t.spans[i].State == "now" {
				t.spans[i].State = "bad" // it was cut off
			}
		}
	}
}

func (s *span) end(l status.Line) {
	s.Seconds, s.Took, s.State = l.Seconds, text.Seconds(l.Seconds), "done"
	if l.Failure != nil {
		s.State, s.Why = "bad", clip(l.Failure.Error(), 200)
	}
	for _, c := range l.Checks {
		if c.Failed() {
			s.State, s.Why = "bad", clip(c.Words(l.Activity), 200)
		}
	}
}
