package agents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// codexThread follows the record that codex writes of a session while it runs. The event stream reports usage only at the end,
// and then for the whole thread; the record reports it after every answer of the model, and includes the usage before this run.
// If the record can't be read, only the report at the end is used.
type codexThread struct {
	home        string
	id          string
	path        string // path of the record; "" until it exists
	offset      int64
	usageBefore codexUsage // usage of the thread when this run began
	usage       codexUsage
	model       string // model that answers
	limits      codexLimits
	calls       []string // names of the tools that this run called
	// errorInfo is codex's error code for the last failed turn.
	errorInfo json.RawMessage
}

type codexLimits struct{ Primary, Secondary codexWindow }

type codexWindow struct {
	Used   float64 `json:"used_percent"`
	Resets int64   `json:"resets_at"`
}

// openCodexThread returns the thread of the session that a run resumes, or of a new session if session is empty.
func openCodexThread(home, session string) codexThread {
	t := codexThread{home: home, id: session}
	t.readRecord()
	t.usageBefore, t.errorInfo, t.calls = t.usage, nil, nil
	return t
}

// findRecord looks for the record, which does not exist before the first turn, and reports whether it was found.
func (t *codexThread) findRecord() bool {
	if t.path == "" && t.id != "" {
		paths, _ := filepath.Glob(filepath.Join(t.home, "sessions", "*", "*", "*", "rollout-*-"+filepath.Base(t.id)+".jsonl"))
		if len(paths) == 1 {
			t.path = paths[0]
		}
	}
	return t.path != ""
}

// readRecord reads new lines of the record and reports whether the usage changed.
func (t *codexThread) readRecord() bool {
	if !t.findRecord() {
		return false
	}
	f, err := durable.OpenBelow(filepath.Dir(t.path), filepath.Base(t.path), durable.AnySize)
	if err != nil {
		return false
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, t.offset, durable.MaxJournal))
	if err != nil {
		return false
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	t.offset += int64(whole)
	old := t.usage
	for line := range bytes.Lines(data[:whole]) {
		t.parseLine(line)
	}
	return t.usage != old
}

// codexRecordLine is a line of the session record.
type codexRecordLine struct {
	Type    string
	Payload struct {
		Type  string
		Name  string // name of a tool
		Model string // set in the line before each turn
		Info  *struct {
			Total codexUsage `json:"total_token_usage"`
		}
		Total  *codexUsage  `json:"thread_token_usage"` // written as soon as an answer has come
		Limits *codexLimits `json:"rate_limits"`
		Error  struct {
			Info json.RawMessage `json:"codex_error_info"` // a string, or an object with a single key
		}
	}
}

// codexRecordMarks are substrings of the lines that are of interest here.
var codexRecordMarks = []string{`"turn_context"`, `"token_count"`, `"token_usage_record"`, `"codex_error_info"`, `"function_call"`, `"custom_tool_call"`, `"local_shell_call"`}

func (t *codexThread) parseLine(line []byte) {
	if !slices.ContainsFunc(codexRecordMarks, func(mark string) bool { return bytes.Contains(line, []byte(mark)) }) {
		return
	}
	var r codexRecordLine
	if !decode(string(line), &r) {
		return
	}
	if r.Type == "turn_context" {
		t.model = r.Payload.Model
	}
	if len(r.Payload.Error.Info) > 0 {
		t.errorInfo = r.Payload.Error.Info
	}
	if r.Payload.Total != nil {
		t.usage = *r.Payload.Total
	}
	switch r.Payload.Type {
	case "function_call", "custom_tool_call", "local_shell_call":
		t.calls = append(t.calls, cmp.Or(r.Payload.Name, "shell"))
		return
	case "token_count":
	default:
		return
	}
	if r.Payload.Info != nil {
		t.usage = r.Payload.Info.Total
	}
	if r.Payload.Limits != nil {
		t.limits = *r.Payload.Limits
	}
}

// failure returns the failure that the record gives, or nil if it gives no known one.
func (t *codexThread) failure(detail string) *flow.Failure {
	var kind string
	if json.Unmarshal(t.errorInfo, &kind) != nil {
		var sent map[string]struct {
			Status int `json:"http_status_code"`
		}
		json.Unmarshal(t.errorInfo, &sent) //nolint:errcheck // another shape says nothing
		for _, s := range sent {           // all of these are connection errors
			if s.Status == 0 {
				return fail(trellis.ProviderDown, "%s", detail)
			}
			return statusFailure(s.Status, t.resetTime(), detail)
		}
	}
	if isQuotaExhausted(detail) {
		return fail(trellis.QuotaExhausted, "%s", detail)
	}
	switch kind {
	case "internal_server_error", "server_overloaded":
		return fail(trellis.ProviderDown, "%s", detail)
	case "bad_request":
		return refusedRequest(detail)
	case "context_window_exceeded":
		return fail(trellis.ContextOverflow, "%s", detail)
	case "usage_limit_exceeded":
		return rateLimitFailure(t.resetTime(), detail)
	case "unauthorized":
		return fail(trellis.AgentAuth, "%s", detail)
	}
	return nil
}

// resetTime returns the time when the limits that are used up reset, or zero if it is not known.
func (t *codexThread) resetTime() time.Time {
	var until int64
	for _, w := range []codexWindow{t.limits.Primary, t.limits.Secondary} {
		if w.Used >= 100 {
			until = max(until, w.Resets)
		}
	}
	if until == 0 {
		return time.Time{}
	}
	return time.Unix(until, 0)
}
