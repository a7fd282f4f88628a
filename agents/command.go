package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Command is an agent that the project defines itself: any program that reads a prompt from standard input.
//
// With output text, the default, its standard output is the answer, and exit 0 means that it did its work; every line counts
// as an event for limits.idle. With output events it prints JSON objects, one per line, with the fields of [Event], and two
// types with additional fields:
//
//	{"type": "result", "text": "…", "answer": {…}, "session": "…", "stop": "…"}
//	{"type": "error", "code": "rate_limited", "text": "…", "resume_at": "2026-01-02T15:04:05Z"}
//
// Without a result event, the last text is the answer. The code of an error is one of those listed at [Agent]; the default is
// agent_exit. Other lines are kept in stream.jsonl and ignored.
//
// With type acp the program speaks the Agent Client Protocol on its standard streams instead, see [acpPermits].
//
// Apart from [Options.Sandbox], permissions are only what the program makes of its role and of its arguments.
type Command struct {
	Argv    []string          // a relative program path starts at the main checkout
	Read    []string          // additional arguments if the agent may not change files
	Edit    []string          // additional arguments if the agent may change files
	Session []string          // last arguments of a call that resumes a session, with {{session}} for its id; none: the program can't resume
	Env     map[string]string // variables in addition to the usual ones
	EnvPass []string          // names of the variables in Environ that it gets in addition to the usual ones
	Output  string            // text or events
	Type    string            // acp: it speaks the Agent Client Protocol; empty: it reads a prompt and prints
}

// ACP is the type of commands that speak the Agent Client Protocol.
const ACP = "acp"

// sessionSlot is replaced by the session id in a command's arguments.
const sessionSlot = "{{session}}"

func newCommand(c Command, o Options) Agent {
	program := &cli{o: o, invocation: func(r Request) (*invocation, error) { return c.invocation(o, r) }}
	if len(c.Session) == 0 {
		return sessionless{program}
	}
	return program
}

func (c Command) invocation(o Options, r Request) (*invocation, error) {
	path, err := o.find(c.Argv[0])
	if err != nil {
		return nil, fail(trellis.AgentMissing, "%s", err)
	}
	own := Request{Env: slices.Clone(r.Env)}
	for name, value := range c.Env {
		own.Env = append(own.Env, name+"="+value)
	}
	s := &invocation{argv: append([]string{path}, c.arguments(r)...), stdin: strings.NewReader(r.prompt()), reader: &commandEvents{}}
	s.env = o.environ(c.EnvPass, nil, nil, own)
	switch {
	case c.Type == ACP:
		talk := newACP(r, s.env)
		s.stdin, s.reader = talk.stdin, talk
	case c.Output != "events":
		s.reader = &commandText{}
	}
	return s, nil
}

func (c Command) arguments(r Request) []string {
	args := slices.Concat(c.Argv[1:], c.Read)
	if r.Writes() {
		args = slices.Concat(c.Argv[1:], c.Edit)
	}
	if r.Session == "" {
		return args
	}
	for _, arg := range c.Session {
		args = append(args, strings.ReplaceAll(arg, sessionSlot, r.Session))
	}
	return args
}

// sessionless is a program that can't resume a session. The sessions that it reports are dropped: a caller that knows of a
// session leaves out of the next prompt what was said in it, and this program would never get that.
type sessionless struct{ program *cli }

func (s sessionless) Run(ctx context.Context, r Request, emit func(Event)) (*Result, error) {
	r.Session = ""
	res, err := s.program.Run(ctx, r, func(e Event) {
		if emit != nil && e.Kind != EventSession {
			emit(e)
		}
	})
	if res != nil {
		res.Session = ""
	}
	return res, err
}

// commandText reads a program whose whole output is the answer.
type commandText struct {
	text      strings.Builder
	truncated bool
}

// maxAnswer is the largest size of a text answer, in bytes.
const maxAnswer = 8 << 20

func (c *commandText) line(line string, t *tally) bool {
	if c.text.Len()+len(line) > maxAnswer {
		c.truncated = true
		return true
	}
	c.text.WriteString(line)
	c.text.WriteByte('\n')
	t.text(line)
	return true
}

func (c *commandText) end(t *tally, _ ending) *flow.Failure {
	t.result.Text = strings.TrimRight(c.text.String(), "\n")
	t.result.ToolCalls = -1
	t.done = true
	if c.truncated {
		return fail(trellis.AgentProtocol, "the answer is longer than %d MiB", maxAnswer>>20)
	}
	return nil
}

// commandEvents reads the output of a program that prints events.
type commandEvents struct {
	toolReported bool            // a tool was reported
	usage        trellis.Usage   // the running total that the program reported
	noticed      map[string]bool // fields that could not be read and that a notice was sent for
}

// field is the value of one field of an event. A value of an unexpected type leaves it empty and does not affect other fields.
type field[T any] struct {
	value      T
	unreadable string // the raw value, if it could not be read
}

func (f *field[T]) UnmarshalJSON(data []byte) error {
	var v T
	if *f = (field[T]{}); json.Unmarshal(data, &v) != nil {
		f.unreadable = brief(data)
		return nil
	}
	f.value = v
	return nil
}

// get returns the value of the field. If the value could not be read, it is added to o.
func (f field[T]) get(o *unreadableFields, name string) T {
	if f.unreadable != "" {
		*o = append(*o, name+" "+f.unreadable)
	}
	return f.value
}

// unreadableFields are the fields of an event that could not be read, with their values.
type unreadableFields []string

// commandEvent is an event as a program prints it. Each type has its own set of fields.
type commandEvent struct {
	Kind     field[EventKind]     `json:"type"`
	Text     field[string]        `json:"text"`
	Tool     field[string]        `json:"tool"`
	Input    json.RawMessage      `json:"input"`
	Session  field[string]        `json:"session"`
	Usage    field[*commandUsage] `json:"usage"`
	Model    field[string]        `json:"model"`
	Answer   json.RawMessage      `json:"answer"`
	Stop     field[string]        `json:"stop"`
	Code     field[trellis.Code]  `json:"code"`
	ResumeAt field[time.Time]     `json:"resume_at"`
}

// commandUsage is a running total as a program reports it.
type commandUsage struct {
	Input     field[count]    `json:"input_tokens"`
	Output    field[count]    `json:"output_tokens"`
	Cached    field[count]    `json:"cached_tokens"`
	Cost      field[*float64] `json:"cost_usd"`
	Estimated field[bool]     `json:"cost_estimated"`
}

// count is a number of tokens in any JSON notation: 1200, 1200.0 or 1.2e3.
type count int64

func (c *count) UnmarshalJSON(data []byte) error {
	var n float64
	err := json.Unmarshal(data, &n)
	*c = count(min(max(n, 0), mostTokens))
	return err
}

// mergeUsage merges a reported running total, which never decreases: fields that are missing or not numbers keep their value.
func (c *commandEvents) mergeUsage(u commandUsage, o *unreadableFields) trellis.Usage {
	c.usage.InputTokens = max(c.usage.InputTokens, int64(u.Input.get(o, "usage.input_tokens")))
	c.usage.OutputTokens = max(c.usage.OutputTokens, int64(u.Output.get(o, "usage.output_tokens")))
	c.usage.CachedTokens = max(c.usage.CachedTokens, int64(u.Cached.get(o, "usage.cached_tokens")))
	now, estimated := u.Cost.get(o, "usage.cost_usd"), u.Estimated.get(o, "usage.cost_estimated")
	if before := c.usage.CostUSD; now != nil && *now >= 0 && (before == nil || *now > *before) {
		c.usage.CostUSD, c.usage.CostEstimated = now, estimated
	}
	return c.usage
}

func (c *commandEvents) line(line string, t *tally) bool {
	var e commandEvent
	if !decode(line, &e) {
		return false
	}
	var o unreadableFields
	switch e.Kind.value {
	case EventSession:
		t.session(e.Session.get(&o, "session"))
	case EventText:
		t.text(e.Text.get(&o, "text"))
	case EventTool:
		c.toolReported = true
		t.tool(e.Tool.get(&o, "tool"), e.Input)
	case EventUsage:
		t.result.Model = cmp.Or(e.Model.get(&o, "model"), t.result.Model)
		if u := e.Usage.get(&o, "usage"); u != nil {
			t.usage(c.mergeUsage(*u, &o))
		}
	case EventNotice:
		t.notice(e.Text.get(&o, "text"))
	case EventResult:
		c.recordResult(e.Text.get(&o, "text"), e.Answer, t)
		t.session(e.Session.get(&o, "session"))
		t.markFinished(e.Stop.get(&o, "stop"))
	case "error":
		t.failure = commandFailure(e.Code.get(&o, "code"), e.Text.get(&o, "text"), e.ResumeAt.get(&o, "resume_at"))
	default:
		return false
	}
	c.noticeUnreadable(e.Kind.value, o, t)
	return true
}

// noticeUnreadable sends one notice per field for the fields of an event that could not be read.
func (c *commandEvents) noticeUnreadable(kind EventKind, o unreadableFields, t *tally) {
	for _, said := range o {
		name, _, _ := strings.Cut(said, " ")
		if name = string(kind) + " " + name; c.noticed[name] {
			continue
		}
		if c.noticed == nil {
			c.noticed = map[string]bool{}
		}
		c.noticed[name] = true
		t.notice(fmt.Sprintf("its event of type %s: %s can't be read, and is ignored", kind, said))
	}
}

func (c *commandEvents) recordResult(text string, answer json.RawMessage, t *tally) {
	if text != "" {
		t.result.Text = text
	}
	if len(answer) > 0 && string(answer) != "null" {
		t.result.Answer = answer
	}
}

func (c *commandEvents) end(t *tally, _ ending) *flow.Failure {
	t.done = true
	if !c.toolReported {
		t.result.ToolCalls = -1
	}
	return nil
}

// commandFailure returns the failure that a program reports about itself. A code that is not one of an agent becomes agent_exit.
func commandFailure(code trellis.Code, text string, resume time.Time) *flow.Failure {
	switch code {
	case trellis.RateLimited:
		return rateLimitFailure(resume, text)
	case trellis.ProviderDown:
		f := fail(code, "%s", text)
		f.ResumeAt = resume // zero if the program does not say when
		return f
	case trellis.AgentAuth, trellis.AgentMissing, trellis.QuotaExhausted, trellis.AgentProtocol, trellis.ContextOverflow, trellis.EmptyOutput,
		trellis.BudgetTokens, trellis.BudgetCost, trellis.TimeoutIdle, trellis.TimeoutWall:
		return fail(code, "%s", text)
	}
	return fail(trellis.AgentExit, "%s", text)
}
