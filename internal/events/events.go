// Package events has what happens to tasks, as every face is told of it.
package events

import (
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Kind says what happened, and by that which of the fields of an [Event] are set beside its first ones.
type Kind string

// The kinds of events.
const (
	Changed    Kind = "changed"     // files of the task were written, or it appeared or is gone: what is known of it has to be read again
	PhaseBegun Kind = "phase_begun" // Phase, Round; a second time with Call and Agent when an agent is asked in it
	PhaseEnded Kind = "phase_ended" // Seconds; Failure when it came to none; Text is what came of it in a few words
	StepBegun  Kind = "step_begun"  // Step, of the plan
	StepEnded  Kind = "step_ended"  // Seconds, Failure
	Checked    Kind = "checked"     // Check: one of the project's commands ended
	Tool       Kind = "tool"        // the agent used a tool: Tool, Text is its input
	Text       Kind = "text"        // the agent said Text
	Notice     Kind = "notice"      // Text is worth knowing
	Usage      Kind = "usage"       // Usage is what the call has used so far
	Waiting    Kind = "waiting"     // Wait: nobody works on the task until that is over
	Ended      Kind = "ended"       // Outcome: the run, or the planning, is over
)

// Event is one thing that happened. Its JSON is a contract: what is not set is left out.
type Event struct {
	Time    time.Time      `json:"time"`
	Task    string         `json:"task"`          // the directory's name
	Run     string         `json:"run,omitempty"` // <task>/<number>
	Phase   string         `json:"phase,omitempty"`
	Round   int            `json:"round,omitempty"`
	Step    string         `json:"step,omitempty"` // path of a step of the plan
	Call    string         `json:"call,omitempty"` // id of the activity in the run
	Kind    Kind           `json:"kind"`
	Agent   string         `json:"agent,omitempty"` // who plays the phase
	Tool    string         `json:"tool,omitempty"`
	Text    string         `json:"text,omitempty"`
	Seconds float64        `json:"seconds,omitempty"`
	Usage   *trellis.Usage `json:"usage,omitempty"`
	Check   *Check         `json:"check,omitempty"`
	Wait    *Wait          `json:"wait,omitempty"`
	Outcome *Outcome       `json:"outcome,omitempty"`
	Failure *Failure       `json:"failure,omitempty"`
}

// Check is how one of the project's commands ended.
type Check struct {
	Command  string  `json:"command"`
	N        int     `json:"n"`  // it is the N-th
	Of       int     `json:"of"` // of so many
	Code     int     `json:"code"`
	Last     string  `json:"last,omitempty"`     // line of its output
	Forgiven bool    `json:"forgiven,omitempty"` // it failed as it did before the work
	Seconds  float64 `json:"seconds"`
}

// Failed reports whether it speaks against the work.
func (c Check) Failed() bool { return c.Code != 0 && !c.Forgiven }

// Wait is what a task waits for.
type Wait struct {
	For     string    `json:"for"`               // backoff, rate_limit, provider, approval, trust, dependency, slot, checks, watcher, time, budget, person
	Why     string    `json:"why,omitempty"`     // in words
	Until   time.Time `json:"until,omitzero"`    // when it goes on by itself
	Attempt int       `json:"attempt,omitempty"` // of a backoff: which comes next
	Of      int       `json:"of,omitempty"`      // of so many
	Next    string    `json:"next,omitempty"`    // what a person can type
}

// Outcome is how a run ended, all that a person wants to know of it at once.
type Outcome struct {
	Status   trellis.Status  `json:"status"`
	Outcome  trellis.Outcome `json:"outcome,omitempty"`
	Seconds  float64         `json:"seconds"`
	Usage    trellis.Usage   `json:"usage"`
	Stat     string          `json:"stat,omitempty"` // what was changed, a line a file
	Met      int             `json:"met"`            // criteria
	Criteria int             `json:"criteria"`
	Rounds   int             `json:"rounds"`
	Commit   string          `json:"commit,omitempty"`
	Branch   string          `json:"branch,omitempty"`
	Worktree string          `json:"worktree,omitempty"`
	Report   string          `json:"report,omitempty"` // relative to the main checkout
	Next     string          `json:"next,omitempty"`   // command
}

// Failure is why something came to nothing.
type Failure struct {
	Code   trellis.Code `json:"code"`
	Detail string       `json:"detail"`
}
