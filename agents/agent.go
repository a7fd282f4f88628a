// Package agents runs coding-agent programs: Claude Code, OpenCode, Codex, any other command, and a rehearsal agent that plays
// a script. For roles that only answer or read it also calls models directly; see [API]. An [Agent] carries out one request
// and streams its events.
//
// An agent's program runs in a separate process group, with an environment built from an allow list. It gets the prompt on
// standard input, and its output is read line by line. The output is kept in the RunDir of the request, with the values of
// *_KEY, *_TOKEN, *_SECRET and *PASSWORD variables, and other known secrets, masked. A program that takes too long, falls
// silent, uses too much or does not exit after its result is ended, and no process that it started is left running.
//
// # The script of a rehearsal
//
// The rehearsal agent reads a YAML file (by default .trellis/rehearsal.yaml) with a list of calls for each role. The nth call
// of a role for a task plays the nth entry; after the last entry, that entry is repeated.
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
// Files and commands need permission edit or full. The number of a call is looked up in a list in the task's run folder, by
// the folder of its activity: a call that was killed and is entered again plays the same entry.
package agents

import (
	"context"
	"encoding/json"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// An Agent carries out requests, one per call of Run. It may be used by several goroutines at once.
//
// Run returns when the agent's process and everything that it started are gone. emit, which may be nil, is called for every
// event as it comes, in order and by one goroutine at a time. If a run did not do its work, the error is a *flow.Failure with
// one of the codes agent_missing, agent_auth, agent_exit, agent_signal, agent_protocol, empty_output, timeout_wall,
// timeout_idle, rate_limited, provider_unavailable, quota_exhausted, context_overflow or budget_*; the Result may be set as
// well (session and usage so far). When ctx ends, Run stops the program and returns the cause of ctx.
type Agent interface {
	Run(ctx context.Context, r Request, emit func(Event)) (*Result, error)
}

// Request is one piece of work for an agent.
type Request struct {
	Role       trellis.Role
	Prompt     string // UTF-8; a program gets it on stdin, never as an argument
	System     string // rules about the form of the answer; programs without a system prompt get it before the prompt
	Dir        string // absolute path of the agent's working directory
	Permission trellis.Permission
	Model      string          // "" is the program's default
	Session    string          // the session to resume; "" starts a new one
	Schema     json.RawMessage // JSON Schema that the answer must satisfy, nil for free text
	Env        []string        // KEY=VALUE: TRELLIS_*, PLAN_* and the variables that the configuration adds
	RunDir     string          // an existing private folder for this call: stream.jsonl (raw events) and stderr.log are kept in it, known secrets masked
	Marker     string          // value of TRELLIS_RUN_MARKER, which identifies stray processes of the run
	Limits     Limits
	// Spent is called with the usage of the run so far each time the program reports it. If it returns a failure, a run that
	// has not given its result yet is ended with that failure. Nil means no callback.
	Spent func(trellis.Usage) *flow.Failure
}

// Limits bound one run. Zero means no limit.
type Limits struct {
	Wall    time.Duration // from start to end
	Idle    time.Duration // longest time without an event
	Tokens  int64         // all tokens of this run, cached ones too
	CostUSD float64
}

// Result is the outcome of a request.
type Result struct {
	Text      string          // the last text that the agent wrote
	Answer    json.RawMessage // the structured answer, if the program reports it separately
	Session   string          // the session, for resuming it; "" if the program has none
	Model     string          // the model that the program reports, else the requested one; "" if neither is known
	Usage     trellis.Usage   // of this run alone; the cost is an estimate if the program reports none, see [Options.Prices]
	ToolCalls int             // -1 when the program does not report them
	Stop      string          // the program's name for the reason why it ended
	Sandbox   string          // name of the sandbox that it ran in, "" for none
}

// Event is one thing that happened during a run.
type Event struct {
	Kind    EventKind      `json:"type"`
	Text    string         `json:"text,omitempty"`    // text, result, error: the message; notice: a retry, a refused permission
	Tool    string         `json:"tool,omitempty"`    // tool: its name
	Input   string         `json:"input,omitempty"`   // tool: its arguments, on one line, shortened
	Session string         `json:"session,omitempty"` // session: its id
	Usage   *trellis.Usage `json:"usage,omitempty"`   // usage: the running total of this run
}

// EventKind is the type of an Event.
type EventKind string

const (
	EventSession EventKind = "session"
	EventText    EventKind = "text"
	EventTool    EventKind = "tool"
	EventUsage   EventKind = "usage"
	EventNotice  EventKind = "notice"
	EventResult  EventKind = "result" // the last event of a run that did its work
)
