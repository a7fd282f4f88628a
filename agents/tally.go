package agents

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/prices"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// tally is what is known about a run so far. A reader fills it from what the program prints.
type tally struct {
	result   Result
	emit     func(Event)
	watchdog *watchdog
	prices   prices.Table
	said

	written int64 // tokens of the input that were written to the provider's cache
	tells   bool  // the program says at its end what it cost: nothing is estimated before

	failing int  // tools that ended, until one ended well
	worked  bool // one did
}

// said is what a program said about its own end.
type said struct {
	done    bool          // it is done
	parted  bool          // it has answered all that it was asked: how it ends then says nothing
	failure *flow.Failure // what went wrong
	waiting *flow.Failure // why it is silent, said before it fell silent
}

func (t *tally) event(e Event) {
	if t.emit != nil {
		t.emit(e)
	}
}

func (t *tally) session(id string) {
	if id == "" || id == t.result.Session {
		return
	}
	t.result.Session = id
	t.event(Event{Kind: EventSession, Session: id})
}

func (t *tally) text(s string) {
	if strings.TrimSpace(s) == "" {
		return
	}
	t.result.Text = s
	t.event(Event{Kind: EventText, Text: s})
}

func (t *tally) tool(name string, input json.RawMessage) {
	t.result.ToolCalls = max(t.result.ToolCalls, 0) + 1
	t.event(Event{Kind: EventTool, Tool: name, Input: brief(input)})
}

// maxFailing is how many tools may fail from the beginning, when none has done what it should: then none will, and each
// try costs tokens.
const maxFailing = 20

// toolEnded counts how tools end, and ends a run in which all of them fail.
func (t *tally) toolEnded(well bool, said string) {
	if well {
		t.worked = true
	}
	if t.failing++; t.failing == maxFailing && !t.worked {
		f := fail(trellis.AgentExit, "all of its %d tool calls failed, the last one so: %s", maxFailing, lastLines(said))
		f.Retryable = false
		t.watchdog.end(f)
	}
}

// usage takes the running total of the run and ends a run that crossed its limits; one that has given its
// result has no more to spend.
func (t *tally) usage(u trellis.Usage) {
	u = t.priced(t.result.Model, believed(u), t.written)
	t.result.Usage = u
	t.event(Event{Kind: EventUsage, Usage: &u})
	if f := t.watchdog.spent(u); f != nil && !t.done {
		t.watchdog.end(f)
	}
}

// More than this no run uses. What programs tell is added up over tasks and days, and no sum of it may overflow.
const (
	mostTokens = 1e12
	mostUSD    = 1e9
)

// believed is a use as far as it can be true. What is out of bounds counts as the bound, and a cost below nothing is none that was told.
func believed(u trellis.Usage) trellis.Usage {
	for _, n := range []*int64{&u.InputTokens, &u.OutputTokens, &u.CachedTokens} {
		*n = min(max(*n, 0), mostTokens)
	}
	if u.CostUSD != nil {
		cost := min(*u.CostUSD, mostUSD)
		if u.CostUSD = &cost; !(cost >= 0) {
			u.CostUSD, u.CostEstimated, u.CostPartial = nil, false, false
		}
	}
	return u
}

// dollars is what a program says that something cost: nothing is told by what is no number.
type dollars struct{ told *float64 }

func (d *dollars) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &d.told) != nil {
		d.told = nil
	}
	return nil
}

func (t *tally) notice(s string) { t.event(Event{Kind: EventNotice, Text: s}) }

// finished says that nothing more is expected of the program but its exit.
func (t *tally) finished(stop string) {
	t.result.Stop = stop
	if !t.done {
		t.done = true
		t.watchdog.result()
	}
}

// goesOn takes back finished: the program works on.
func (t *tally) goesOn() {
	if t.done {
		t.done = false
		t.watchdog.resumed()
	}
}

// decode reads a line that is a JSON object. A field that is not of the type we know is left empty: the
// rest of the event still counts.
func decode(line string, into any) bool {
	err := json.Unmarshal([]byte(line), into)
	return strings.HasPrefix(line, "{") && (err == nil || errors.As(err, new(*json.UnmarshalTypeError)))
}

// brief is a tool's input on one line, shortened. Of an object with one telling value it is that value.
func brief(input json.RawMessage) string {
	const most = 200
	s := string(input)
	var object map[string]json.RawMessage
	if json.Unmarshal(input, &object) == nil {
		for _, key := range []string{"command", "cmd", "file_path", "filePath", "path", "pattern", "query", "url"} {
			var value string
			if json.Unmarshal(object[key], &value) == nil && value != "" {
				s = value
				break
			}
		}
	}
	return text.Cut(text.OneLine(s), most)
}
