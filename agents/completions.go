package agents

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// completions is OpenAI's chat completions API, which many servers speak.
type completions struct{ service openai.ChatCompletionService }

func newCompletions(api API, key string, client *http.Client, s *server) wire {
	address := api.BaseURL
	if address == "" {
		address = "https://api.openai.com/v1"
	}
	options := []option.RequestOption{
		option.WithBaseURL(address), option.WithHTTPClient(client), option.WithMaxRetries(0), option.WithMiddleware(s.pass),
	}
	if key != "" {
		options = append(options, option.WithAPIKey(key))
	}
	return completions{openai.NewChatCompletionService(options...)}
}

func (c completions) ask(ctx context.Context, q question) (t turn, err error) {
	stream := c.service.NewStreaming(ctx, c.params(q))
	defer stream.Close()
	var b turnBuilder
	for err == nil && stream.Next() {
		if c.take(stream.Current(), &t, &b); t.stop != "" && t.usage.Tokens() > 0 {
			break // some servers keep the connection
		}
		err = b.tooLong()
	}
	b.finish(&t)
	if err == nil && t.stop == "" { // else all was said, whatever became of the connection
		err = stream.Err()
	}
	return t, err
}

func (completions) take(chunk openai.ChatCompletionChunk, t *turn, b *turnBuilder) {
	if u := chunk.Usage; u.PromptTokens+u.CompletionTokens > 0 {
		cached := u.PromptTokensDetails.CachedTokens
		t.usage = trellis.Usage{InputTokens: u.PromptTokens - cached, OutputTokens: u.CompletionTokens, CachedTokens: cached}
	}
	for _, choice := range chunk.Choices {
		b.text.WriteString(choice.Delta.Content)
		b.why.WriteString(choice.Delta.Refusal)
		for _, call := range choice.Delta.ToolCalls {
			b.piece(call.Index, call.ID, call.Function.Name, call.Function.Arguments)
		}
		if choice.FinishReason != "" {
			t.stop = choice.FinishReason
		}
	}
	if t.stop != "" && b.why.Len() > 0 {
		t.stop = "refusal"
	}
}

func (c completions) params(q question) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{Model: q.model}
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	for _, t := range q.tools {
		var input shared.FunctionParameters
		json.Unmarshal(t.input, &input) //nolint:errcheck // a literal of files.go, which the tests read
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.name, Description: openai.String(t.about), Parameters: input,
		}))
	}
	if q.closed && q.tools != nil {
		p.ToolChoice.OfAuto = openai.String("none")
	}
	if q.schema != nil {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Strict: openai.Bool(true), Schema: q.schema},
		}
	}
	if q.system != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(q.system))
	}
	for _, said := range q.messages {
		p.Messages = append(p.Messages, c.messages(said)...)
	}
	return p
}

func (completions) messages(said message) (list []openai.ChatCompletionMessageParamUnion) {
	switch said.Role {
	case byUser:
		return append(list, openai.UserMessage(said.Text))
	case byTools:
		for _, r := range said.Results {
			list = append(list, openai.ToolMessage(r.Text, r.ID))
		}
		return list
	}
	var model openai.ChatCompletionAssistantMessageParam
	if said.Text != "" {
		model.Content.OfString = openai.String(said.Text)
	}
	for _, c := range said.Calls {
		model.ToolCalls = append(model.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
			ID: c.ID, Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: string(c.Input)},
		}})
	}
	return append(list, openai.ChatCompletionMessageParamUnion{OfAssistant: &model})
}
