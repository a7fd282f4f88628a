package agents

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// completions is OpenAI's chat completions API, which many servers speak.
type completions struct{ server *server }

func newCompletions(api API, key string, s *server) wire {
	header := http.Header{}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	return completions{s.withEndpoint(cmp.Or(api.BaseURL, "https://api.openai.com/v1"), "chat/completions", header)}
}

// chatRequest is the body of POST /chat/completions.
type chatRequest struct {
	Model    string        `json:"model"`
	Messages []chatMessage `json:"messages"`
	Stream   bool          `json:"stream"`
	Options  struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools  []chatTool  `json:"tools,omitempty"`
	Choice string      `json:"tool_choice,omitempty"`
	Format *chatFormat `json:"response_format,omitempty"`
}

type chatMessage struct {
	Role    string     `json:"role"`
	Content *string    `json:"content,omitempty"`
	Calls   []chatCall `json:"tool_calls,omitempty"`
	Answers string     `json:"tool_call_id,omitempty"`
}

// chatCall is a tool call. In a request it is complete, in an answer it comes in pieces.
type chatCall struct {
	Index    int64  `json:"index,omitempty"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

// arguments is the input of a tool call: a JSON object encoded in a string. Some servers send the object itself.
type arguments string

func (a *arguments) UnmarshalJSON(data []byte) error {
	var inText string
	if err := json.Unmarshal(data, &inText); err != nil {
		inText = string(data)
	}
	*a = arguments(inText)
	return nil
}

// tokens is a number of tokens, which some servers send with a fraction or as a string.
type tokens int64

func (t *tokens) UnmarshalJSON(data []byte) error {
	if n, err := strconv.ParseFloat(string(bytes.Trim(data, `"`)), 64); err == nil && n >= 0 && n < 1e15 {
		*t = tokens(n)
	}
	return nil
}

type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

type chatFormat struct {
	Type   string `json:"type"`
	Schema struct {
		Name   string          `json:"name"`
		Strict bool            `json:"strict"`
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

// chatChunk is an event of the answer.
type chatChunk struct {
	Choices []struct {
		Delta struct {
			Content, Refusal string
			Calls            []chatCall `json:"tool_calls"`
		}
		Finish string `json:"finish_reason"`
	}
	Usage struct {
		Input  tokens `json:"prompt_tokens"`
		Output tokens `json:"completion_tokens"`
		Of     struct {
			Cached tokens `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
}

func (c completions) ask(ctx context.Context, q question) (t turn, err error) {
	var b turnBuilder
	err = c.server.ask(ctx, c.request(q), func(data []byte) (done bool, err error) {
		if string(data) == "[DONE]" {
			return true, nil
		}
		var chunk chatChunk
		if err := decodeEventData(data, &chunk); err != nil {
			return false, err
		}
		c.take(chunk, &t, &b)
		return t.stop != "" && t.usage.Tokens() > 0, b.answerTooLong() // some servers don't close the connection after that
	})
	err = b.finish(&t, err)
	return t, err
}

func (completions) take(chunk chatChunk, t *turn, b *turnBuilder) {
	if u := chunk.Usage; u.Input+u.Output > 0 {
		t.usage = trellis.Usage{InputTokens: int64(u.Input - u.Of.Cached), OutputTokens: int64(u.Output), CachedTokens: int64(u.Of.Cached)}
	}
	for _, choice := range chunk.Choices {
		b.text.WriteString(choice.Delta.Content)
		b.explanation.WriteString(choice.Delta.Refusal)
		for _, call := range choice.Delta.Calls {
			b.addCallPiece(call.Index, call.ID, call.Function.Name, string(call.Function.Arguments))
		}
		if choice.Finish != "" {
			t.stop = choice.Finish
		}
	}
	if t.stop != "" && b.explanation.Len() > 0 {
		t.stop = "refusal"
	}
}

func (c completions) request(q question) chatRequest {
	r := chatRequest{Model: q.model, Stream: true}
	r.Options.Usage = true
	for _, t := range q.tools {
		tool := chatTool{Type: "function"}
		tool.Function.Name, tool.Function.Description, tool.Function.Parameters = t.name, t.description, t.input
		r.Tools = append(r.Tools, tool)
	}
	if q.toolLimitReached && q.tools != nil {
		r.Choice = "none"
	}
	if q.schema != nil {
		r.Format = &chatFormat{Type: "json_schema"}
		r.Format.Schema.Name, r.Format.Schema.Strict, r.Format.Schema.Schema = "answer", true, q.schema
	}
	if q.system != "" {
		r.Messages = append(r.Messages, chatMessage{Role: "system", Content: &q.system})
	}
	for _, said := range q.messages {
		r.Messages = append(r.Messages, c.messages(said)...)
	}
	return r
}

func (completions) messages(said message) (list []chatMessage) {
	switch said.Role {
	case roleUser:
		return append(list, chatMessage{Role: "user", Content: &said.Text})
	case roleTools:
		for _, r := range said.Results {
			list = append(list, chatMessage{Role: "tool", Content: &r.Text, Answers: r.ID})
		}
		return list
	}
	model := chatMessage{Role: "assistant"}
	if said.Text != "" {
		model.Content = &said.Text
	}
	for _, c := range said.Calls {
		call := chatCall{ID: c.ID, Type: "function"}
		call.Function.Name, call.Function.Arguments = c.Name, arguments(c.Input)
		model.Calls = append(model.Calls, call)
	}
	return append(list, model)
}
