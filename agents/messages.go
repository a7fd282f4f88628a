package agents

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// messages is Anthropic's Messages API.
type messages struct{ service anthropic.MessageService }

// maxTokens is the longest answer that is asked for, which the protocol wants to be said. It is more than any
// answer that is taken, and less than any current model's limit.
const maxTokens = 32_000

func newMessages(api API, key string, client *http.Client, s *server) wire {
	address := api.BaseURL
	if address == "" {
		address = "https://api.anthropic.com"
	}
	options := []option.RequestOption{
		option.WithBaseURL(address), option.WithHTTPClient(client), option.WithMaxRetries(0), option.WithMiddleware(s.pass),
	}
	if key != "" {
		options = append(options, option.WithAPIKey(key))
	}
	return messages{anthropic.NewMessageService(options...)}
}

func (m messages) ask(ctx context.Context, q question) (t turn, err error) {
	stream := m.service.NewStreaming(ctx, m.params(q))
	defer stream.Close()
	var b turnBuilder
	for err == nil && stream.Next() {
		e := stream.Current()
		if m.take(e, &t, &b); e.Type == "message_stop" {
			break
		}
		err = b.tooLong()
	}
	b.finish(&t)
	if err == nil && t.stop == "" { // else all was said, whatever became of the connection
		err = stream.Err()
	}
	return t, err
}

func (messages) take(e anthropic.MessageStreamEventUnion, t *turn, b *turnBuilder) {
	switch e.Type {
	case "message_start":
		u := e.Message.Usage
		t.usage = claudeUsage{u.InputTokens, u.OutputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens}.usage()
		t.written = u.CacheCreationInputTokens
	case "content_block_start":
		b.text.WriteString(e.ContentBlock.Text)
		if e.ContentBlock.Type == "tool_use" {
			b.begin(e.ContentBlock.ID, e.ContentBlock.Name)
		}
	case "content_block_delta":
		b.text.WriteString(e.Delta.Text)
		b.input(e.Delta.PartialJSON)
	case "message_delta":
		t.stop = string(e.Delta.StopReason)
		b.why.WriteString(e.Delta.StopDetails.Explanation)
		t.usage = updated(t.usage, e.Usage)
	}
}

// updated is the usage at the end of an answer, which the last event tells in whole or in part.
func updated(before trellis.Usage, u anthropic.MessageDeltaUsage) trellis.Usage {
	after := claudeUsage{u.InputTokens, u.OutputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens}.usage()
	if after.InputTokens+after.CachedTokens == 0 {
		after.InputTokens, after.CachedTokens = before.InputTokens, before.CachedTokens
	}
	return after
}

func (m messages) params(q question) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{Model: anthropic.Model(q.model), MaxTokens: maxTokens}
	if q.system != "" {
		p.System = []anthropic.TextBlockParam{{Text: q.system}}
	}
	for _, t := range q.tools {
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
			Name: t.name, Description: anthropic.String(t.about), InputSchema: param.Override[anthropic.ToolInputSchemaParam](t.input),
		}})
	}
	if q.closed && q.tools != nil {
		none := anthropic.NewToolChoiceNoneParam()
		p.ToolChoice.OfNone = &none
	}
	if q.schema != nil {
		p.OutputConfig.Format = param.Override[anthropic.JSONOutputFormatParam](object{"type": "json_schema", "schema": q.schema})
	}
	for _, said := range q.messages {
		p.Messages = append(p.Messages, m.message(said))
	}
	if q.tools != nil { // every round sends all of the rounds before
		content := p.Messages[len(p.Messages)-1].Content
		*content[len(content)-1].GetCacheControl() = anthropic.NewCacheControlEphemeralParam()
	}
	return p
}

// object is a JSON object in the making.
type object map[string]any

func (messages) message(said message) anthropic.MessageParam {
	var blocks []anthropic.ContentBlockParamUnion
	if said.Text != "" {
		blocks = append(blocks, anthropic.NewTextBlock(said.Text))
	}
	for _, c := range said.Calls {
		blocks = append(blocks, anthropic.NewToolUseBlock(c.ID, json.RawMessage(c.Input), c.Name))
	}
	for _, r := range said.Results {
		blocks = append(blocks, anthropic.NewToolResultBlock(r.ID, r.Text, r.Failed))
	}
	if said.Role == byModel {
		return anthropic.NewAssistantMessage(blocks...)
	}
	return anthropic.NewUserMessage(blocks...)
}
