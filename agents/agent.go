// Package agents runs coding-agent programs: Claude Code, OpenCode, Codex, any command, and a
// rehearsal that plays a script. For roles that answer or read it also asks models directly; see [API].
// An [Agent] takes one request to its end and streams what happens.
//
// An agent's program works in a process group of its own with an environment made of an allow list, gets
// the prompt on standard input and is read line by line. What it prints is kept in the RunDir of the
// request with the values of *_KEY, *_TOKEN, *_SECRET and *PASSWORD variables, and other known ones, masked. When it takes too
// long, falls silent, uses too much or stays after its result, it is ended; nothing it started is left.
//
// # The script of a rehearsal
//
// The rehearsal agent reads a YAML file (by default .trellis/rehearsal.yaml) in which every role has a
// list of calls. The nth call of a role for a task plays the nth entry, the last one again and again.
//
//	roles:
//	  evaluate:
//	    - when: blockchain              # played only for prompts that contain this; entries whose
//	      answer: {decision: reject}    # "when" fits go before those without one
//	    - answer: {decision: accept}    # an object is the answer as JSON, a string is text
//	  implement:
//	    - sleep: 1s                     # before anything else
//	      files: {calc/calc.go: "…"}    # written into the working directory
//	      run: ["gofmt -w calc"]        # shell commands there, after the files; a failing one ends the call
//	      answer: Wrote the calculator.
//	  check:
//	    - exit: 3                       # fails as a program that exits so does, after all of the above
//	  accept:
//	    - fail: {code: rate_limited, detail: slow down, resume_at: 2026-01-02T15:04:05Z}
//
// Files and commands are for permission edit and full. Which call of its role a request is follows from a
// list in the task's run folder, by the folder of its activity: a call that was killed and is
// entered again plays the same entry.
package agents

import (
	"context"
	"encoding/json"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Agent runs one request at a time per call; an Agent may be used by several goroutines at once.
//
// Run returns when the agent's process and everything it started are gone. emit, which may be nil, is
// called by one goroutine at a time, in order, for every event as it comes. A run that did not do its work is a
// *flow.Failure with one of the codes agent_missing, agent_auth, agent_exit, agent_signal,
// agent_protocol, empty_output, timeout_wall, timeout_idle, rate_limited, provider_unavailable, quota_exhausted,
// context_overflow or budget_*; next to it the Result may still be set (session and usage so far). When ctx ends, the
// run is stopped and ctx's cause returned.
type Agent interface {
	Run(ctx context.Context, r Request, emit func(Event)) (*Result, error)
}

// Request is one piece of work for an agent.
type Request struct {
	Role       trellis.Role
	Prompt     string // UTF-8; a program gets it on stdin, never as an argument
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
	// Spent is told the running total of the run, each time that the program tells of it. A failure ends a run that has
	// not given its result. Nil: nobody is told.
	Spent func(trellis.Usage) *flow.Failure
}

// Limits bound one run. Zero is no limit.
type Limits struct {
	Wall    time.Duration // from start to end
	Idle    time.Duration // without an event
	Tokens  int64         // all tokens of this run, cached ones too
	CostUSD float64
}

// Result is what came of a request.
type Result struct {
	Text      string          // the last text of the agent
	Answer    json.RawMessage // the structured answer, when the program has one of its own
	Session   string          // to resume with; "" when the program has none
	Model     string          // that it used, as far as it tells, or was asked to use; "" when nobody says
	Usage     trellis.Usage   // of this run alone; what it cost is an estimate where the program does not tell, see [Options.Prices]
	ToolCalls int             // -1 when the program does not report them
	Stop      string          // the program's own word for why it ended
	Sandbox   string          // that it ran in, "" for none
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
	EventResult  EventKind = "result" // the last one of a run that did its work
)
