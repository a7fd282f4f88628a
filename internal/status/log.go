package status

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Kinds of lines of a log.
const (
	KindRun    = "run"    // a run began
	KindStart  = "start"  // an activity began
	KindAgent  = "agent"  // an agent did something
	KindDone   = "done"   // an activity ended
	kindCheck  = "check"  // one of the project's commands ended, or waits, in a running activity
	KindSignal = "signal" // a person sent something to the run
	KindCancel = "cancel" // a person cancelled the run
	KindEnd    = "end"    // the run ended
)

// Line is one thing that happened to a task. Its JSON is what `trellis logs --json` prints, one a line.
type Line struct {
	Kind     string        `json:"kind"`
	At       time.Time     `json:"at,omitzero"` // unknown for what an agent did
	Run      string        `json:"run"`         // <task>/<number>
	ID       string        `json:"id,omitempty"`
	Activity string        `json:"activity,omitempty"`
	Round    int           `json:"round,omitempty"`
	Step     string        `json:"step,omitempty"`  // path of the plan's step that the activity belongs to
	Agent    string        `json:"agent,omitempty"` // start: the agent that plays the role
	Event    *agents.Event `json:"event,omitempty"`
	Seconds  float64       `json:"seconds,omitempty"`
	Failure  *flow.Failure `json:"failure,omitempty"`
	// A few words, or several lines if there is output. Start: why a planning asks again, what a
	// person said to the work, what a step is, and what an agent is to do in it.
	Text string `json:"text,omitempty"`
	// The project's own commands that an activity ran, once it has ended.
	Checks []events.Check `json:"checks,omitempty"`
	Wait   *events.Wait   `json:"wait,omitempty"` // start: nothing is done until this is over

	unreportedTrouble string              // start: what is to be mended, if it has not been reported before
	state             *pipeline.TaskState // done: the state that was written into task.json
	isAgentCall       bool                // done: it was a call of an agent
	reportedChecks    int                 // done: how many of Checks were reported before
}

// LastRun as a log's run is the run that is the last one when the log is first read, and all runs after it.
const LastRun = -1

// Log reads what was done for a task: first everything that exists, then what is new.
type Log struct {
	Dir   string // of the task
	Run   int    // only the run of this number; 0 is all, from the first on
	Phase string // only this activity: implement, check, verify, …; "" is all
	// Tail is how many bytes of an agent's stream are read at once: if it has grown by more, only
	// the end is read. 0: all that agents may leave.
	Tail int64
	// Decode returns a decoder of the raw stream that an agent of that name leaves.
	Decode func(agent string) func(line string) []agents.Event

	checks      bool // commands are reported as they end, and not again when all have ended
	begun       bool // the log was read before
	earlier     int
	run         runLog
	journalInfo fs.FileInfo // of the journal, when it was read last
	history     *journal.History
}

// NoRunError is the error of a log for a run that does not exist.
type NoRunError struct{ Run, Last int }

func (e *NoRunError) Error() string {
	if e.Last == 0 {
		return "there was no run yet"
	}
	return fmt.Sprintf("there is no run %d: the last one is %d", e.Run, e.Last)
}

// Earlier returns how many runs there are before the one that a log of the last run began with.
func (l *Log) Earlier() int { return l.earlier }

// journal returns the history in the journal, which it reads again only after a change.
func (l *Log) journal(dir string) (*journal.History, error) {
	now, err := os.Stat(filepath.Join(filepath.Dir(dir), taskdir.Journal))
	if err == nil && l.history != nil && os.SameFile(now, l.journalInfo) && now.Size() == l.journalInfo.Size() && now.ModTime().Equal(l.journalInfo.ModTime()) {
		return l.history, nil
	}
	h, readErr := journal.Read(dir)
	if l.history = nil; err == nil && readErr == nil {
		l.history, l.journalInfo = h, now
	}
	return h, readErr
}

// Next returns the lines since the last call, and whether no more will follow: the latest run has
// ended, or the one that was asked for. A missing journal is not an error: it may be created soon.
func (l *Log) Next() (lines []Line, ended bool, err error) {
	dir := l.runFolder()
	h, err := l.journal(dir)
	switch {
	case errors.Is(err, journal.ErrNone):
		h, err = nil, nil
	case h == nil && err != nil:
		return nil, false, err
	case h != nil && h.Empty():
		h = nil
	}
	past, pastErr := l.earlierRuns(dir, h)
	if pastErr != nil {
		return nil, false, pastErr
	}
	for _, old := range past {
		lines = append(lines, l.runLines(dir, old)...)
	}
	if h == nil || l.Run > 0 && h.Number != l.Run {
		return lines, l.Run > 0, err
	}
	return append(lines, l.runLines(dir, h)...), h.Ended, err
}

// earlierRuns returns the journals of earlier runs that have something to report: in the first call those
// that were asked for, later the rest of a run that another one has followed.
func (l *Log) earlierRuns(dir string, current *journal.History) (list []*journal.History, err error) {
	if l.begun && (l.run.name == "" || current == nil || current.Run == l.run.name) {
		return nil, nil
	}
	files, err := journal.Archived(dir)
	if err != nil {
		return nil, err
	}
	if l.begun {
		files = files[max(len(files)-1, 0):]
	} else if files, err = l.selectRuns(files, current); err != nil {
		return nil, err
	}
	l.begun = true
	for _, f := range files {
		h, err := journal.ReadFile(f)
		if err != nil && h == nil {
			return nil, err
		}
		if current == nil || h.Run != current.Run { // while it is archived, a journal has two names
			list = append(list, h)
		}
	}
	return list, nil
}

// selectRuns returns the files of earlier runs that were asked for.
func (l *Log) selectRuns(files []string, current *journal.History) ([]string, error) {
	switch {
	case l.Run == LastRun && current == nil:
		l.earlier = max(len(files)-1, 0)
		return files[l.earlier:], nil
	case l.Run == LastRun:
		l.earlier = len(files)
		return nil, nil
	case l.Run == 0:
		return files, nil
	}
	last := len(files)
	if current != nil {
		last = current.Number
	}
	for _, f := range files {
		if filepath.Base(f) == journal.ArchiveName(l.Run) {
			return []string{f}, nil
		}
	}
	if current != nil && last == l.Run {
		return nil, nil
	}
	return nil, &NoRunError{Run: l.Run, Last: last}
}

// runLines returns the new lines of a run.
func (l *Log) runLines(dir string, h *journal.History) []Line {
	if l.run.name != h.Run {
		l.run = runLog{log: l, dir: dir}
	}
	return l.run.newLines(h)
}

// runFolder returns the run folder of the task. The directory of a planning is renamed when it has ended.
func (l *Log) runFolder() string {
	parent, name := filepath.Split(l.Dir)
	if final, draft := strings.CutPrefix(name, taskdir.DraftPrefix); draft {
		if _, err := os.Stat(l.Dir); errors.Is(err, fs.ErrNotExist) {
			l.Dir = filepath.Join(parent, final)
			l.run.dir = filepath.Join(l.Dir, taskdir.Run)
		}
	}
	return filepath.Join(l.Dir, taskdir.Run)
}

// runLog is how far a run's journal and streams have been read.
type runLog struct {
	log            *Log
	dir            string // run/
	name           string
	calls          map[string]*callLog
	begun          map[string]time.Time    // steps, by path
	bundles        map[string]*plan.Bundle // plans of the steps, by hash; nil: gone
	signals        int
	cancelReported bool
	endReported    bool
}

// callLog is how far one activity has been read.
type callLog struct {
	started, done bool
	entry         int // number of the entry whose stream is read
	offset        int64
	decode        func(string) []agents.Event
	checks        int // how many were reported
}

func (r *runLog) newLines(h *journal.History) (lines []Line) {
	if r.name == "" {
		r.name, r.calls, r.begun, r.bundles = h.Run, map[string]*callLog{}, map[string]time.Time{}, map[string]*plan.Bundle{}
		lines = append(lines, Line{Kind: KindRun, At: h.Began, Run: h.Run, Text: h.Flow})
	}
	for _, c := range h.Calls {
		if r.isSelected(c) {
			lines = append(lines, r.callLines(h, c)...)
		}
	}
	for _, s := range h.Signals[r.signals:] {
		lines = append(lines, Line{Kind: KindSignal, At: s.At, Run: h.Run, Text: s.Name})
	}
	r.signals = len(h.Signals)
	if h.Cancelled && !r.cancelReported {
		r.cancelReported = true
		lines = append(lines, Line{Kind: KindCancel, Run: h.Run})
	}
	if h.Ended && !r.endReported {
		r.endReported = true
		lines = append(lines, Line{Kind: KindEnd, At: h.EndedAt, Run: h.Run, Failure: h.End, Seconds: secondsBetween(h.Started(), h.EndedAt), Text: outcomeText(h.Out)})
	}
	return lines
}

func (r *runLog) isSelected(c journal.Entry) bool {
	return r.log.Phase == "" || r.log.Phase == c.Activity
}

func (r *runLog) callLines(h *journal.History, c journal.Entry) (lines []Line) {
	seen := r.calls[c.ID]
	if seen == nil {
		seen = &callLog{}
		r.calls[c.ID] = seen
	}
	line := Line{Run: r.name, ID: c.ID, Activity: c.Activity, Round: roundIn(c)}
	line.Step, _ = StepOf(c.ID)
	if !seen.started {
		seen.started = true
		start := line
		start.Kind, start.At, start.Agent, start.Text = KindStart, c.Started, agentOf(c), r.startText(c)
		start.Wait, start.unreportedTrouble = pipeline.WaitOf(h, c), pipeline.UnreportedTrouble(c.Activity, c.In)
		lines = append(lines, start)
	}
	if seen.done {
		return lines
	}
	if agent := agentOf(c); agent != "" {
		lines = append(lines, r.agentLines(seen, c, agent, line)...)
	} else if r.log.checks && !c.Done {
		if line.Checks, line.Wait = r.newChecks(seen, c); line.Checks != nil || line.Wait != nil {
			line.Kind = kindCheck
			lines = append(lines, line)
		}
		line.Wait = nil
	}
	if c.Done {
		seen.done = true
		line.Kind, line.At, line.Failure = KindDone, c.Finished, c.Fail
		line.Seconds = secondsBetween(c.Started, c.Finished)
		line.Text, line.Checks, line.state = summary(c), checksOf(c), stateOf(c)
		line.reportedChecks = min(seen.checks, len(line.Checks))
		line.isAgentCall = agentOf(c) != ""
		if line.Step != "" {
			r.addStepResult(c, &line)
		}
		lines = append(lines, line)
	}
	return lines
}

// agentLines returns what an agent did since the last call, for every entry into the activity in turn.
func (r *runLog) agentLines(seen *callLog, c journal.Entry, agent string, line Line) (lines []Line) {
	line.Kind = KindAgent
	base := filepath.Join(r.dir, agentcall.Folder(flow.Call{Run: r.name, ID: c.ID}))
	for entry := max(seen.entry, 1); entry <= max(c.Entries, 1); entry++ {
		if entry != seen.entry {
			seen.entry, seen.offset, seen.decode = entry, 0, r.log.Decode(agent)
		}
		for _, text := range newLines(filepath.Join(base, strconv.Itoa(entry), "stream.jsonl"), &seen.offset, r.log.Tail, c.Done || entry < c.Entries) {
			for _, e := range seen.decode(text) {
				next := line
				next.Event = &e
				lines = append(lines, next)
			}
		}
	}
	return lines
}

// newLines returns the whole lines of a file from offset on, or, with tail, of those only the lines in its last
// tail bytes. If the file is closed, a last line without an end is included. A missing file has no lines.
func newLines(path string, offset *int64, tail int64, closed bool) []string {
	f, err := durable.OpenBelow(filepath.Dir(path), filepath.Base(path), durable.AnySize)
	if err != nil {
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() <= *offset {
		return nil
	}
	from := *offset
	if tail > 0 {
		from = max(from, st.Size()-tail)
	}
	data := make([]byte, min(st.Size()-from, maxRead))
	n, err := f.ReadAt(data, from)
	if err != nil && n == 0 {
		return nil
	}
	text := string(data[:n])
	if from > *offset { // in the middle of a line
		_, text, _ = strings.Cut(text, "\n")
		*offset = from + int64(n-len(text))
	}
	if end := strings.LastIndexByte(text, '\n'); text == "" {
		return nil
	} else if end >= 0 && !closed {
		text = text[:end+1]
	} else if !closed {
		return nil
	}
	*offset += int64(len(text))
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// maxRead is how many bytes of a stream are read at once. Agents' files are capped at the same size.
const maxRead = 128 << 20

// secondsBetween returns the seconds from one time to another, 0 if the clock was set back meanwhile.
func secondsBetween(from, to time.Time) float64 { return max(0, to.Sub(from).Seconds()) }
