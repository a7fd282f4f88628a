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

// tally collects what is known about a run so far. A reader fills it from the program's output.
type tally struct {
	result   Result
	emit     func(Event)
	watchdog *watchdog
	prices   prices.Table
	reportedEnd

	cacheWritten int64 // input tokens that were written to the provider's cache
	reportsCost  bool  // the program reports its cost at the end: nothing is estimated before

	toolCallsEnded int  // number of tool calls that ended
	worked         bool // at least one tool call succeeded
}

// reportedEnd is what a program reported about its own end.
type reportedEnd struct {
	done        bool          // the program reported its result
	answeredAll bool          // the program has answered every request, so the way in which it exits means nothing
	failure     *flow.Failure // what went wrong
	waitReason  *flow.Failure // why the program may fall silent, as it reported beforehand
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

// maxFailing is the number of tool calls that may fail at the beginning of a run without a success in between. After that,
// none is going to succeed, and each try costs tokens.
const maxFailing = 20

// toolEnded counts the tool calls that ended, and ends a run in which all of the first maxFailing calls failed.
func (t *tally) toolEnded(well bool, said string) {
	if well {
		t.worked = true
	}
	if t.toolCallsEnded++; t.toolCallsEnded == maxFailing && !t.worked {
		f := fail(trellis.AgentExit, "all of its %d tool calls failed, the last one so: %s", maxFailing, lastLines(said))
		f.Retryable = false
		t.watchdog.end(f)
	}
}

// usage records the running total of the run. A run that exceeded its limits is ended, unless it has given its result: it has
// nothing more to spend.
func (t *tally) usage(u trellis.Usage) {
	u = t.withEstimatedCost(t.result.Model, plausibleUsage(u), t.cacheWritten)
	t.result.Usage = u
	t.event(Event{Kind: EventUsage, Usage: &u})
	if f := t.watchdog.budgetFailure(u); f != nil && !t.done {
		t.watchdog.end(f)
	}
}

// Upper bounds of what a run can use. Reported values are summed over tasks and days, and no sum may overflow.
const (
	mostTokens = 1e12
	mostUSD    = 1e9
)

// plausibleUsage returns u limited to plausible values: what exceeds a bound becomes the bound, and a negative cost counts as not reported.
func plausibleUsage(u trellis.Usage) trellis.Usage {
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

// dollars is a reported cost in USD. A value that is not a number counts as not reported.
type dollars struct{ amount *float64 }

func (d *dollars) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &d.amount) != nil {
		d.amount = nil
	}
	return nil
}

func (t *tally) notice(s string) { t.event(Event{Kind: EventNotice, Text: s}) }

// markFinished records that nothing more is expected of the program except its exit.
func (t *tally) markFinished(stop string) {
	t.result.Stop = stop
	if !t.done {
		t.done = true
		t.watchdog.expectExit()
	}
}

// markUnfinished revokes markFinished: the program works on.
func (t *tally) markUnfinished() {
	if t.done {
		t.done = false
		t.watchdog.cancelExit()
	}
}

// decode reads a line that is a JSON object. A field of an unexpected type is left empty; the rest of the event still counts.
func decode(line string, into any) bool {
	err := json.Unmarshal([]byte(line), into)
	return strings.HasPrefix(line, "{") && (err == nil || errors.As(err, new(*json.UnmarshalTypeError)))
}

// brief returns a tool's input on one line, shortened: for an object with a telling key, such as command, only that key's value.
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
