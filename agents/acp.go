package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// acp talks with any program that speaks version 1 of the Agent Client Protocol on its standard streams: one session, one prompt,
// and an answer to each of its permission requests (see [acpPermits]). Sessions are not resumed: programs differ in what they
// keep of them, and some lose them when resuming.
//
// It also decodes the output of an earlier run. Then nothing is sent to a program, see [newACPDecoder].
type acp struct {
	r      Request
	env    []string
	stdin  *stdinQueue
	hangUp func() // ends a program that was told to stop; set by talk

	decodeOnly bool // answers no permission request: the recorded output does not say which requests were allowed

	auth          []acpMethod
	triedSignIn   bool // a sign-in was tried
	session       string
	openRequest   int64 // number of the request that the program has not answered yet; 0: none
	promptPending bool  // the prompt was sent and is not answered yet
	stopped       bool  // the run was called off
	text          strings.Builder
	tools         map[string]*acpTool
	usage         trellis.Usage
}

// acpTool is a tool call that the program reported.
type acpTool struct {
	acpToolCall
	paths []string // paths that its reports named so far
	ended bool
}

// Each kind of request has a fixed number, so that a decoder of recorded output can attribute the answers too.
const (
	acpAskInitialize = 1 + iota
	acpAskSession
	acpAskAuthenticate
	acpAskModel
	acpAskPrompt
)

const (
	acpAuthRequired     = -32000 // the protocol's error code for clients that are not signed in
	acpResourceNotFound = -32002
)

// maxQuotedRequest is the largest number of bytes of a permission request that a message quotes.
const maxQuotedRequest = 200

func newACP(r Request, env []string) *acp {
	return &acp{r: r, env: env, stdin: newStdinQueue(), hangUp: func() {}, tools: map[string]*acpTool{}}
}

// newACPDecoder returns an acp that decodes the output of an earlier run and sends nothing.
func newACPDecoder() *acp {
	c := newACP(Request{}, nil)
	c.decodeOnly = true
	c.stdin.end()
	return c
}

// talk begins the conversation. The returned context, in which the program has to run, ends up to patience later than ctx, so
// that the program has time to stop and to report its usage. See [talker].
func (c *acp) talk(ctx context.Context, mu sync.Locker, patience time.Duration) (context.Context, func()) {
	running, end := context.WithCancelCause(context.WithoutCancel(ctx))
	c.hangUp = func() { end(context.Cause(ctx)) }
	calledOff := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if c.callOff() {
			time.AfterFunc(patience, c.hangUp)
		} else {
			c.hangUp()
		}
	})
	c.sendRequest(acpAskInitialize, "initialize", acpInitialize{Version: acpVersion})
	return running, func() {
		calledOff()
		end(nil)
		c.stdin.end()
	}
}

// callOff asks the program to stop, and reports whether a prompt is under way whose end is worth waiting for.
func (c *acp) callOff() bool {
	c.stopped = true
	if c.promptPending {
		c.send(&jsonrpc.Request{Method: "session/cancel", Params: acpJSON(acpCancel{c.session})})
	}
	return c.promptPending
}

func (c *acp) sendRequest(number int, method string, params any) {
	c.openRequest = int64(number)
	c.send(&jsonrpc.Request{ID: acpRequestID(number), Method: method, Params: acpJSON(params)})
}

func (c *acp) send(m jsonrpc.Message) {
	line, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		panic(err) // can't happen: the value is ours
	}
	c.stdin.add(append(line, '\n'))
}

func acpRequestID(n int) jsonrpc.ID {
	id, err := jsonrpc.MakeID(float64(n))
	if err != nil {
		panic(err)
	}
	return id
}

func acpJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // can't happen: the value is ours
	}
	return data
}

func (c *acp) line(line string, t *tally) bool {
	m, err := jsonrpc.DecodeMessage([]byte(line))
	if err != nil {
		return false
	}
	switch m := m.(type) {
	case *jsonrpc.Response:
		c.handleResponse(m, t)
	case *jsonrpc.Request:
		switch {
		case m.Method == "session/update":
			c.handleUpdate(m.Params, t)
		case m.Method == "session/request_permission" && m.IsCall():
			c.answerPermission(m, t)
		case m.IsCall():
			c.send(&jsonrpc.Response{ID: m.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "not offered: " + m.Method}})
		}
	}
	return true
}

// handleResponse handles a response and sends the next request. It ignores unexpected responses, which could have a prompt sent twice.
func (c *acp) handleResponse(m *jsonrpc.Response, t *tally) {
	number, _ := m.ID.Raw().(int64)
	if number != c.openRequest && !c.decodeOnly { // a decoder does not know the requests that were made
		return
	}
	c.openRequest = 0
	if refusal, ok := errors.AsType[*jsonrpc.Error](m.Error); ok {
		c.handleError(number, refusal, t)
		return
	}
	switch number {
	case acpAskInitialize:
		var got acpInitialized
		if decode(string(m.Result), &got); got.Version != acpVersion {
			c.finishWithFailure(refusedRequest(fmt.Sprintf("the program speaks version %d of the Agent Client Protocol, not %d", got.Version, acpVersion)), t)
			return
		}
		c.auth = got.Auth
		c.newSession()
	case acpAskAuthenticate:
		c.newSession()
	case acpAskSession:
		c.sessionStarted(m.Result, t)
	case acpAskModel:
		c.prompt()
	case acpAskPrompt:
		c.handlePromptAnswer(m.Result, t)
	}
}

func (c *acp) newSession() {
	c.sendRequest(acpAskSession, "session/new", acpNewSession{Dir: c.r.Dir, Servers: []struct{}{}})
}

// sessionStarted handles the answer to session/new: it stores the session id and sends the prompt, or first sets the model if the
// request names one.
func (c *acp) sessionStarted(result json.RawMessage, t *tally) {
	var s acpSession
	if decode(string(result), &s); s.ID == "" {
		c.finishWithFailure(fail(trellis.AgentProtocol, "the program began a session without a name"), t)
		return
	}
	c.session = s.ID
	at := slices.IndexFunc(s.Options, func(o acpConfigOption) bool { return o.Category == "model" })
	switch {
	case c.r.Model == "":
		if at >= 0 {
			t.result.Model, _ = s.Options[at].Current.(string)
		} else if s.Models != nil {
			t.result.Model = s.Models.Current
		}
		c.prompt()
	case at >= 0:
		c.sendRequest(acpAskModel, "session/set_config_option", acpSetOption{s.ID, s.Options[at].ID, c.r.Model})
	case s.Models != nil:
		c.sendRequest(acpAskModel, "session/set_model", acpSetModel{s.ID, c.r.Model})
	default:
		c.finishWithFailure(refusedRequest(fmt.Sprintf("the program does not let Trellis choose its model, but %s is configured: name the model in its command instead of agents.roles", c.r.Model)), t)
	}
}

func (c *acp) prompt() {
	c.promptPending = true
	c.sendRequest(acpAskPrompt, "session/prompt", acpPrompt{c.session, []acpText{{"text", acpPromptText(c.r)}}})
}

// acpPromptText returns the prompt, changed so that it does not begin like a command of the program, with a slash or a dollar sign.
func acpPromptText(r Request) string {
	words := r.prompt()
	if first := strings.TrimSpace(words); strings.HasPrefix(first, "/") || strings.HasPrefix(first, "$") {
		return "The request:\n\n" + words
	}
	return words
}

// handleError handles an error response. If a sign-in may cure it, handleError tries one, once.
func (c *acp) handleError(number int64, e *jsonrpc.Error, t *tally) {
	if number == acpAskSession && e.Code == acpAuthRequired && !c.triedSignIn {
		c.triedSignIn = true
		if method := c.unattendedSignIn(); method != "" {
			t.notice("signing in by " + method)
			c.sendRequest(acpAskAuthenticate, "authenticate", acpAuthenticate{method})
			return
		}
	}
	c.finishWithFailure(c.failure(number, e), t)
}

// unattendedSignIn returns the id of a sign-in method that works without a person: one whose variables are set, or one named like a key
// variable that is set. It returns "" if there is none.
func (c *acp) unattendedSignIn() string {
	for _, m := range c.auth {
		named := len(m.Vars) > 0
		for _, v := range m.Vars {
			named = named && (v.Optional || lookup(c.env, v.Name) != "")
		}
		key := strings.ToUpper(strings.ReplaceAll(m.ID, "-", "_"))
		if named || strings.HasSuffix(key, "_API_KEY") && lookup(c.env, key) != "" {
			return m.ID
		}
	}
	return ""
}

func (c *acp) failure(number int64, e *jsonrpc.Error) *flow.Failure {
	detail := e.Message
	var data struct{ Details, Message string }
	if decode(string(e.Data), &data); data.Details+data.Message != "" {
		detail += ": " + cmp.Or(data.Details, data.Message)
	}
	switch {
	case e.Code == acpAuthRequired || number == acpAskAuthenticate:
		var ways []string
		for _, m := range c.auth {
			ways = append(ways, m.ID)
		}
		return fail(trellis.AgentAuth, "%s; it knows these ways to sign in: %s", detail, strings.Join(ways, ", "))
	case isContextOverflow(detail):
		return fail(trellis.ContextOverflow, "%s", detail)
	case e.Code >= 400 && e.Code < 600: // some programs use the provider's HTTP status as the code
		if f := statusFailure(int(e.Code), time.Time{}, detail); f != nil {
			return f
		}
	case e.Code == jsonrpc.CodeInvalidParams, e.Code == jsonrpc.CodeMethodNotFound, e.Code == acpResourceNotFound:
		return refusedRequest(detail)
	}
	return fail(trellis.AgentExit, "%s", detail)
}

// finishWithFailure ends the conversation with a failure.
func (c *acp) finishWithFailure(f *flow.Failure, t *tally) {
	t.failure = f
	c.finish("error", t)
}

func (c *acp) finish(stop string, t *tally) {
	c.promptPending = false
	c.stdin.end()
	t.answeredAll = true
	t.markFinished(stop)
	if c.stopped {
		c.hangUp()
	}
}

// handlePromptAnswer handles the answer to the prompt.
func (c *acp) handlePromptAnswer(result json.RawMessage, t *tally) {
	var a acpAnswer
	decode(string(result), &a)
	c.flushText(t)
	t.failure = acpStopFailure(a.Stop)
	c.finish(a.Stop, t)
	c.recordUsage(a, t)
}

// acpStopFailure returns the failure that a stop reason means, or nil for a normal end.
func acpStopFailure(stop string) *flow.Failure {
	switch stop {
	case "end_turn":
		return nil
	case "max_tokens":
		return fail(trellis.ContextOverflow, "the agent stopped in the middle of its work: its model takes no more tokens (max_tokens)")
	case "max_turn_requests":
		return fail(trellis.AgentExit, "the agent stopped in the middle of its work: it may ask its model no more (max_turn_requests)")
	case "refusal":
		return refusedRequest("the agent refuses to do this (refusal)")
	case "cancelled":
		return fail(trellis.AgentExit, "the agent called its work off itself (cancelled)")
	}
	return fail(trellis.AgentProtocol, "the agent stopped for a reason that is not known (%s)", stop)
}

// recordUsage records the usage from the answer to the prompt. If the answer has none, the usage is unknown.
func (c *acp) recordUsage(a acpAnswer, t *tally) {
	told := a.Usage
	u := trellis.Usage{InputTokens: told.Input + told.Written, CachedTokens: told.Read, OutputTokens: told.Output}
	if all := told.Input + told.Output; told.Read+told.Written > 0 && (told.Total == all || told.Total == all+told.Thought) {
		u.InputTokens = max(0, told.Input-told.Read) // the input includes the cached tokens
	}
	if told.Total >= u.Tokens()+told.Thought {
		u.OutputTokens += told.Thought
	}
	quota := a.Meta.Quota
	if u.Tokens() == 0 {
		u = trellis.Usage{InputTokens: quota.Tokens.Input, OutputTokens: quota.Tokens.Output}
	}
	if len(quota.Models) == 1 {
		t.result.Model = cmp.Or(quota.Models[0].Model, t.result.Model)
	}
	if u.CostUSD = c.usage.CostUSD; u.Tokens() > 0 || u.CostUSD != nil {
		t.cacheWritten = told.Written
		t.usage(u)
	}
}

// handleUpdate handles a session/update notification.
func (c *acp) handleUpdate(params json.RawMessage, t *tally) {
	var n acpNotice
	decode(string(params), &n)
	u := n.Update
	switch u.Kind {
	case "agent_message_chunk":
		var block acpText
		if decode(string(u.Content), &block); c.text.Len()+len(block.Text) <= maxAnswer {
			c.text.WriteString(block.Text)
		}
	case "tool_call", "tool_call_update":
		c.recordTool(u.acpToolCall, u.Content, t)
	case "plan":
		var done int
		for _, e := range u.Entries {
			if e.Status == "completed" {
				done++
			}
		}
		t.notice(fmt.Sprintf("plan: %d of %d done", done, len(u.Entries)))
	case "usage_update":
		if u.Cost != nil && u.Cost.Currency == "USD" && u.Cost.Amount.amount != nil {
			c.usage.CostUSD = u.Cost.Amount.amount
			t.usage(c.usage)
		}
	}
}

// flushText passes on the text collected so far: it arrives in pieces.
func (c *acp) flushText(t *tally) {
	t.text(c.text.String())
	c.text.Reset()
}

// recordTool records a tool call, or an update of one.
func (c *acp) recordTool(call acpToolCall, content json.RawMessage, t *tally) *acpTool {
	known := c.tools[call.ID]
	if known == nil {
		c.flushText(t)
		known = &acpTool{acpToolCall: call}
		c.tools[call.ID] = known
		input := call.Input
		if len(input) == 0 || string(input) == "{}" || string(input) == "null" {
			input = jsonString(call.Title)
		}
		t.tool(cmp.Or(call.ToolKind, "other"), input)
	}
	known.ToolKind = cmp.Or(call.ToolKind, known.ToolKind)
	known.Title = cmp.Or(call.Title, known.Title)
	known.addPaths(call, content)
	if over := call.Status == "completed" || call.Status == "failed"; over && !known.ended {
		known.ended = true
		t.toolEnded(call.Status == "completed", acpOutputText(content))
	}
	return known
}

// acpOutputText returns the text of a tool's output.
func acpOutputText(content json.RawMessage) string {
	var pieces []acpContent
	json.Unmarshal(content, &pieces) //nolint:errcheck // content that is not a list says nothing
	var words []string
	for _, p := range pieces {
		words = append(words, p.Content.Text)
	}
	return strings.Join(words, "\n")
}

// end returns a failure if the program printed something and exited with 0, but never began a session.
func (c *acp) end(t *tally, e ending) *flow.Failure {
	if !t.done && c.session == "" && e.Code == 0 && e.Signal == "" && !e.printedNothing {
		return fail(trellis.AgentProtocol, "the program does not speak the Agent Client Protocol; %s", e)
	}
	return nil
}
