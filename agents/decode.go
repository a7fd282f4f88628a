package agents

import (
	"encoding/json"
	"time"
)

// Decoder returns a function that decodes the stream.jsonl which the agent of that name writes, line by line, into the events that the
// agent had sent while it ran. It is for showing a run to people, during it or later. A line that holds no event gives none; a line
// of a project's own agent that is no event is text.
func Decoder(name string) func(line string) []Event {
	var found []Event
	t := &tally{emit: func(e Event) { found = append(found, e) }, watchdog: newWatchdog(Request{}, time.Hour, func(error) {})}
	r, own := reader(acpLooksOn()), true
	if b, ok := builtInNamed(name); ok {
		r, own = b.reader(Request{}), false
	}
	return func(line string) []Event {
		found = nil
		if !r.line(line, t) && own {
			return decodeEvent(line)
		}
		t.watchdog.stop() // nothing runs that it could end
		return found
	}
}

// decodeEvent reads a line of rehearsal, or of a project's own agent.
func decodeEvent(line string) []Event {
	var e struct {
		Event
		Input json.RawMessage `json:"input"`
	}
	if !decode(line, &e) || e.Kind == "" {
		return []Event{{Kind: EventText, Text: line}}
	}
	if len(e.Input) > 0 && json.Unmarshal(e.Input, &e.Event.Input) != nil { // text, or what a tool was given
		e.Event.Input = brief(e.Input)
	}
	return []Event{e.Event}
}
