package modelserver

import (
	"cmp"
	"encoding/json"
	"time"
)

// chat is the OpenAI chat completions protocol.
type chat struct{}

func (chat) path() string { return "/v1/chat/completions" }

func (chat) parse(body []byte) (Request, error) {
	var in struct {
		Model    string
		Stream   bool
		Messages []struct {
			Role    string
			Content content
		}
		Tools []struct{ Function struct{ Name string } }
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, err
	}
	r := Request{Wire: Chat, Model: in.Model, Stream: in.Stream}
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, t.Function.Name)
	}
	for _, m := range in.Messages {
		switch m.Role {
		case "system", "developer":
			r.System += m.Content.text() + "\n"
		case "user":
			r.Prompt, r.Turns, r.ToolResults = m.Content.text(), 0, nil
		case "assistant":
			r.Turns++
		case "tool":
			r.ToolResults = append(r.ToolResults, m.Content.text())
		}
	}
	r.Dir = workingDir(r.System)
	return r, nil
}

func (chat) events(r Request, t Turn) []event {
	chunk := func(delta object, finish any) event {
		return event{data: object{"id": "chatcmpl-" + r.id, "object": "chat.completion.chunk", "created": 1, "model": r.Model,
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}}}
	}
	events := []event{chunk(object{"role": "assistant", "content": ""}, nil)}
	for _, p := range halves(t.Text) {
		events = append(events, chunk(object{"content": p}, nil))
	}
	for i, c := range t.calls(r) {
		events = append(events, chunk(object{"tool_calls": []any{object{"index": i, "id": c.id, "type": "function",
			"function": object{"name": c.Tool, "arguments": c.arguments()}}}}, nil))
	}
	last := chunk(object{}, chatFinish(t))
	last.data.(object)["usage"] = chatUsage(t.usage())
	return append(events, last, event{data: "[DONE]"})
}

func (chat) body(r Request, t Turn) any {
	message := object{"role": "assistant", "content": t.Text}
	var calls []any
	for _, c := range t.calls(r) {
		calls = append(calls, object{"id": c.id, "type": "function", "function": object{"name": c.Tool, "arguments": c.arguments()}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return object{"id": "chatcmpl-" + r.id, "object": "chat.completion", "created": 1, "model": r.Model, "usage": chatUsage(t.usage()),
		"choices": []any{object{"index": 0, "message": message, "finish_reason": chatFinish(t)}}}
}

func (chat) errorBody(f Fail) any { return openAIFailure(f) }

func chatFinish(t Turn) string { return t.stopReason("length", "tool_calls", "stop") }

func chatUsage(u Usage) object {
	return object{"prompt_tokens": u.Input + u.Cached, "completion_tokens": u.Output, "total_tokens": u.Input + u.Cached + u.Output,
		"prompt_tokens_details": object{"cached_tokens": u.Cached}}
}

// openAIFailure returns the body of an error in both OpenAI protocols.
func openAIFailure(f Fail) any {
	code := cmp.Or(f.Code, map[int]string{400: "invalid_request_error", 401: "invalid_api_key", 429: "rate_limit_exceeded"}[f.Status])
	e := object{"message": f.message(), "type": code, "code": code, "param": nil}
	if f.RetryAfter > 0 {
		e["resets_at"] = time.Now().Add(f.RetryAfter).Unix()
	}
	return object{"error": e}
}
