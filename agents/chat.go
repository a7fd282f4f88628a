package agents

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// wire is a protocol for talking to models.
type wire interface {
	// ask sends a question and reads the answer as it arrives. On an error the returned turn holds what came before it.
	ask(ctx context.Context, q question) (turn, error)
}

// question is a conversation in which it is the model's turn.
type question struct {
	model, system    string
	messages         []message
	tools            []tool
	toolLimitReached bool            // the limit of tool calls is used up: the model has to answer
	schema           json.RawMessage // JSON schema of the answer; nil: free text
}

// turn is the model's reply to a question.
type turn struct {
	text        string
	calls       []toolCall
	stop        string // the provider's stop reason; "" if the answer broke off
	explanation string // the provider's explanation of stop
	usage       trellis.Usage

	cacheWritten int64 // input tokens that were written to the provider's cache
}

// chat is the conversation of one run.
type chat struct {
	wire         wire
	question     question
	conversation *conversation
	files        *files
	tally        *tally
	redact       func(string) string
	used         trellis.Usage
}

// run carries out the model's tool calls until the model answers.
func (c *chat) run(ctx context.Context, prompt string) error {
	c.question.messages = append(c.conversation.Messages, message{Role: roleUser, Text: prompt})
	for {
		t, err := c.ask(ctx)
		if err == nil && t.stop == "" {
			err = fail(trellis.AgentProtocol, "the answer breaks off, or is none")
		}
		if err != nil {
			c.addUsage(t)
			return c.failure(err)
		}
		if len(t.calls) == 0 || answerFailure(t) != nil {
			return c.recordAnswer(t)
		}
		if err := c.runTools(ctx, t); err != nil {
			return err
		}
	}
}

// ask sends the question. If the server refuses the request because of the schema, ask sends it again without one.
func (c *chat) ask(ctx context.Context) (turn, error) {
	t, err := c.wire.ask(ctx, c.question)
	var refused *refusal
	if c.question.schema != nil && errors.As(err, &refused) && refused.isInvalidRequest() {
		c.question.schema = nil
		c.tally.notice("the server refuses the request with an answer's schema; it is asked without: " + c.redact(refused.Error()))
		t, err = c.wire.ask(ctx, c.question)
	}
	t.text = c.redact(strings.ToValidUTF8(t.text, "\uFFFD"))
	if strings.TrimSpace(t.text) == "" {
		t.text = "" // some servers reject a blank text in the next request
	}
	return t, err
}

// failure returns the failure that an error of the server or the network means.
func (c *chat) failure(err error) error {
	var known *flow.Failure
	var refused *refusal
	var broken *streamError
	f := fail(trellis.AgentExit, "asking the model: %s", lastLines(err.Error()))
	switch {
	case errors.As(err, &known):
		f = known
	case errors.As(err, &refused):
		f = refused.failure()
	case errors.As(err, &broken):
		f = broken.failure()
	case isNetworkError(err):
		f = fail(trellis.ProviderDown, "asking the model: %s", lastLines(err.Error()))
	case errors.As(err, new(*json.SyntaxError)):
		f = fail(trellis.AgentProtocol, "the answer does not follow the protocol: %s", err)
	}
	f.Detail = c.redact(f.Detail)
	return f
}

// isNetworkError reports whether err means that the network failed.
func isNetworkError(err error) bool {
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return false
	case errors.As(err, new(net.Error)), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return true
	}
	return false
}

// answerFailure returns the failure of a turn that ended but is not a usable answer, and nil if it is one.
func answerFailure(t turn) *flow.Failure {
	switch t.stop {
	case "max_tokens", "length":
		return fail(trellis.AgentProtocol, "the answer is cut off (%s): the model reached its limit for one answer", t.stop)
	case "model_context_window_exceeded":
		return fail(trellis.ContextOverflow, "prompt and answer together are longer than the model takes")
	case "refusal", "content_filter":
		return fail(trellis.AgentProtocol, "the model refuses to answer (%s) %s", t.stop, lastLines(t.explanation+t.text))
	}
	return nil
}

// addUsage adds the usage of a turn to that of the run.
func (c *chat) addUsage(t turn) {
	if t.usage == (trellis.Usage{}) {
		return
	}
	c.used = c.used.Add(c.tally.withEstimatedCost(c.question.model, t.usage, t.cacheWritten))
	c.tally.usage(c.used)
}

// runTools carries out the tool calls of a turn.
func (c *chat) runTools(ctx context.Context, t turn) error {
	c.tally.text(t.text)
	c.addUsage(t)
	if c.question.toolLimitReached {
		return c.files.limitFailure()
	}
	answers := message{Role: roleTools}
	for _, call := range t.calls {
		c.tally.tool(call.Name, json.RawMessage(c.redact(string(call.Input))))
		text, err := c.files.runTool(ctx, call)
		if errors.Is(err, errRefused) {
			c.tally.notice(call.Name + " " + err.Error())
		}
		if err != nil {
			text = err.Error()
		}
		answers.Results = append(answers.Results, toolResult{ID: call.ID, Text: c.redact(text), Failed: err != nil})
	}
	c.question.toolLimitReached = c.files.isUsedUp()
	c.question.messages = append(c.question.messages, message{Role: roleModel, Text: t.text, Calls: t.calls}, answers)
	return c.save()
}

// recordAnswer records the last turn as the answer.
func (c *chat) recordAnswer(t turn) error {
	c.addUsage(t)
	c.tally.text(t.text)
	c.tally.result.Text, c.tally.result.Stop = t.text, t.stop
	wrong := answerFailure(t)
	switch {
	case wrong != nil:
		wrong.Detail = c.redact(wrong.Detail)
		return wrong
	case strings.TrimSpace(t.text) == "":
		return fail(trellis.EmptyOutput, "the model ended well (%s) but said nothing", t.stop)
	}
	if c.question.schema != nil && isObject(t.text) {
		c.tally.result.Answer = json.RawMessage(t.text)
	}
	c.question.messages = append(c.question.messages, message{Role: roleModel, Text: t.text})
	return c.save()
}

func (c *chat) save() error {
	c.conversation.Messages = c.question.messages
	return c.conversation.save(c.redact)
}

// isObject reports whether text is a JSON object.
func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text))
}
