// Package agentcall puts one question, or one piece of work, to an agent in a role: it renders the prompt,
// runs the agent, takes the answer out of what it said, checks it against its schema, asks once more
// when it is invalid, and tries again when the agent failed for a passing reason.
package agentcall

import (
	"cmp"
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

// Request is one piece of work for an agent. It is journalled: Data holds paths and hashes, no texts.
type Request struct {
	Role           trellis.Role       `json:"role"`
	Agent          string             `json:"agent"` // name of the agent, see agents.New
	Model          string             `json:"model,omitempty"`
	Permission     trellis.Permission `json:"permission"`
	Dir            string             `json:"dir"`
	Session        string             `json:"session,omitempty"`  // a session to go on with
	RestartSession bool               `json:"anew,omitempty"`     // the prompt says all: when the session is gone, another one does
	Template       string             `json:"template,omitempty"` // name of the prompt's template; "" is that of the role
	Schema         string             `json:"schema,omitempty"`   // name of the answer's schema; "" is free text
	Data           json.RawMessage    `json:"data,omitempty"`     // what Caller.Slots and Caller.Check understand
	Repair         *Repair            `json:"repair,omitempty"`
	Limits         Limits             `json:"limits"`
	Round          int                `json:"round,omitempty"`
	Attempt        int                `json:"attempt,omitempty"`
}

func (r Request) template() string {
	return cmp.Or(r.Template, string(r.Role))
}

// Choice is who plays a role.
type Choice struct {
	Agent      string             `json:"agent"`
	Model      string             `json:"model,omitempty"`
	Permission trellis.Permission `json:"permission"`
}

// Limits bound one call. Zero is no limit.
type Limits struct {
	Wall    time.Duration `json:"wall,omitempty"`
	Idle    time.Duration `json:"idle,omitempty"`
	Tokens  int64         `json:"tokens,omitempty"`
	CostUSD float64       `json:"cost_usd,omitempty"`
	Seconds float64       `json:"seconds,omitempty"` // of agents' time for the task, where Wall is for this piece of work
}

// Left is what is left of the limits of a task's calls once so much is used, or the failure that says that a budget is gone.
func (l Limits) Left(used trellis.Usage) (Limits, error) {
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

// ofAgent are the limits as an agent is held to them.
func (l Limits) ofAgent() agents.Limits {
	return agents.Limits{Wall: l.Longest(), Idle: l.Idle, Tokens: l.Tokens, CostUSD: l.CostUSD}
}

// Longest is how long a call may take, by Wall and Seconds together; 0: for ever.
func (l Limits) Longest() time.Duration {
	if rest := time.Duration(l.Seconds * float64(time.Second)); l.Seconds > 0 && (l.Wall <= 0 || rest < l.Wall) {
		return rest
	}
	return l.Wall
}

// explain says of a call that was ended by a limit by which setting that was.
func (r *Request) explain(fail *flow.Failure) {
	l := r.Limits
	switch {
	case fail == nil || !fail.ResumeAt.IsZero(): // the day's
	case fail.Code == string(trellis.TimeoutWall) && l.Longest() != l.Wall:
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

// wallSetting is what sets Limits.Wall of the request.
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

// Repair is what an invalid answer is sent back with.
type Repair struct {
	Problems []string `json:"problems"`
	Previous Ref      `json:"previous"`
}

// Ref is a file of the run's folder.
type Ref struct {
	Path   string `json:"path"` // below run/
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

// Reply is what came of one call. A failed call is data, so that its usage and session are kept.
type Reply struct {
	Answer    json.RawMessage `json:"answer,omitempty"` // satisfies the schema
	Text      Ref             `json:"text"`             // all that the agent said last
	Excerpt   string          `json:"excerpt,omitempty"`
	Problems  []string        `json:"problems,omitempty"` // why there is no Answer
	Failure   *flow.Failure   `json:"failure,omitempty"`
	Session   string          `json:"session,omitempty"`
	Model     string          `json:"model,omitempty"` // that answered; "": nobody told
	Usage     trellis.Usage   `json:"usage"`
	ToolCalls int             `json:"tool_calls"`
	Stop      string          `json:"stop,omitempty"`
	Sandbox   string          `json:"sandbox,omitempty"` // that the agent's program ran in
	Known     bool            `json:"known,omitempty"`   // an earlier run got it, see Caller.Known
	Notes     []string        `json:"notes,omitempty"`   // what had to be left out of the prompt, what was undone
	Prompt    PromptSize      `json:"prompt"`
}

// PromptSize is how large a prompt was, and which one.
type PromptSize struct {
	Bytes  int `json:"bytes"`  // of the system prompt too
	Tokens int `json:"tokens"` // estimated: four bytes a token
	Shared int `json:"shared"` // bytes of its prefix that are the same in every phase

	SHA256 string `json:"sha256,omitempty"` // of system prompt and text
}

func sizeOf(p templates.Prompt) PromptSize {
	size := len(p.System) + len(p.Text)
	return PromptSize{size, (size + 3) / 4, p.Shared, Sum([]byte(p.System + "\x00" + p.Text))}
}

// Policy is how a flow asks. Its functions are flow code.
type Policy struct {
	Repairs int // how often an invalid answer is sent back
	// Again says whether a call that failed for a passing reason may be tried once more, and counts it.
	Again func(*flow.Failure) bool
	// Pause is told when a limit is reached that is lifted by itself, or the provider can't be reached, Resume when the wait is over. Nil: nobody is told.
	Pause  func(flow.Flow, *flow.Failure) error
	Resume func(flow.Flow) error
	// Used gets each call's reply, failed ones too.
	Used func(Reply)
	// Left is what one more call may use after those that Used got, or the failure that says that a budget is gone. Nil: as much as the first.
	Left func() (Limits, error)
	// Begun is the reply to the first call, which was made ahead and counted then. Nil: it is made.
	Begun *Reply
	// Eager asks as soon as a limit's time is over, however often in a row it was not: what runs do that an earlier trellis began.
	Eager bool
}

const (
	backoff    = 10 * time.Second
	maxBackoff = 5 * time.Minute
)

// Call makes the call until it has an answer, or a failure that asking again does not mend: the
// agent's own, or agent_protocol when the answer stays invalid after its repairs.
func (a Policy) Call(f flow.Flow, r Request) (Reply, error) {
	wait := backoff
	var out outage
	var met limit
	for repairs := 0; ; {
		reply, err := a.next(f, r)
		if err != nil {
			return reply, err
		}
		fail := reply.Failure
		if fail == nil || !limited(fail) {
			met = limit{}
		}
		switch {
		case fail == nil && len(reply.Problems) == 0:
			return reply, nil
		case fail == nil && repairs < a.Repairs:
			repairs++
			r.Repair = &Repair{reply.Problems, reply.Text}
		case fail == nil:
			return reply, invalidAnswer(r, reply)
		case limited(fail) && !a.Eager:
			if err := a.pause(f, met.retryAt(fail)); err != nil {
				return reply, err
			}
		case limited(fail) || !down(fail) && !fail.ResumeAt.IsZero():
			if err := a.pause(f, fail); err != nil {
				return reply, err
			}
		case down(fail) && out.worthWaiting(reply):
			if err := a.pause(f, out.retryAt(fail)); err != nil {
				return reply, err
			}
			r.RestartSession = r.RestartSession || r.Repair == nil // the session may be one that was never written down
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

// next makes a call, unless it is the first one and was made ahead.
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

// Cancelled is the code of a call that was under way when its run was cancelled, as journals spell it.
const Cancelled = "cancelled"

// BudgetRaised is the signal that ends the wait for a budget before its time.
const BudgetRaised = "budget"

// pause waits until the time that a failure says: the provider's limit is lifted, it is asked again, or there is a new
// budget. No attempt is used up.
func (a Policy) pause(f flow.Flow, fail *flow.Failure) error {
	if a.Pause != nil {
		if err := a.Pause(f, fail); err != nil {
			return err
		}
	}
	var err error
	if limited(fail) || down(fail) {
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

// pauseOf is how long a failure says to wait, a minute when it does not say.
func pauseOf(fail *flow.Failure) time.Duration {
	if d := fail.ResumeAt.Sub(fail.At); !fail.ResumeAt.IsZero() && d > 0 {
		return d
	}
	return time.Minute
}

func limited(fail *flow.Failure) bool { return fail.Code == string(trellis.RateLimited) }

func down(fail *flow.Failure) bool { return fail.Code == string(trellis.ProviderDown) }

// limit is what a call has come to, as long as it comes to it again each time that it is made. It uses up no attempt.
type limit struct{ wait time.Duration }

// retryAt is the failure with the time at which the call is made again: at first when the provider says, and if that was too
// early ever later, since each try takes from what a run may do, and from the provider.
func (l *limit) retryAt(fail *flow.Failure) *flow.Failure {
	pause := *fail
	if l.wait > pauseOf(fail) {
		pause.ResumeAt = fail.At.Add(l.wait)
	}
	l.wait = min(max(2*l.wait, backoff), maxBackoff)
	return &pause
}

// How long a provider is waited for that can't be reached, and how many calls it may let begin their work in that time
// and then fail.
const (
	firstRetry     = 15 * time.Second
	maxOutage      = 12 * time.Hour
	maxInterrupted = 5
)

// outage is the time in which a provider can't be reached. It uses up no attempt.
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

// retryAt is the failure with the time at which the call is made again: ever later, and not before the provider wants it.
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

// Decode reads the reply's answer.
func Decode[T any](reply Reply) (v T, err error) {
	if err := json.Unmarshal(reply.Answer, &v); err != nil {
		return v, fmt.Errorf("decoding the answer: %w", err)
	}
	return v, nil
}

// Encode makes a request's Data of v, which holds paths and hashes, no texts.
func Encode(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding a request: %w", err)
	}
	return raw, nil
}
