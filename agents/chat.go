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

// wire is a protocol to talk to models.
type wire interface {
	// ask sends a question and reads the answer as it comes. Next to an error stands what came before it.
	ask(ctx context.Context, q question) (turn, error)
}

// question is a conversation that waits for the model.
type question struct {
	model, system string
	messages      []message
	tools         []tool
	closed        bool            // the tools were used enough: the model has to answer
	schema        json.RawMessage // nil: text
}

// turn is what the model said to it.
type turn struct {
	text  string
	calls []toolCall
	stop  string // why it ended, in the provider's words; "" when it broke off
	why   string // more words of the provider's for it
	usage trellis.Usage

	written int64 // tokens of the input that were written to the provider's cache
}

// chat is the conversation of one run.
type chat struct {
	wire     wire
	question question
	talk     *talk
	files    *files
	tally    *tally
	redact   func(string) string
	used     trellis.Usage
}

// run goes on until the model answers instead of calling tools.
func (c *chat) run(ctx context.Context, prompt string) error {
	c.question.messages = append(c.talk.Messages, message{Role: byUser, Text: prompt})
	for {
		t, err := c.ask(ctx)
		if err == nil && t.stop == "" {
			err = fail(trellis.AgentProtocol, "the answer breaks off, or is none")
		}
		if err != nil {
			c.spend(t)
			return c.failure(err)
		}
		if len(t.calls) == 0 || flaw(t) != nil {
			return c.end(t)
		}
		if err := c.look(ctx, t); err != nil {
			return err
		}
	}
}

// ask asks once more, without the schema, when the server does not take one.
func (c *chat) ask(ctx context.Context) (turn, error) {
	t, err := c.wire.ask(ctx, c.question)
	var refused *refusal
	if c.question.schema != nil && errors.As(err, &refused) && refused.ofRequest() {
		c.question.schema = nil
		c.tally.notice("the server refuses the request with an answer's schema; it is asked without: " + c.redact(refused.Error()))
		t, err = c.wire.ask(ctx, c.question)
	}
	t.text = c.redact(strings.ToValidUTF8(t.text, "\uFFFD"))
	if strings.TrimSpace(t.text) == "" {
		t.text = "" // which not every server wants to hear again
	}
	return t, err
}

// failure is what an error of the server's or the network's means.
func (c *chat) failure(err error) error {
	var known *flow.Failure
	var refused *refusal
	var broken *brokenOff
	f := fail(trellis.AgentExit, "asking the model: %s", lastLines(err.Error()))
	switch {
	case errors.As(err, &known):
		f = known
	case errors.As(err, &refused):
		f = refused.failure()
	case errors.As(err, &broken):
		f = broken.failure()
	case unreachable(err):
		f = fail(trellis.ProviderDown, "asking the model: %s", lastLines(err.Error()))
	case errors.As(err, new(*json.SyntaxError)):
		f = fail(trellis.AgentProtocol, "the answer is not what the protocol says: %s", err)
	}
	f.Detail = c.redact(f.Detail)
	return f
}

// unreachable reports whether the network failed.
func unreachable(err error) bool {
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return false
	case errors.As(err, new(net.Error)), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return true
	}
	return false
}

// flaw is what keeps an answer that came to its end from being one; nil when nothing does.
func flaw(t turn) *flow.Failure {
	switch t.stop {
	case "max_tokens", "length":
		return fail(trellis.AgentProtocol, "the answer is cut off (%s): the model said all it may say at once", t.stop)
	case "model_context_window_exceeded":
		return fail(trellis.ContextOverflow, "prompt and answer together are longer than the model takes")
	case "refusal", "content_filter":
		return fail(trellis.AgentProtocol, "the model refuses to answer (%s) %s", t.stop, lastLines(t.why+t.text))
	}
	return nil
}

// spend counts what a turn used.
func (c *chat) spend(t turn) {
	if t.usage == (trellis.Usage{}) {
		return
	}
	c.used = c.used.Add(c.tally.priced(c.question.model, t.usage, t.written))
	c.tally.usage(c.used)
}

// look makes the tool calls of a turn.
func (c *chat) look(ctx context.Context, t turn) error {
	c.tally.text(t.text)
	c.spend(t)
	if c.question.closed {
		return c.files.overrun()
	}
	answers := message{Role: byTools}
	for _, call := range t.calls {
		c.tally.tool(call.Name, json.RawMessage(c.redact(string(call.Input))))
		text, err := c.files.use(ctx, call)
		if errors.Is(err, errRefused) {
			c.tally.notice(call.Name + " " + err.Error())
		}
		if err != nil {
			text = err.Error()
		}
		answers.Results = append(answers.Results, toolResult{ID: call.ID, Text: c.redact(text), Failed: err != nil})
	}
	c.question.closed = c.files.spent()
	c.question.messages = append(c.question.messages, message{Role: byModel, Text: t.text, Calls: t.calls}, answers)
	return c.save()
}

// end takes the last turn.
func (c *chat) end(t turn) error {
	c.spend(t)
	c.tally.text(t.text)
	c.tally.result.Text, c.tally.result.Stop = t.text, t.stop
	wrong := flaw(t)
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
	c.question.messages = append(c.question.messages, message{Role: byModel, Text: t.text})
	return c.save()
}

func (c *chat) save() error {
	c.talk.Messages = c.question.messages
	return c.talk.save(c.redact)
}

// isObject reports whether text is a JSON object.
func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text))
}
