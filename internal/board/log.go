package board

import (
	"path/filepath"
	"slices"
	"sync"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const (
	keptLogs   = 8   // tasks whose logs are kept open
	firstLines = 400 // lines that a page begins with
)

// logs are the open logs of the tasks that people read.
type logs struct {
	p *app.Project

	mu   sync.Mutex
	open []*taskLog // the one that was read last comes last
}

// taskLog is the log of a task as far as it was read.
type taskLog struct {
	*terminal.Scroll
	id       string
	timeline timeline
}

func (l *logs) openLog(id string) *taskLog {
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
	log := &status.Log{Dir: filepath.Join(l.p.Store.Tasks(), id), Decode: agents.Decoder}
	one := &taskLog{Scroll: terminal.NewScroll(log, "trellis logs --full "+trellis.ShellWord(id)), id: id}
	one.Each, one.Kind = one.timeline.add, kindOf
	l.open = append(l.open, one)
	return one
}

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

// phases returns the phases of all runs, in the order in which they began.
func (t *taskLog) phases() (list []span) {
	t.Read(func() { list = append([]span{}, t.timeline.spans...) })
	return list
}

// timeline is what was done for a task, and how long it took.
type timeline struct{ spans []span }

// span is a phase of a run.
type span struct {
	key          string // the run and the activity
	Phase, Agent string
	Round        int
	Began        string
	Seconds      float64
	Took         string
	State        string // now, done, bad
	Why          string
}

// keptSpans is how many phases are kept, the newest.
const keptSpans = 300

// phaseActivities are the activities that people know as phases.
var phaseActivities = map[string]bool{"prepare": true, "baseline": true, "verify": true, "accept": true, "commit": true, "final": true, "final-verify": true, "update": true, "push": true, "pull": true, "prove": true, "setup": true}

func (t *timeline) add(l status.Line) {
	if l.Step != "" || l.Wait != nil {
		return
	}
	key := l.Run + " " + l.ID
	switch l.Kind {
	case status.KindStart:
		if l.Agent == "" && !phaseActivities[l.Activity] {
			return
		}
		t.spans = append(t.spans[max(0, len(t.spans)-keptSpans+1):],
			span{key: key, Phase: l.Activity, Agent: trellis.Visible(l.Agent), Round: l.Round, Began: timeOfDay(l.At), State: "now"})
	case status.KindDone:
		for i := range slices.Backward(t.spans) {
			if t.spans[i].key == key {
				t.spans[i].end(l)
				break
			}
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
			s.State, s.Why = "bad", clip(c.Text(l.Activity), 200)
		}
	}
}
