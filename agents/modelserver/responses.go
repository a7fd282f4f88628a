package modelserver

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// responses is the OpenAI responses protocol.
type responses struct{}

func (responses) path() string { return "/v1/responses" }

// item is one entry of a conversation: a message, a tool call, or the result of one.
type item struct {
	Type    string
	Role    string
	Content content
	Output  content // function_call_output
}

func (responses) parse(body []byte) (Request, error) {
	var in struct {
		Model        string
		Instructions string
		Stream       bool
		Input        []item
		Tools        []struct {
			Type, Name string
			Tools      []struct{ Name string } // the tools of a namespace
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, err
	}
	r := Request{Wire: Responses, Model: in.Model, Stream: in.Stream, System: in.Instructions + "\n"}
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, t.Name)
		for _, below := range t.Tools {
			r.Tools = append(r.Tools, t.Name+"."+below.Name)
		}
	}
	speaking := false // the previous entry was the model's
	for _, i := range in.Input {
		speaking = r.addItem(i, speaking)
	}
	r.Dir = workingDir(r.System)
	return r, nil
}

// addItem adds one entry of the conversation to r and reports whether it is the model's. A turn of the model is several consecutive
// entries, one for each message and call.
func (r *Request) addItem(i item, speaking bool) bool {
	switch {
	case strings.HasSuffix(i.Type, "_output"):
		r.ToolResults = append(r.ToolResults, i.Output.text())
		return false
	case i.Role == "user" && !addedByCodex(i.Content.text()):
		r.Prompt, r.Turns, r.ToolResults = i.Content.text(), 0, nil
		return false
	case i.Role != "" && i.Role != "assistant":
		r.System += i.Content.text() + "\n"
		return false
	case !speaking:
		r.Turns++
	}
	return true
}

// addedByCodex reports whether the program itself added a message that it sends as the user's.
func addedByCodex(text string) bool {
	return hasAnyPrefix(text, "<environment_context>", "<user_instructions>", "# AGENTS.md instructions")
}

func hasAnyPrefix(text string, with ...string) bool {
	return slices.ContainsFunc(with, func(start string) bool { return strings.HasPrefix(text, start) })
}

func (responses) items(r Request, t Turn) []any {
	var items []any
	if t.Text != "" {
		items = append(items, object{"type": "message", "id": "msg_" + r.id, "role": "assistant", "status": "completed",
			"content": []any{object{"type": "output_text", "text": t.Text, "annotations": []any{}}}})
	}
	for _, c := range t.calls(r) {
		call := object{"type": "function_call", "id": "fc_" + c.id, "call_id": c.id, "name": c.Tool, "arguments": c.arguments(), "status": "completed"}
		if space, name, is := strings.Cut(c.Tool, "."); is {
			call["namespace"], call["name"] = space, name
		}
		items = append(items, call)
	}
	return items
}

func (p responses) body(r Request, t Turn) any {
	u := t.usage()
	out := object{"id": "resp_" + r.id, "object": "response", "created_at": 1, "model": r.Model, "status": "completed", "output": p.items(r, t),
		"usage": object{"input_tokens": u.Input + u.Cached, "input_tokens_details": object{"cached_tokens": u.Cached},
			"output_tokens": u.Output, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": u.Input + u.Cached + u.Output}}
	if t.Length {
		out["status"], out["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	}
	return out
}

func (p responses) events(r Request, t Turn) []event {
	var events []event
	add := func(kind string, more object) {
		more["type"] = kind
		more["sequence_number"] = len(events)
		events = append(events, event{kind, more})
	}
	add("response.created", object{"response": object{"id": "resp_" + r.id, "object": "response", "status": "in_progress", "model": r.Model}})
	for n, i := range p.items(r, t) {
		add("response.output_item.added", object{"output_index": n, "item": announcedItem(i.(object))})
		if i.(object)["type"] == "message" {
			for _, piece := range halves(t.Text) {
				add("response.output_text.delta", object{"output_index": n, "item_id": "msg_" + r.id, "content_index": 0, "delta": piece})
			}
		}
		add("response.output_item.done", object{"output_index": n, "item": i})
	}
	kind := "response.completed"
	if t.Length {
		kind = "response.incomplete"
	}
	add(kind, object{"response": p.body(r, t)})
	return events
}

// announcedItem returns an item as it is announced, before it has content.
func announcedItem(i object) object {
	o := maps.Clone(i)
	o["status"] = "in_progress"
	if o["type"] == "message" {
		o["content"] = []any{}
	} else {
		o["arguments"] = ""
	}
	return o
}

func (responses) errorBody(f Fail) any { return openAIFailure(f) }
