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
	kindCheck  = "check"  // one of the project's commands ended, or waits, in an activity that goes on
	KindSignal = "signal" // somebody said something to the run
	KindCancel = "cancel" // somebody called the run off
	KindEnd    = "end"    // the run ended
)

// Line is one thing that happened to a task. Its JSON is what `trellis logs --json` prints, one a line.
type Line struct {
	Kind     string        `json:"kind"`
	At       time.Time     `json:"at,omitzero"` // not known of what an agent did
	Run      string        `json:"run"`         // <task>/<number>
	ID       string        `json:"id,omitempty"`
	Activity string        `json:"activity,omitempty"`
	Round    int           `json:"round,omitempty"`
	Step     string        `json:"step,omitempty"`  // of the plan, that the activity belongs to: its path
	Agent    string        `json:"agent,omitempty"` // start: who plays the role
	Event    *agents.Event `json:"event,omitempty"`
	Seconds  float64       `json:"seconds,omitempty"`
	Failure  *flow.Failure `json:"failure,omitempty"`
	// In a few words, several lines where there is output. Start: why a planning asks once more, what a person said to the
	// work, what a step is, and what an agent is to do in it.
	Text string `json:"text,omitempty"`
	// Of an activity that ran the project's own commands, once it ended.
	Checks []events.Check `json:"checks,omitempty"`
	Wait   *events.Wait   `json:"wait,omitempty"` // start: nothing is done until this is over

	untold string              // start: what is to be mended, where nothing has told it before
	state  *pipeline.TaskState // done: what task.json said from then on
	asked  bool                // done: it was a call of an agent
	told   int                 // done: so many of Checks were told before
}

// LastRun as a log's run is the one that is the last when the log is first read, and what comes after it.
const LastRun = -1

// Log reads what was done for a task: first all that is there, then what is new.
type Log struct {
	Dir   string // of the task
	Run   int    // only the run of this number; 0 is all, from the first on
	Phase string // only this activity: implement, check, verify, …; "" is all
	// Tail is how many bytes of an agent's stream are read at once: of one that has grown by more only the end. 0: all that
	// agents may leave.
	Tail int64
	// Decode makes a decoder of the raw stream that an agent of that name leaves.
	Decode func(agent string) func(line string) []agents.Event

	checks  bool // commands are told as they end, and not once more when all have
	begun   bool // it was read before
	earlier int
	run     runLog
	read    fs.FileInfo // of the journal, when it was read last
	history *journal.History
}

// NoRunError is a log of a run that there is not.
type NoRunError struct{ Run, Last int }

func (e *NoRunError) Error() string {
	if e.Last == 0 {
		return "there was no run yet"
	}
	return fmt.Sprintf("there is no run %d: the last one is %d", e.Run, e.Last)
}

// Earlier is how many runs there are before the one that a log of the last run began with.
func (l *Log) Earlier() int { return l.earlier }

// journal is what the journal says, read anew only when it was written to.
func (l *Log) journal(dir string) (*journal.History, error) {
	now, err := os.Stat(filepath.Join(filepath.Dir(dir), taskdir.Journal))
	if err == nil && l.history != nil && os.SameFile(now, l.read) && now.Size() == l.read.Size() && now.ModTime().Equal(l.read.ModTime()) {
		return l.history, nil
	}
	h, readErr := journal.Read(dir)
	if l.history = nil; err == nil && readErr == nil {
		l.history, l.read = h, now
	}
	return h, readErr
}

// Next are the lines since the last call, and whether nothing will be added to what is there: the run that is the latest
// has ended, or the one asked for. No journal is no error: there may be one soon.
func (l *Log) Next() (lines []Line, ended bool, err error) {
	dir := l.find()
	h, err := l.journal(dir)
	switch {
	case errors.Is(err, journal.ErrNone):
		h, err = nil, nil
	case h == nil && err != nil:
		return nil, false, err
	case h != nil && h.Empty():
		h = nil
	}
	past, pastErr := l.past(dir, h)
	if pastErr != nil {
		return nil, false, pastErr
	}
	for _, old := range past {
		lines = append(lines, l.of(dir, old)...)
	}
	if h == nil || l.Run > 0 && h.Number != l.Run {
		return lines, l.Run > 0, err
	}
	return append(lines, l.of(dir, h)...), h.Ended, err
}

// past are the journals of runs before the current one of which there is something to tell: at first those that were
// asked for, then the rest of one that another has followed.
func (l *Log) past(dir string, current *journal.History) (list []*journal.History, err error) {
	if l.begun && (l.run.name == "" || current == nil || current.Run == l.run.name) {
		return nil, nil
	}
	files, err := journal.Archived(dir)
	if err != nil {
		return nil, err
	}
	if l.begun {
		files = files[max(len(files)-1, 0):]
	} else if files, err = l.pick(files, current); err != nil {
		return nil, err
	}
	l.begun = true
	for _, f := range files {
		h, err := journal.ReadFile(f)
		if err != nil && h == nil {
			return nil, err
		}
		if current == nil || h.Run != current.Run { // a journal has two names for a moment
			list = append(list, h)
		}
	}
	return list, nil
}

// pick are the files of earlier runs that were asked for.
func (l *Log) pick(files []string, current *journal.History) ([]string, error) {
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

// of are the lines of a run that are new.
func (l *Log) of(dir string, h *journal.History) []Line {
	if l.run.name != h.Run {
		l.run = runLog{log: l, dir: dir}
	}
	return l.run.next(h)
}

// find is the run folder of the task. A planning's directory gets its name when it has ended.
func (l *Log) find() string {
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
	log     *Log
	dir     string // run/
	name    string
	calls   map[string]*callLog
	begun   map[string]time.Time    // steps, by path
	bundles map[string]*plan.Bundle // that they are of, by hash; nil: gone
	signals int
	cancel  bool
	end     bool
}

// callLog is how far one activity has been read.
type callLog struct {
	started, done bool
	entry         int // whose stream is read
	offset        int64
	decode        func(string) []agents.Event
	checks        int // that were told
}

func (r *runLog) next(h *journal.History) (lines []Line) {
	if r.name == "" {
		r.name, r.calls, r.begun, r.bundles = h.Run, map[string]*callLog{}, map[string]time.Time{}, map[string]*plan.Bundle{}
		lines = append(lines, Line{Kind: KindRun, At: h.Began, Run: h.Run, Text: h.Flow})
	}
	for _, c := range h.Calls {
		if r.shown(c) {
			lines = append(lines, r.call(h, c)...)
		}
	}
	for _, s := range h.Signals[r.signals:] {
		lines = append(lines, Line{Kind: KindSignal, At: s.At, Run: h.Run, Text: s.Name})
	}
	r.signals = len(h.Signals)
	if h.Cancelled && !r.cancel {
		r.cancel = true
		lines = append(lines, Line{Kind: KindCancel, Run: h.Run})
	}
	if h.Ended && !r.end {
		r.end = true
		lines = append(lines, Line{Kind: KindEnd, At: h.EndedAt, Run: h.Run, Failure: h.End, Seconds: secondsBetween(h.Started(), h.EndedAt), Text: outcome(h.Out)})
	}
	return lines
}

func (r *runLog) shown(c journal.Entry) bool {
	return r.log.Phase == "" || r.log.Phase == c.Activity
}

func (r *runLog) call(h *journal.History, c journal.Entry) (lines []Line) {
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
		start.Kind, start.At, start.Agent, start.Text = KindStart, c.Started, agentOf(c), r.told(c)
		start.Wait, start.untold = pipeline.WaitOf(h, c), pipeline.Untold(c.Activity, c.In)
		lines = append(lines, start)
	}
	if seen.done {
		return lines
	}
	if agent := agentOf(c); agent != "" {
		lines = append(lines, r.stream(seen, c, agent, line)...)
	} else if r.log.checks && !c.Done {
		if line.Checks, line.Wait = r.ended(seen, c); line.Checks != nil || line.Wait != nil {
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
		line.told = min(seen.checks, len(line.Checks))
		line.asked = agentOf(c) != ""
		if line.Step != "" {
			r.came(c, &line)
		}
		lines = append(lines, line)
	}
	return lines
}

// stream reads what an agent printed since the last look, for every entry into the activity in turn.
func (r *runLog) stream(seen *callLog, c journal.Entry, agent string, line Line) (lines []Line) {
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

// newLines are the whole lines of a file from offset on, with a tail only those in the last bytes of it; the last one also
// when it has no end, if nothing will be added to it. A file that is not there has none.
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

// maxRead is how much of a stream is read at once. Agents' files are capped at as much.
const maxRead = 128 << 20

// secondsBetween is how long it was from one time to another, nothing where the clock was set back meanwhile.
func secondsBetween(from, to time.Time) float64 { return max(0, to.Sub(from).Seconds()) }
