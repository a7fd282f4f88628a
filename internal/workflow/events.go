package workflow

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Types of events.
const (
	WorkflowStarted  = "workflow_started"
	StepStarted      = "step_started"
	StepIteration    = "step_iteration" // a round of a loop began
	StepOutput       = "step_output"
	StepJudge        = "step_judge"
	StepHealing      = "step_healing"
	StepFinished     = "step_finished" // a step, or a round of a loop
	WorkflowFinished = "workflow_finished"
)

// Event is one event of a run of steps, as `trellis run --json` prints it.
type Event struct {
	Type      string         `json:"type"`
	At        time.Time      `json:"at"`
	Run       string         `json:"run,omitempty"`     // workflow_…: id of the run
	File      string         `json:"file,omitempty"`    // workflow_started
	Resumed   bool           `json:"resumed,omitempty"` // workflow_started: it continues an earlier process
	Step      string         `json:"step,omitempty"`    // path: ids, and the numbers of rounds, as in each.2.build
	Kind      string         `json:"kind,omitempty"`
	Title     string         `json:"title,omitempty"`
	Round     int            `json:"round,omitempty"` // step_iteration: number of the round, of how many, and its item
	Of        int            `json:"of,omitempty"`
	Item      *string        `json:"item,omitempty"`
	Stream    string         `json:"stream,omitempty"`  // step_output: stdout, stderr, log, or the role of an agent
	Tool      string         `json:"tool,omitempty"`    // step_output: a tool that an agent called
	Text      string         `json:"text,omitempty"`    // whole lines of output, feedback on a step, or why it failed
	State     State          `json:"state,omitempty"`   // step_finished, workflow_finished; step_healing: running, then done or failed
	Code      int            `json:"code,omitempty"`    // of the command that failed
	Seconds   float64        `json:"seconds,omitempty"` // step_finished, workflow_finished
	Attempt   int            `json:"attempt,omitempty"` // step_judge, step_healing: from 1
	Pass      *bool          `json:"pass,omitempty"`    // step_judge
	Proof     string         `json:"proof,omitempty"`   // step_finished: hash of the record
	Tolerated bool           `json:"tolerated,omitempty"`
	Usage     *trellis.Usage `json:"usage,omitempty"`  // step_output: what a call of an agent used, when it ends
	Result    *Result        `json:"result,omitempty"` // workflow_finished
}

// Result is the state of a run when its process ends.
type Result struct {
	Exit      int           `json:"exit"` // exit code of the process
	Steps     int           `json:"steps"`
	Done      int           `json:"done"`
	Skipped   int           `json:"skipped"`
	Tolerated int           `json:"tolerated"`
	Failed    []Outcome     `json:"failed"`  // the first ones
	Blocked   []Outcome     `json:"blocked"` // the first ones
	Waits     []Request     `json:"waits"`   // requests that wait for people
	Head      string        `json:"head"`    // of the chain of proofs
	Proven    bool          `json:"proven"`  // every step with a check is proven
	Usage     trellis.Usage `json:"usage"`
	Failure   string        `json:"failure,omitempty"` // why the run as a whole could not continue
}

// Send sends an event that happened now.
func (a *Effects) Send(e Event) {
	if a.Event != nil {
		e.At = a.now().UTC()
		a.Event(e)
	}
}

// sendBegin sends the event that a step, or a round of its loop, began.
func (a *Effects) sendBegin(s *plan.Step, in beginIn) {
	a.mu.Lock()
	if a.startTimes == nil {
		a.startTimes = map[string]time.Time{}
	}
	a.startTimes[in.Path] = a.now()
	a.mu.Unlock()
	e := Event{Type: StepStarted, Step: in.Path, Kind: in.Kind, Title: plan.Fill(s.Title, in.Values)}
	if in.Round > 0 {
		item := in.Values[s.Loop()]
		e.Type, e.Round, e.Of, e.Item = StepIteration, in.Round, in.Of, &item
	}
	a.Send(e)
	if in.Kind == plan.Log && (s.Loop() == "" || in.Round > 0) {
		a.Send(Event{Type: StepOutput, Step: in.Path, Stream: "log", Text: plan.Fill(s.Message, in.Values)})
	}
}

// stepSeconds returns how long a step took that this process began, in seconds, and 0 for any other.
func (a *Effects) stepSeconds(path string) float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	began, ok := a.startTimes[path]
	delete(a.startTimes, path)
	if !ok {
		return 0
	}
	return a.now().Sub(began).Seconds()
}

// EventOf converts an agent's event in a step to one for those who follow the run, if they are to see it.
func EventOf(r agentcall.Request, e agents.Event) (Event, bool) {
	about, ok := aboutOf(r)
	out := Event{Type: StepOutput, Step: about.Path, Stream: string(r.Role), Text: e.Text}
	switch e.Kind {
	case agents.EventTool:
		out.Tool, out.Text = e.Tool, e.Input
	case agents.EventText, agents.EventNotice:
	default:
		ok = false
	}
	return out, ok
}

// CallBeginEvents returns the events at the beginning of an agent's call in a step.
func CallBeginEvents(r agentcall.Request) []Event {
	about, ok := aboutOf(r)
	if !ok || r.Role != trellis.Heal || about.Ran == nil {
		return nil
	}
	return []Event{{Type: StepHealing, Step: about.Path, Attempt: about.Attempt, Code: about.Ran.Code, State: Running}}
}

// CallEndEvents returns the events at the end of an agent's call in a step.
func CallEndEvents(r agentcall.Request, reply agentcall.Reply) (list []Event) {
	about, ok := aboutOf(r)
	if !ok {
		return nil
	}
	e := Event{Step: about.Path, Attempt: about.Attempt, Text: reply.Excerpt}
	if reply.Failure != nil {
		e.Text = reply.Failure.Error()
	}
	switch {
	case r.Role == trellis.Heal && about.Ran != nil:
		e.Type, e.Code, e.State = StepHealing, about.Ran.Code, Done
		if reply.Failure != nil {
			e.State = Failed
		}
		list = append(list, e)
	case r.Role == trellis.Grade && len(reply.Answer) > 0:
		if g, err := agentcall.Decode[Grade](reply); err == nil {
			e.Type, e.Pass, e.Text = StepJudge, &g.Pass, g.Feedback
			list = append(list, e)
		}
	}
	return append(list, Event{Type: StepOutput, Step: about.Path, Stream: string(r.Role), Usage: &reply.Usage})
}

func aboutOf(r agentcall.Request) (d PromptData, ok bool) {
	return d, json.Unmarshal(r.Data, &d) == nil && d.Path != ""
}

// PastEvents returns the events of what a run did before, as far as its journal has them: which steps began, how they ended, and which
// requests wait for people.
func PastEvents(h *journal.History) (list []Event, err error) {
	began := map[string]time.Time{}
	for _, c := range h.Calls {
		var in beginIn
		var out endIn
		switch {
		case c.Activity == string(begin) && c.Done && c.Fail == nil:
			if err := json.Unmarshal(c.In, &in); err != nil {
				return nil, fmt.Errorf("reading %s: %w", c.ID, err)
			}
			began[in.Path] = c.Started
			e := Event{Type: StepStarted, At: c.Started, Step: in.Path, Kind: in.Kind}
			if in.Round > 0 {
				e.Type, e.Round, e.Of = StepIteration, in.Round, in.Of
			}
			list = append(list, e)
		case c.Activity == string(end):
			if err := json.Unmarshal(c.In, &out); err != nil {
				return nil, fmt.Errorf("reading %s: %w", c.ID, err)
			}
			o := out.Outcome
			list = append(list, Event{Type: StepFinished, At: c.Started, Step: o.Path, Kind: out.Kind, State: o.State, Code: o.Code, Text: o.Detail, Tolerated: o.Tolerated,
				Seconds: c.Started.Sub(began[o.Path]).Seconds()})
		}
	}
	open, err := OpenRequests(h)
	for _, q := range open {
		list = append(list, RequestEvent(q))
	}
	return list, err
}

// RequestEvent returns the event of a request to people.
func RequestEvent(q Request) Event {
	return Event{Type: StepOutput, Step: q.Path, Stream: "approval", State: Waiting, Text: q.Title}
}
