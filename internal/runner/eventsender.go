package runner

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// eventSender reports what happens in a run to all interfaces: checks when they end, waits when they begin, the end.
type eventSender struct {
	dir    string
	report string // relative to the main checkout
	tell   func(Event)
	now    func() time.Time
}

func (s *Site) eventsOf(dir string) eventSender {
	return eventSender{dir, s.Store.Rel(filepath.Join(dir, taskdir.Report)), s.Tell, s.Clock}
}

func (t eventSender) send(e events.Event) {
	e.Time, e.Task = t.now(), filepath.Base(t.dir)
	t.tell(Event{Task: e.Task, Round: e.Round, Told: &e})
}

// sendCheck reports how a command of an activity ended, or what the command waits for.
func (t eventSender) sendCheck(c flow.Call, told pipeline.CheckNews) {
	if told.Wait != nil {
		t.send(events.Event{Kind: events.Waiting, Run: c.Run, Call: c.ID, Wait: told.Wait})
		return
	}
	check := told.Check
	phase := c.ID[strings.LastIndexByte(c.ID, '/')+1:]
	phase, _, _ = strings.Cut(phase, "#")
	check.Forgiven = check.Code != 0 && (check.Forgiven || phase == "baseline") // the baseline ran before the work, which can't have caused this failure
	t.send(events.Event{Kind: events.Checked, Run: c.Run, Call: c.ID, Phase: phase, Check: &check, Seconds: check.Seconds})
}

func (t eventSender) sendWait(j *journal.Run, c journal.Entry) {
	h := j.History()
	if w := pipeline.WaitOf(h, c); w != nil {
		if w.For == "approval" && !strings.Contains(c.ID, "step-") { // for a step, the code that waits names the step
			w.Next = "trellis approve " + trellis.ShellWord(filepath.Base(t.dir))
		}
		t.send(events.Event{Kind: events.Waiting, Run: h.Run, Call: c.ID, Wait: w})
	}
}

// sendEnd reports how a run ended, if it has ended.
func (t eventSender) sendEnd(h *journal.History, r Result) {
	if !h.Ended || !r.Status.Ended() && r.Status != trellis.Review && r.Status != trellis.Failed {
		return
	}
	o := pipeline.OutcomeOf(h)
	o.Status, o.Report, o.Next = r.Status, t.report, events.NextAfter(r.Status, filepath.Base(t.dir))
	e := events.Event{Time: t.now(), Task: filepath.Base(t.dir), Run: h.Run, Kind: events.Ended, Outcome: &o, Seconds: o.Seconds}
	if r.Failure != nil {
		e.Failure = &events.Failure{Code: trellis.Code(r.Failure.Code), Detail: r.Failure.Detail}
	}
	t.tell(Event{Task: e.Task, Told: &e, Ended: &r})
}

// WatchState is what a watcher runs, and why it does not run other tasks.
type WatchState struct {
	Runs  []string       // the tasks that it runs
	Idle  time.Time      // since when nothing has run; zero while something runs
	Waits []events.Event // tasks that would run, and why they don't
}

// Words returns the text that says that nothing runs.
func (w WatchState) Words() string { return events.IdleText(w.Idle, w.Waits) }
