package agents

import (
	"encoding/json"
	"time"
)

// Decoder returns a function that decodes the lines of a stream.jsonl, written by the agent with the given name, into the events
// that the agent sent while it ran. It is meant for showing a run to people, during the run or later. A line without an event
// returns none; for a project's own agent such a line is text.
func Decoder(name string) func(line string) []Event {
	var found []Event
	t := &tally{emit: func(e Event) { found = append(found, e) }, watchdog: newWatchdog(Request{}, time.Hour, func(error) {})}
	r, own := reader(newACPDecoder()), true
	if b, ok := builtInNamed(name); ok {
		r, own = b.reader(Request{}), false
	}
	return func(line string) []Event {
		found = nil
		if !r.line(line, t) && own {
			return decodeEvent(line)
		}
		t.watchdog.stop() // the watchdog has no program to end
		return found
	}
}

// decodeEvent decodes a line of the rehearsal agent or of a project's own agent.
func decodeEvent(line string) []Event {
	var e struct {
		Event
		Input json.RawMessage `json:"input"`
	}
	if !decode(line, &e) || e.Kind == "" {
		return []Event{{Kind: EventText, Text: line}}
	}
	if len(e.Input) > 0 && json.Unmarshal(e.Input, &e.Event.Input) != nil { // a string, or the arguments of a tool
		e.Event.Input = brief(e.Input)
	}
	return []Event{e.Event}
}
