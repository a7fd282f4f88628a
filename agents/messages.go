package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// messages is Anthropic's Messages API.
type messages struct{ server *server }

// maxTokens is the max_tokens of a request, which the protocol requires. It is larger than any answer that is accepted, and
// smaller than the limit of any current model.
const maxTokens = 32_000

func newMessages(api API, key string, s *server) wire {
	header := http.Header{"Anthropic-Version": {"2023-06-01"}}
	if key != "" {
		header.Set("X-Api-Key", key)
	}
	return messages{s.withEndpoint(cmp.Or(api.BaseURL, "https://api.anthropic.com"), "v1/messages", header)}
}

// messagesRequest is the body of POST /v1/messages.
type messagesRequest struct {
	Model     string           `json:"model"`
	MaxTokens int              `json:"max_tokens"`
	Stream    bool             `json:"stream"`
	System    []contentBlock   `json:"system,omitempty"`
	Messages  []contentMessage `json:"messages"`
	Tools     []messagesTool   `json:"tools,omitempty"`
	Choice    *typed           `json:"tool_choice,omitempty"`
	Output    *outputConfig    `json:"output_config,omitempty"`
}

// typed is an object with nothing but a type.
type typed struct {
	Type string `json:"type"`
}

type contentMessage struct {
	Role    string         `json:"role"`
	Content []contentBlock `json:"content"`
}

// contentBlock is a text, a tool call or a tool result. The fields of the other kinds are left out.
type contentBlock struct {
	Type string  `json:"type"`
	Text *string `json:"text,omitempty"`

	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`

	Answers string         `json:"tool_use_id,omitempty"`
	Failed  *bool          `json:"is_error,omitempty"`
	Content []contentBlock `json:"content,omitempty"`

	Cache *typed `json:"cache_control,omitempty"`
}

type messagesTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input_schema"`
}

type outputConfig struct {
	Format struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	} `json:"format"`
}

// messagesEvent is an event of the answer.
type messagesEvent struct {
	Type    string
	Message struct{ Usage claudeUsage }
	Block   struct{ Type, Text, ID, Name string } `json:"content_block"`
	Delta   struct {
		Text    string
		Input   string                       `json:"partial_json"`
		Stop    string                       `json:"stop_reason"`
		Details struct{ Explanation string } `json:"stop_details"`
	}
	Usage claudeUsage
}

func (m messages) ask(ctx context.Context, q question) (t turn, err error) {
	var b turnBuilder
	err = m.server.ask(ctx, m.request(q), func(data []byte) (done bool, err error) {
		var e messagesEvent
		if err := decodeEventData(data, &e); err != nil {
			return false, err
		}
		m.take(e, &t, &b)
		return e.Type == "message_stop", b.answerTooLong()
	})
	err = b.finish(&t, err)
	return t, err
}

func (messages) take(e messagesEvent, t *turn, b *turnBuilder) {
	switch e.Type {
	case "message_start":
		t.usage, t.cacheWritten = e.Message.Usage.usage(), e.Message.Usage.Created
	case "content_block_start":
		b.text.WriteString(e.Block.Text)
		if e.Block.Type == "tool_use" {
			b.beginCall(e.Block.ID, e.Block.Name)
		}
	case "content_block_delta":
		b.text.WriteString(e.Delta.Text)
		b.addInput(e.Delta.Input)
	case "message_delta":
		t.stop = e.Delta.Stop
		b.explanation.WriteString(e.Delta.Details.Explanation)
		t.usage = finalUsage(t.usage, e.Usage.usage())
	}
}

// finalUsage returns the usage at the end of an answer. The last event reports it in whole or in part.
func finalUsage(before, after trellis.Usage) trellis.Usage {
	if after.InputTokens+after.CachedTokens == 0 {
		after.InputTokens, after.CachedTokens = before.InputTokens, before.CachedTokens
	}
	return after
}

func (m messages) request(q question) messagesRequest {
	r := messagesRequest{Model: q.model, MaxTokens: maxTokens, Stream: true}
	if q.system != "" {
		r.System = []contentBlock{textBlock(q.system)}
	}
	for _, t := range q.tools {
		r.Tools = append(r.Tools, messagesTool{t.name, t.description, t.input})
	}
	if q.toolLimitReached && q.tools != nil {
		r.Choice = &typed{"none"}
	}
	if q.schema != nil {
		r.Output = &outputConfig{}
		r.Output.Format.Type, r.Output.Format.Schema = "json_schema", q.schema
	}
	for _, said := range q.messages {
		r.Messages = append(r.Messages, m.message(said))
	}
	if content := r.Messages[len(r.Messages)-1].Content; q.tools != nil && len(content) > 0 { // every round sends all rounds before it again
		content[len(content)-1].Cache = &typed{"ephemeral"}
	}
	return r
}

func (messages) message(said message) contentMessage {
	m := contentMessage{Role: "user"}
	if said.Role == roleModel {
		m.Role = "assistant"
	}
	if said.Text != "" {
		m.Content = append(m.Content, textBlock(said.Text))
	}
	for _, c := range said.Calls {
		m.Content = append(m.Content, contentBlock{Type: "tool_use", ID: c.ID, Name: c.Name, Input: c.Input})
	}
	for _, r := range said.Results {
		m.Content = append(m.Content, contentBlock{Type: "tool_result", Answers: r.ID, Failed: &r.Failed, Content: []contentBlock{textBlock(r.Text)}})
	}
	return m
}

func textBlock(text string) contentBlock {
	return contentBlock{Type: "text", Text: &text}
}
