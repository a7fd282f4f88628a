// Package agentcall calls an agent in a role with one question or piece of work. It renders the prompt, runs the agent, extracts
// the answer from its output and checks it against its schema. It asks again if the answer is invalid, and retries if the agent
// failed for a transient reason.
package agentcall

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/templates"
)

// Request is one piece of work for an agent. It is journalled, so Data holds paths and hashes, not texts.
type Request struct {
	Role           trellis.Role       `json:"role"`
	Agent          string             `json:"agent"` // name of the agent, see agents.New
	Model          string             `json:"model,omitempty"`
	Permission     trellis.Permission `json:"permission"`
	Dir            string             `json:"dir"`
	Session        string             `json:"session,omitempty"`  // the session to resume
	RestartSession bool               `json:"anew,omitempty"`     // the prompt is complete: a new session may replace one that no longer exists
	Template       string             `json:"template,omitempty"` // name of the prompt's template; "" means that of the role
	Schema         string             `json:"schema,omitempty"`   // name of the answer's schema; "" means free text
	Data           json.RawMessage    `json:"data,omitempty"`     // input for Caller.Slots and Caller.Check
	Repair         *Repair            `json:"repair,omitempty"`
	Limits         Limits             `json:"limits"`
	Round          int                `json:"round,omitempty"`
	Attempt        int                `json:"attempt,omitempty"`
}

// Choice is the agent chosen for a role.
type Choice struct {
	Agent      string             `json:"agent"`
	Model      string             `json:"model,omitempty"`
	Permission trellis.Permission `json:"permission"`
}

// Limits bound one call. Zero means no limit.
type Limits struct {
	Wall    time.Duration `json:"wall,omitempty"`
	Idle    time.Duration `json:"idle,omitempty"`
	Tokens  int64         `json:"tokens,omitempty"`
	CostUSD float64       `json:"cost_usd,omitempty"`
	Seconds float64       `json:"seconds,omitempty"` // agents' time for the whole task; Wall is for this piece of work
}

// Remaining returns what is left of the limits of a task's calls after the given usage, or a failure if a budget is used up.
func (l Limits) Remaining(used trellis.Usage) (Limits, error) {
	rest := l
	if l.Tokens > 0 {
		if rest.Tokens -= used.Tokens(); rest.Tokens <= 0 {
			return rest, flow.Fail(string(trellis.BudgetTokens), "agents used %d tokens of limits.tokens, which is %d", used.Tokens(), l.Tokens)
		}
	}
	if l.CostUSD > 0 && used.CostUSD != nil {
		if rest.CostUSD -= *used.CostUSD; rest.CostUSD <= 0 {
			return rest, flow.Fail(string(trellis.BudgetCost), "agents cost $%.2f of limits.cost_usd, which is $%.2f", *used.CostUSD, l.CostUSD)
		}
	}
	if l.Seconds > 0 {
		if rest.Seconds -= used.Seconds; rest.Seconds <= 0 {
			return rest, flow.Fail(string(trellis.BudgetTime), "agents worked %.0f seconds of limits.seconds, which is %.0f", used.Seconds, l.Seconds)
		}
	}
	return rest, nil
}

// agentLimits returns the limits that the agent itself enforces.
func (l Limits) agentLimits() agents.Limits {
	return agents.Limits{Wall: l.MaxDuration(), Idle: l.Idle, Tokens: l.Tokens, CostUSD: l.CostUSD}
}

// MaxDuration returns how long a call may take, given both Wall and Seconds; 0 means no limit.
func (l Limits) MaxDuration() time.Duration {
	if rest := time.Duration(l.Seconds * float64(time.Second)); l.Seconds > 0 && (l.Wall <= 0 || rest < l.Wall) {
		return rest
	}
	return l.Wall
}

// explain adds to the failure of a call that was ended by a limit the name of the setting behind that limit.
func (r *Request) explain(fail *flow.Failure) {
	l := r.Limits
	switch {
	case fail == nil || !fail.ResumeAt.IsZero(): // not a limit, or one of the day's budget
	case fail.Code == string(trellis.TimeoutWall) && l.MaxDuration() != l.Wall:
		fail.Code = string(trellis.BudgetTime)
		fail.Detail += ", which is what was left of limits.seconds"
	case fail.Code == string(trellis.TimeoutWall) && l.Wall > 0:
		fail.Detail += fmt.Sprintf("; %s is %s", r.wallSetting(), l.Wall)
	case fail.Code == string(trellis.BudgetTokens) && l.Tokens > 0:
		fail.Detail += ", by what was left of limits.tokens"
	case fail.Code == string(trellis.BudgetCost) && l.CostUSD > 0:
		fail.Detail += ", by what was left of limits.cost_usd"
	}
}

// wallSetting returns the name of the setting for Limits.Wall of the request.
func (r *Request) wallSetting() string {
	switch {
	case r.Role == trellis.Implement && r.Template != "":
		return "limits.implement, or timeout_seconds of the step,"
	case r.Role == trellis.Heal:
		return "limits.debug"
	case slices.Contains([]trellis.Role{trellis.Implement, trellis.Check, trellis.Debug, trellis.Accept}, r.Role):
		return "limits." + string(r.Role)
	}
	return "limits.evaluate"
}

// Repair is sent back to the agent with an invalid answer.
type Repair struct {
	Problems []string `json:"problems"`
	Previous Ref      `json:"previous"`
}

// Ref is a file in the run's folder.
type Ref struct {
	Path   string `json:"path"` // relative to run/
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

// Reply is the outcome of one call. A failed call has a Reply too, so that its usage and session are kept.
type Reply struct {
	Answer    json.RawMessage `json:"answer,omitempty"` // satisfies the schema
	Text      Ref             `json:"text"`             // the whole last message of the agent
	Excerpt   string          `json:"excerpt,omitempty"`
	Problems  []string        `json:"problems,omitempty"` // why there is no Answer
	Failure   *flow.Failure   `json:"failure,omitempty"`
	Session   string          `json:"session,omitempty"`
	Model     string          `json:"model,omitempty"` // model that answered; "" if not known
	Usage     trellis.Usage   `json:"usage"`
	ToolCalls int             `json:"tool_calls"`
	Stop      string          `json:"stop,omitempty"`
	Sandbox   string          `json:"sandbox,omitempty"` // name of the sandbox that the agent's program ran in
	Known     bool            `json:"known,omitempty"`   // the reply is from an earlier run, see Caller.Known
	Notes     []string        `json:"notes,omitempty"`   // what was left out of the prompt, or undone after the call
	Prompt    PromptSize      `json:"prompt"`
}

// PromptSize is the size and the hash of a prompt.
type PromptSize struct {
	Bytes  int `json:"bytes"`  // including the system prompt
	Tokens int `json:"tokens"` // estimated as four bytes per token
	Shared int `json:"shared"` // bytes of its prefix that are the same in every phase

	SHA256 string `json:"sha256,omitempty"` // of system prompt and text
}

func sizeOf(p templates.Prompt) PromptSize {
	size := len(p.System) + len(p.Text)
	return PromptSize{size, (size + 3) / 4, p.Shared, SHA256Hex([]byte(p.System + "\x00" + p.Text))}
}

// Policy says how a flow makes calls. Its functions are flow code.
type Policy struct {
	Repairs int // how often an invalid answer is sent back for repair
	// Again reports whether a call that failed for a transient reason may be retried, and counts the retry.
	Again func(*flow.Failure) bool
	// Pause is called before waiting for a limit to be lifted or for a provider that can't be reached, Resume after it. May be
	// nil.
	Pause  func(flow.Flow, *flow.Failure) error
	Resume func(flow.Flow) error
	// Used is called with the reply of each call, failed ones too.
	Used func(Reply)
	// Left returns what the next call may use after those reported to Used, or a failure if a budget is gone. Nil: as the first.
	Left func() (Limits, error)
	// Begun is the reply to the first call if that was made ahead of time and counted then. Nil: the call is made.
	Begun *Reply
	// Eager retries as soon as a rate limit's time is over, each time. Runs begun by an earlier trellis do so.
	Eager bool
}

const (
	backoff    = 10 * time.Second
	maxBackoff = 5 * time.Minute
)

// Call makes the call until there is an answer, or a failure that asking again does not fix: the agent's own, or agent_protocol
// if the answer is still invalid after its repairs.
func (a Policy) Call(f flow.Flow, r Request) (Reply, error) {
	wait := backoff
	var out outage
	var rateLimits rateLimitBackoff
	for repairs := 0; ; {
		reply, err := a.next(f, r)
		if err != nil {
			return reply, err
		}
		fail := reply.Failure
		if fail == nil || !isRateLimited(fail) {
			rateLimits = rateLimitBackoff{}
		}
		switch {
		case fail == nil && len(reply.Problems) == 0:
			return reply, nil
		case fail == nil && repairs < a.Repairs:
			repairs++
			r.Repair = &Repair{reply.Problems, reply.Text}
		case fail == nil:
			return reply, invalidAnswer(r, reply)
		case isRateLimited(fail) && !a.Eager:
			if err := a.pause(f, rateLimits.retryAt(fail)); err != nil {
				return reply, err
			}
		case isRateLimited(fail) || !isProviderDown(fail) && !fail.ResumeAt.IsZero():
			if err := a.pause(f, fail); err != nil {
				return reply, err
			}
		case isProviderDown(fail) && out.worthWaiting(reply):
			if err := a.pause(f, out.retryAt(fail)); err != nil {
				return reply, err
			}
			r.RestartSession = r.RestartSession || r.Repair == nil // the session may never have been stored
		case fail.Retryable && a.Again != nil && a.Again(fail):
			if err := f.Sleep(wait); err != nil {
				return reply, err
			}
			wait = min(2*wait, maxBackoff)
		default:
			return reply, fail
		}
		r.Session = reply.Session
		if a.Left != nil {
			if r.Limits, err = a.Left(); err != nil {
				return reply, err
			}
		}
	}
}

// next makes a call, or returns the reply of the first call if that was made ahead of time.
func (a *Policy) next(f flow.Flow, r Request) (Reply, error) {
	if begun := a.Begun; begun != nil {
		a.Begun = nil
		return *begun, nil
	}
	reply, err := flow.Act[Request, Reply](r.Role).Do(f, r)
	if err == nil && a.Used != nil {
		a.Used(reply)
	}
	if fail := reply.Failure; err == nil && fail != nil && fail.Code == Cancelled {
		err = flow.ErrCancelled
	}
	return reply, err
}

// Cancelled is the failure code, in journals, of a call that was under way when its run was cancelled.
const Cancelled = "cancelled"

// BudgetRaised is the signal that ends the wait for a budget early.
const BudgetRaised = "budget"

// pause waits until the time that a failure gives: when the provider lifts its limit, is asked again, or a new budget starts. It
// uses up no attempt.
func (a Policy) pause(f flow.Flow, fail *flow.Failure) error {
	if a.Pause != nil {
		if err := a.Pause(f, fail); err != nil {
			return err
		}
	}
	var err error
	if isRateLimited(fail) || isProviderDown(fail) {
		err = f.Sleep(pauseOf(fail))
	} else {
		_, err = f.Await(BudgetRaised, pauseOf(fail), nil)
	}
	if err != nil {
		return err
	}
	if a.Resume != nil {
		return a.Resume(f)
	}
	return nil
}

// pauseOf returns how long to wait after a failure, one minute if the failure does not say.
func pauseOf(fail *flow.Failure) time.Duration {
	if d := fail.ResumeAt.Sub(fail.At); !fail.ResumeAt.IsZero() && d > 0 {
		return d
	}
	return time.Minute
}

func isRateLimited(fail *flow.Failure) bool { return fail.Code == string(trellis.RateLimited) }

func isProviderDown(fail *flow.Failure) bool { return fail.Code == string(trellis.ProviderDown) }

// rateLimitBackoff tracks consecutive rate limits of a call. They use up no attempt.
type rateLimitBackoff struct{ wait time.Duration }

// retryAt returns the failure with the time of the next try: first the time that the provider gives, then, if that was too early,
// after increasing delays, since each try costs the run and the provider something.
func (l *rateLimitBackoff) retryAt(fail *flow.Failure) *flow.Failure {
	pause := *fail
	if l.wait > pauseOf(fail) {
		pause.ResumeAt = fail.At.Add(l.wait)
	}
	l.wait = min(max(2*l.wait, backoff), maxBackoff)
	return &pause
}

// How long to wait for a provider that can't be reached, and how many calls may fail in that time after the provider let them
// begin.
const (
	firstRetry     = 15 * time.Second
	maxOutage      = 12 * time.Hour
	maxInterrupted = 5
)

// outage tracks a time in which a provider can't be reached. It uses up no attempt.
type outage struct {
	wait, waited time.Duration
	interrupted  int
}

func (o *outage) worthWaiting(r Reply) bool {
	if r.Usage.Tokens() > 0 {
		o.interrupted++
	}
	return o.waited < maxOutage && o.interrupted <= maxInterrupted
}

// retryAt returns the failure with the time of the next try: after increasing delays, and not before the time the provider gives.
func (o *outage) retryAt(fail *flow.Failure) *flow.Failure {
	o.wait = min(max(2*o.wait, firstRetry), maxBackoff)
	pause := *fail
	if next := fail.At.Add(o.wait); next.After(pause.ResumeAt) {
		pause.ResumeAt = next
	}
	o.waited += pause.ResumeAt.Sub(fail.At)
	return &pause
}

func invalidAnswer(r Request, reply Reply) *flow.Failure {
	return flow.Fail(string(trellis.AgentProtocol), "the %s agent's answer is invalid: %s; it is kept in run/%s",
		r.Role, strings.Join(reply.Problems, "; "), reply.Text.Path)
}

// Decode decodes the answer of a reply.
func Decode[T any](reply Reply) (v T, err error) {
	if err := json.Unmarshal(reply.Answer, &v); err != nil {
		return v, fmt.Errorf("decoding the answer: %w", err)
	}
	return v, nil
}

// Encode encodes v as the Data of a request. v must hold paths and hashes, not texts.
func Encode(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding a request: %w", err)
	}
	return raw, nil
}
