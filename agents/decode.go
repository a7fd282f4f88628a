package agents

import (
	"encoding/json"
	"time"
)

// Decoder makes the events of a stream.jsonl again that the agent of that name left, or still writes:
// the function it returns takes the lines one by one. It is for those who look on. A line in which it
// finds nothing has no events; of a project's own agent it is text.
func Decoder(name string) func(line string) []Event {
	var found []Event
	t := &tally{emit: func(e Event) { found = append(found, e) }, watch: newWatch(Request{}, time.Hour, func(error) {})}
	r, own := reader(acpLooksOn()), true
	if b, ok := builtInNamed(name); ok {
		r, own = b.reader(Request{}), false
	}
	return func(line string) []Event {
		found = nil
		if !r.line(line, t) && own {
			return decodeEvent(line)
		}
		t.watch.stop() // nothing runs that it could end
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
