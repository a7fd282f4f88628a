package traces

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// Trace is the trace of a run. Its ids are derived from the run and its activities, so that any process that resumes the run
// produces the same ids.
type Trace struct{ id string }

// TraceOf returns the trace of the run in a journal.
func TraceOf(h *journal.History) Trace {
	sum := sha256.Sum256([]byte(strings.Join([]string{"trellis trace", h.Clone, h.Run, h.Began.UTC().Format(time.RFC3339Nano)}, "\x00")))
	return Trace{hex.EncodeToString(sum[:16])}
}

// Parent returns the value of TRACEPARENT for a process whose spans belong below the activity with this id.
func (t Trace) Parent(activity string) string { return "00-" + t.id + "-" + t.spanID(activity) + "-01" }

// spanID returns the id of the span of an activity, or of something in it.
func (t Trace) spanID(parts ...string) string {
	sum := sha256.Sum256([]byte("trellis span\x00" + t.id + "\x00" + strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// tree collects the spans of everything that has ended in a run: the run itself, its phases, and the activities in them.
type tree struct {
	Trace
	run    string
	redact func(string) string
	spans  []span
	phase  phase // the current one
	last   pipeline.TaskState
}

type phase struct {
	id, callID, name string
	round            int
	since            time.Time
	code             string // failure code of the last activity that failed in it
}

// spansOf returns the spans of everything that has ended. Each span is the same whenever it is requested again.
func spansOf(h *journal.History, redact func(string) string) []span {
	t := &tree{Trace: TraceOf(h), run: h.Run, redact: redact}
	for _, c := range h.Calls {
		if s, ok := pipeline.StateWritten(c.Activity, c.In); ok {
			t.enterPhase(s, c)
		} else if c.Done {
			t.addActivity(c)
		}
	}
	if h.Ended {
		t.leavePhase(h.EndedAt)
		t.addRunSpan(h)
	}
	return t.spans
}

// rootID is the part from which the id of the run's span is derived: no activity has this name.
const rootID = ""

// addSpan adds a span below the current phase or, without one, below the run.
func (t *tree) addSpan(s span) {
	s.TraceID = t.id
	if s.Parent == "" && s.ID != t.spanID(rootID) {
		s.Parent = cmp.Or(t.phase.id, t.spanID(rootID))
	}
	if time.Time(s.End).Before(time.Time(s.Start)) { // the clock was set back
		s.End = s.Start
	}
	t.spans = append(t.spans, s)
}

// enterPhase processes a state that the run wrote: one phase may end with it, and another begin.
func (t *tree) enterPhase(s pipeline.TaskState, c journal.Entry) {
	t.last = s
	now := phase{t.spanID(c.ID), c.ID, s.Phase, s.Round, c.Started, ""}
	if s.Status != trellis.InProgress {
		now = phase{}
		if s.Failure != nil {
			t.phase.code = s.Failure.Code
		}
	}
	if now.name == t.phase.name && now.round == t.phase.round {
		return // the same phase continues
	}
	t.leavePhase(c.Started)
	t.phase = now
}

// leavePhase adds the current phase, which ends at a time.
func (t *tree) leavePhase(at time.Time) {
	p := t.phase
	t.phase = phase{}
	if p.name == "" {
		return
	}
	s := span{ID: p.id, Name: p.name, Kind: internal, Start: nanos(p.since), End: nanos(at)}
	s.Attributes.addString("cicd.pipeline.task.name", p.name)
	s.Attributes.addString("cicd.pipeline.task.run.id", t.run+"/"+p.callID)
	s.Attributes.addString("cicd.pipeline.task.run.result", outcome(p.code))
	s.Attributes.addInt("trellis.round", int64(p.round))
	s.markFailed(p.code)
	t.addSpan(s)
}

// outcome returns the name in the semantic conventions for an end with a failure code, "" for success.
func outcome(code string) string {
	switch trellis.Code(code) {
	case "":
		return "success"
	case trellis.TimeoutWall, trellis.TimeoutIdle:
		return "timeout"
	case trellis.CalledOff, agentcall.Cancelled:
		return "cancellation"
	}
	return "failure"
}

// markFailed marks a span as failed, unless code is empty. The failure's message is not sent, since it may quote anything.
func (s *span) markFailed(code string) {
	if code != "" {
		s.Attributes.addString("error.type", code)
		s.Status = errorStatus
	}
}

// addRunSpan adds the span of the whole run, which has ended.
func (t *tree) addRunSpan(h *journal.History) {
	code := ""
	switch {
	case h.End != nil:
		code = h.End.Code
	case t.last.Failure != nil && t.last.Outcome == trellis.OutcomeFailed:
		code = t.last.Failure.Code
	case t.last.Outcome == trellis.OutcomeCancel:
		code = "cancelled"
	}
	task := path.Dir(h.Run)
	s := span{ID: t.spanID(rootID), Name: "invoke_workflow " + task, Kind: internal, Start: nanos(h.Began), End: nanos(h.EndedAt)}
	s.Attributes.addString("gen_ai.operation.name", "invoke_workflow")
	s.Attributes.addString("cicd.pipeline.name", "trellis "+h.Flow)
	s.Attributes.addString("cicd.pipeline.run.id", h.Run)
	s.Attributes.addString("cicd.pipeline.result", outcome(code))
	s.Attributes.addString("trellis.task", task)
	s.Attributes.addString("trellis.outcome", string(t.last.Outcome))
	if t.last.Round > 0 {
		s.Attributes.addInt("trellis.rounds", int64(t.last.Round))
	}
	s.markFailed(code)
	t.addSpan(s)
}

// addActivity adds the span of an activity: a call of an agent, commands, a wait, or something else.
func (t *tree) addActivity(c journal.Entry) {
	s := span{ID: t.spanID(c.ID), Name: c.Activity, Kind: internal, Start: nanos(c.Started), End: nanos(c.Finished)}
	s.Attributes.addString("trellis.activity", c.ID)
	code := ""
	if c.Fail != nil {
		code = c.Fail.Code
	}
	if c.Entries > 1 {
		s.Attributes.addInt("trellis.entries", int64(c.Entries)) // it was interrupted before
	}
	if signal, ok := strings.CutPrefix(c.Activity, "await:"); ok {
		s.Name = "wait " + signal
	}
	if slices.Contains(trellis.Roles, trellis.Role(c.Activity)) {
		code = cmp.Or(t.describeAgentCall(&s, c), code)
	}
	t.phase.code = code
	s.markFailed(code)
	t.addSpan(s)
	t.addCommands(s, c)
}

// describeAgentCall adds what is known of a call of an agent to its span, and returns its failure code.
func (t *tree) describeAgentCall(s *span, c journal.Entry) (code string) {
	var r agentcall.Request
	var reply agentcall.Reply
	if json.Unmarshal(c.In, &r) != nil || c.Fail == nil && json.Unmarshal(c.Out, &reply) != nil {
		return "" // records in an unknown format are ignored
	}
	if reply.Known { // the answer was known, so no agent was called
		return ""
	}
	s.Name, s.Kind = "invoke_agent "+string(r.Role), client
	a := &s.Attributes
	a.addString("gen_ai.operation.name", "invoke_agent")
	a.addString("gen_ai.provider.name", provider(r.Agent, cmp.Or(reply.Model, r.Model)))
	a.addString("gen_ai.agent.name", r.Agent)
	a.addString("gen_ai.request.model", r.Model)
	a.addString("gen_ai.response.model", reply.Model)
	a.addString("gen_ai.conversation.id", reply.Session)
	u := reply.Usage
	if u.Tokens() > 0 {
		a.addInt("gen_ai.usage.input_tokens", u.InputTokens+u.CachedTokens) // by convention this includes cached ones
		a.addInt("gen_ai.usage.output_tokens", u.OutputTokens)
		a.addInt("gen_ai.usage.cache_read.input_tokens", u.CachedTokens)
	}
	if u.CostUSD != nil {
		a.addFloat("trellis.cost.usd", *u.CostUSD)
		a.addBool("trellis.cost.estimated", u.CostEstimated)
		a.addBool("trellis.cost.partial", u.CostPartial)
	}
	a.addString("trellis.role", string(r.Role))
	a.addInt("trellis.round", int64(max(1, r.Round)))
	a.addInt("trellis.attempt", int64(max(1, r.Attempt)))
	if reply.Failure != nil {
		return reply.Failure.Code
	}
	return ""
}

// provider returns the name in the semantic conventions for the provider of an agent's model, "" if unknown.
func provider(agent, model string) string {
	model = model[strings.LastIndexByte(model, '/')+1:]
	for _, known := range []struct{ agent, begins, name string }{{"claude", "claude", "anthropic"}, {"codex", "gpt-", "openai"}, {"gemini", "gemini", "gcp.gemini"}} {
		if strings.HasPrefix(model, known.begins) || model == "" && agent == known.agent {
			return known.name
		}
	}
	return ""
}

// maxCommand is the maximum length of a command line in a span.
const maxCommand = 256

// addCommands adds the commands that an activity ran. Only their durations are recorded: they are placed one after the other, or
// all at the beginning of the activity if they ran concurrently.
func (t *tree) addCommands(parent span, c journal.Entry) {
	var out struct {
		workflow.CommandResult
		Results []pipeline.CommandResult
	}
	if parent.Kind != internal || json.Unmarshal(c.Out, &out) != nil {
		return
	}
	if out.Command != "" {
		out.Results = append(out.Results, pipeline.CommandResult{Command: out.Command, Code: out.Code, Seconds: out.Seconds})
	}
	var all time.Duration
	for _, r := range out.Results {
		all += commandDuration(r)
	}
	at, concurrent := c.Started, all > c.Finished.Sub(c.Started)
	for i, r := range out.Results {
		if r.Earlier {
			continue // it was not run again
		}
		end := at.Add(commandDuration(r))
		s := span{ID: t.spanID(c.ID, "command", strconv.Itoa(i)), Parent: parent.ID, Name: "command", Kind: internal, Start: nanos(at), End: nanos(end)}
		s.Attributes.addString("trellis.command", text.Clip(text.OneLine(t.redact(r.Command)), maxCommand))
		s.Attributes.addInt("process.exit.code", int64(r.Code))
		if r.Code != 0 {
			s.Attributes.addBool("trellis.failed_before", r.Forgiven)
			s.markFailed("exit")
			if !r.Forgiven && c.Activity != "baseline" {
				t.phase.code = string(trellis.VerifyFailed)
			}
		}
		t.addSpan(s)
		if !concurrent {
			at = end
		}
	}
}

func commandDuration(r pipeline.CommandResult) time.Duration {
	if r.Earlier {
		return 0
	}
	return time.Duration(r.Seconds * float64(time.Second))
}
