// Package agents runs coding-agent programs: Claude Code, OpenCode, Codex, any command, and a
// rehearsal that plays a script. An [Agent] takes one request to its end and streams what happens.
package agents

import (
	"context"
	"encoding/json"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Agent runs one request at a time per call; an Agent may be used by several goroutines at once.
//
// Run returns when the agent's process and everything it started are gone. emit, which may be nil, is
// called from one goroutine, in order, for every event as it comes. A run that did not do its work is a
// *flow.Failure with one of the codes agent_missing, agent_auth, agent_exit, agent_signal,
// agent_protocol, empty_output, timeout_wall, timeout_idle, rate_limited, context_overflow or
// budget_*; next to it the Result may still be set (session and usage so far). When ctx ends, the
// run is stopped and ctx's cause returned.
type Agent interface {
	Run(ctx context.Context, r Request, emit func(Event)) (*Result, error)
}

// Request is one piece of work for an agent.
type Request struct {
	Role       trellis.Role
	Prompt     string // UTF-8; given on stdin, never as an argument
	System     string // rules of form, for programs that take a system prompt; others get it before the prompt
	Dir        string // where the agent works, absolute
	Permission trellis.Permission
	Model      string          // "" is the program's default
	Session    string          // a session to go on with; "" begins one
	Schema     json.RawMessage // JSON Schema that the answer must satisfy, nil for free text
	Env        []string        // KEY=VALUE: TRELLIS_*, PLAN_* and what config adds
	RunDir     string          // an existing private folder for this call: stream.jsonl (raw events) and stderr.log are kept in it, known secrets masked
	Marker     string          // value of TRELLIS_RUN_MARKER, by which stray processes are found
	Limits     Limits
}

// Limits bound one run. Zero is no limit.
type Limits struct {
	Wall    time.Duration // from start to end
	Idle    time.Duration // without an event
	Tokens  int64         // input and output of this run
	CostUSD float64
}

// Result is what came of a request.
type Result struct {
	Text      string          // the last text of the agent
	Answer    json.RawMessage // the structured answer, when the program has one of its own
	Session   string          // to resume with; "" when the program has none
	Usage     trellis.Usage   // of this run alone
	ToolCalls int             // -1 when the program does not report them
	Stop      string          // the program's own word for why it ended
}

// Event is one thing that happened during a run.
type Event struct {
	Kind    EventKind      `json:"type"`
	Text    string         `json:"text,omitempty"`    // text, error: what was said; notice: a retry, a refused permission
	Tool    string         `json:"tool,omitempty"`    // tool: its name
	Input   string         `json:"input,omitempty"`   // tool: what it was called with, one line, shortened
	Session string         `json:"session,omitempty"` // session: its id
	Usage   *trellis.Usage `json:"usage,omitempty"`   // usage: of this run so far, a running total
}

// EventKind says what an Event is.
type EventKind string

const (
	EventSession EventKind = "session"
	EventText    EventKind = "text"
	EventTool    EventKind = "tool"
	EventUsage   EventKind = "usage"
	EventNotice  EventKind = "notice"
	EventResult  EventKind = "result" // the last one; the program may hang after it
)
