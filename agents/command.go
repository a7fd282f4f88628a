package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Command is an agent of the project's own: any program that reads a prompt from standard input.
//
// With output text, the default, its standard output is the answer and exit 0 means that it did its
// work; every line counts as an event for limits.idle. With output events it prints JSON objects, one a
// line, with the fields of [Event], and more for two types:
//
//	{"type": "result", "text": "…", "answer": {…}, "session": "…", "stop": "…"}
//	{"type": "error", "code": "rate_limited", "text": "…", "resume_at": "2026-01-02T15:04:05Z"}
//
// Without a result the last text is the answer. The code of an error is one of those that [Agent] names;
// without one it is agent_exit. Other lines are kept in stream.jsonl and mean nothing.
//
// With type acp it speaks the Agent Client Protocol on its standard streams instead, see [acpPermits].
//
// There is no sandbox and no permission but what the program makes of its role, and of its arguments.
type Command struct {
	Argv    []string          // a relative program path starts at the main checkout
	Read    []string          // further arguments of a call that may change nothing
	Edit    []string          // further arguments of a call that may change files
	Session []string          // the last arguments of a call that goes on in a session, which {{session}} in them is; none: no call can
	Env     map[string]string // besides the usual variables
	EnvPass []string          // names of variables that it gets from Environ besides the usual ones
	Output  string            // text or events
	Type    string            // acp: it speaks the Agent Client Protocol; empty: it reads a prompt and prints
}

// ACP is the type of commands that speak the Agent Client Protocol.
const ACP = "acp"

// sessionSlot stands for the session in a command's arguments.
const sessionSlot = "{{session}}"

func newCommand(c Command, o Options) Agent {
	program := &cli{o: o, begin: func(r Request) (*start, error) { return c.begin(o, r) }}
	if len(c.Session) == 0 {
		return sessionless{program}
	}
	return program
}

func (c Command) begin(o Options, r Request) (*start, error) {
	path, err := o.find(c.Argv[0])
	if err != nil {
		return nil, fail(trellis.AgentMissing, "%s", err)
	}
	own := Request{Env: slices.Clone(r.Env)}
	for name, value := range c.Env {
		own.Env = append(own.Env, name+"="+value)
	}
	s := &start{argv: append([]string{path}, c.arguments(r)...), stdin: strings.NewReader(r.prompt()), reader: &commandEvents{}}
	s.env = o.environ(c.EnvPass, nil, nil, own)
	switch {
	case c.Type == ACP:
		talk := newACP(r, s.env)
		s.stdin, s.reader = talk.say, talk
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

// sessionless is a program that can't be told to go on in a session. What it says of one is not passed on: who knows of a
// session leaves out what was said in it, which this program would never get.
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
	text strings.Builder
	cut  bool
}

// maxAnswer is the longest answer in words.
const maxAnswer = 8 << 20

func (c *commandText) line(line string, t *tally) bool {
	if c.text.Len()+len(line) > maxAnswer {
		c.cut = true
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
	if c.cut {
		return fail(trellis.AgentProtocol, "the answer is longer than %d MiB", maxAnswer>>20)
	}
	return nil
}

// commandEvents reads a program that prints events.
type commandEvents struct {
	used bool          // a tool was reported
	told trellis.Usage // the running total, as the program tells it
}

// commandUsage is a running total as a program tells it.
type commandUsage struct {
	Input     count   `json:"input_tokens"`
	Output    count   `json:"output_tokens"`
	Cached    count   `json:"cached_tokens"`
	Cost      dollars `json:"cost_usd"`
	Estimated bool    `json:"cost_estimated"`
}

// count is a number of tokens in any spelling of JSON, as 1200, 1200.0 and 1.2e3; what is no number counts as none.
type count int64

func (c *count) UnmarshalJSON(data []byte) error {
	var n float64
	if json.Unmarshal(data, &n) == nil {
		*c = count(min(max(n, 0), mostTokens))
	}
	return nil
}

// total takes in a running total, which never falls: what it leaves out, or tells in no number, stays as it was.
func (c *commandEvents) total(u commandUsage) trellis.Usage {
	c.told.InputTokens = max(c.told.InputTokens, int64(u.Input))
	c.told.OutputTokens = max(c.told.OutputTokens, int64(u.Output))
	c.told.CachedTokens = max(c.told.CachedTokens, int64(u.Cached))
	if now, before := u.Cost.told, c.told.CostUSD; now != nil && *now >= 0 && (before == nil || *now > *before) {
		c.told.CostUSD, c.told.CostEstimated = now, u.Estimated
	}
	return c.told
}

func (c *commandEvents) line(line string, t *tally) bool {
	var e struct {
		Event
		Input    json.RawMessage `json:"input"`
		Usage    *commandUsage   `json:"usage"`
		Model    string          `json:"model"`
		Answer   json.RawMessage `json:"answer"`
		Stop     string          `json:"stop"`
		Code     trellis.Code    `json:"code"`
		ResumeAt time.Time       `json:"resume_at"`
	}
	if !decode(line, &e) {
		return false
	}
	switch e.Kind {
	case EventSession:
		t.session(e.Session)
	case EventText:
		t.text(e.Text)
	case EventTool:
		c.used = true
		t.tool(e.Tool, e.Input)
	case EventUsage:
		t.result.Model = cmp.Or(e.Model, t.result.Model)
		if e.Usage != nil {
			t.usage(c.total(*e.Usage))
		}
	case EventNotice:
		t.notice(e.Text)
	case EventResult:
		c.result(e.Text, e.Answer, t)
		t.session(e.Session)
		t.finished(e.Stop)
	case "error":
		t.failure = commandFailure(e.Code, e.Text, e.ResumeAt)
	default:
		return false
	}
	return true
}

func (c *commandEvents) result(text string, answer json.RawMessage, t *tally) {
	if text != "" {
		t.result.Text = text
	}
	if len(answer) > 0 && string(answer) != "null" {
		t.result.Answer = answer
	}
}

func (c *commandEvents) end(t *tally, _ ending) *flow.Failure {
	t.done = true
	if !c.used {
		t.result.ToolCalls = -1
	}
	return nil
}

// commandFailure is the failure a program reports of itself; codes that are not an agent's are not believed.
func commandFailure(code trellis.Code, text string, resume time.Time) *flow.Failure {
	switch code {
	case trellis.RateLimited:
		return limited(resume, text)
	case trellis.ProviderDown:
		f := fail(code, "%s", text)
		f.ResumeAt = resume // where it says when
		return f
	case trellis.AgentAuth, trellis.AgentMissing, trellis.QuotaExhausted, trellis.AgentProtocol, trellis.ContextOverflow, trellis.EmptyOutput,
		trellis.BudgetTokens, trellis.BudgetCost, trellis.TimeoutIdle, trellis.TimeoutWall:
		return fail(code, "%s", text)
	}
	return fail(trellis.AgentExit, "%s", text)
}
