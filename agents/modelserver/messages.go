package modelserver

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// messages is the Anthropic messages protocol.
type messages struct{}

// answerTool is the tool with which claude wants an answer to be handed in if it has a schema.
const answerTool = "StructuredOutput"

func (messages) path() string { return "/v1/messages" }

func (messages) parse(body []byte) (Request, error) {
	var in struct {
		Model    string
		Stream   bool
		System   content
		Messages []struct {
			Role    string
			Content content
		}
		Tools []struct{ Name string }
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, err
	}
	r := Request{Wire: Messages, Model: in.Model, Stream: in.Stream, System: in.System.text() + "\n"}
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, t.Name)
	}
	names := map[string]string{} // tool names by call id
	for _, m := range in.Messages {
		switch m.Role {
		case "assistant":
			r.Turns++
			m.Content.addToolNames(names)
		case "user":
			r.addUserMessage(m.Content, names)
		default:
			r.System += m.Content.text() + "\n"
		}
	}
	r.Dir = workingDir(r.System)
	return r, nil
}

func (c content) addToolNames(into map[string]string) {
	for _, p := range c {
		if p.Type == "tool_use" {
			into[p.ID] = p.Name
		}
	}
}

// addUserMessage adds one message sent as the user's to r: a prompt, or results of tools. Either may contain reminders that the program
// adds by itself.
func (r *Request) addUserMessage(c content, names map[string]string) {
	r.answerAccepted = false
	var prompt []string
	for _, p := range c {
		switch {
		case p.Type == "tool_result":
			r.ToolResults = append(r.ToolResults, p.Content.text())
			r.answerAccepted = names[p.ToolUse] == answerTool && !p.IsError
		case addedByClaude(p.Text):
			r.System += p.Text + "\n"
		case p.Text != "":
			prompt = append(prompt, p.Text)
		}
	}
	if prompt != nil {
		r.Prompt, r.Turns, r.ToolResults = strings.Join(prompt, "\n"), 0, nil
	}
}

// addedByClaude reports whether the program itself added a text that it sends as the user's: a reminder, or a nudge after an
// answer that was empty or too long.
func addedByClaude(text string) bool {
	return hasAnyPrefix(strings.TrimSpace(text), "<system-reminder>", "[Your previous response had no visible output", "Output token limit hit.")
}

// withAnswerCall turns a JSON answer into a call of answerTool if the client offers that tool.
func withAnswerCall(r Request, t Turn) Turn {
	var answer map[string]any
	if !slices.Contains(r.Tools, answerTool) || json.Unmarshal([]byte(t.Text), &answer) != nil {
		return t
	}
	t.Text = ""
	t.Calls = append(slices.Clone(t.Calls), Call{answerTool, answer})
	return t
}

func (messages) blocks(r Request, t Turn) []object {
	var blocks []object
	if t.Text != "" {
		blocks = append(blocks, object{"type": "text", "text": t.Text})
	}
	for _, c := range t.calls(r) {
		blocks = append(blocks, object{"type": "tool_use", "id": "toolu_" + c.id, "name": c.Tool, "input": c.Input})
	}
	return blocks
}

func (p messages) body(r Request, t Turn) any {
	t = withAnswerCall(r, t)
	blocks := p.blocks(r, t)
	if blocks == nil {
		blocks = []object{}
	}
	return object{"id": "msg_" + r.id, "type": "message", "role": "assistant", "model": r.Model, "content": blocks,
		"stop_reason": stopReason(t), "stop_sequence": nil, "usage": messagesUsage(t.usage())}
}

func (p messages) events(r Request, t Turn) []event {
	t = withAnswerCall(r, t)
	var events []event
	add := func(kind string, more object) {
		more["type"] = kind
		events = append(events, event{kind, more})
	}
	start := messagesUsage(t.usage())
	start["output_tokens"] = 1
	add("message_start", object{"message": object{"id": "msg_" + r.id, "type": "message", "role": "assistant", "model": r.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": start}})
	for n, b := range p.blocks(r, t) {
		if b["type"] == "text" {
			add("content_block_start", object{"index": n, "content_block": object{"type": "text", "text": ""}})
			for _, piece := range halves(t.Text) {
				add("content_block_delta", object{"index": n, "delta": object{"type": "text_delta", "text": piece}})
			}
		} else {
			arguments := Call{Input: b["input"].(map[string]any)}.arguments()
			add("content_block_start", object{"index": n, "content_block": object{"type": "tool_use", "id": b["id"], "name": b["name"], "input": object{}}})
			add("content_block_delta", object{"index": n, "delta": object{"type": "input_json_delta", "partial_json": arguments}})
		}
		add("content_block_stop", object{"index": n})
	}
	add("message_delta", object{"delta": object{"stop_reason": stopReason(t), "stop_sequence": nil}, "usage": messagesUsage(t.usage())})
	add("message_stop", object{})
	return events
}

func stopReason(t Turn) string { return t.stopReason("max_tokens", "tool_use", "end_turn") }

func messagesUsage(u Usage) object {
	return object{"input_tokens": u.Input - u.Written, "output_tokens": u.Output, "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": u.Written}
}

func (messages) errorBody(f Fail) any {
	code := cmp.Or(f.Code, map[int]string{400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error", 500: "api_error"}[f.Status])
	return object{"type": "error", "error": object{"type": code, "message": f.message()}}
}
