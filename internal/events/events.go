// Package events defines the events of tasks that all user interfaces get.
package events

import (
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Kind is the type of an [Event]. It determines which fields are set besides the first ones.
type Kind string

// The kinds of events.
const (
	Changed    Kind = "changed"     // files of the task were written, or the task appeared or was removed: its state has to be read again
	PhaseBegun Kind = "phase_begun" // Phase, Round; sent again with Call and Agent when an agent is called in the phase
	PhaseEnded Kind = "phase_ended" // Seconds; Failure if the phase failed; Text is a short result
	StepBegun  Kind = "step_begun"  // Step is a step of the plan
	StepEnded  Kind = "step_ended"  // Seconds, Failure
	Checked    Kind = "checked"     // Check is the result of one of the project's commands
	Tool       Kind = "tool"        // the agent used Tool; Text is its input
	Text       Kind = "text"        // the agent wrote Text
	Notice     Kind = "notice"      // Text is a remark worth knowing
	Usage      Kind = "usage"       // Usage is what the call has used so far
	Waiting    Kind = "waiting"     // Wait says what the task waits for; nothing works on the task until then
	Ended      Kind = "ended"       // Outcome is the result of the run or of the planning
)

// Event is one event of a task. Its JSON form is a contract; unset fields are left out.
type Event struct {
	Time    time.Time      `json:"time"`
	Task    string         `json:"task"`          // name of the task directory
	Run     string         `json:"run,omitempty"` // <task>/<number>
	Phase   string         `json:"phase,omitempty"`
	Round   int            `json:"round,omitempty"`
	Step    string         `json:"step,omitempty"` // path of a step of the plan
	Call    string         `json:"call,omitempty"` // id of the activity within the run
	Kind    Kind           `json:"kind"`
	Agent   string         `json:"agent,omitempty"` // agent of the phase
	Tool    string         `json:"tool,omitempty"`
	Text    string         `json:"text,omitempty"`
	Seconds float64        `json:"seconds,omitempty"`
	Usage   *trellis.Usage `json:"usage,omitempty"`
	Check   *Check         `json:"check,omitempty"`
	Wait    *Wait          `json:"wait,omitempty"`
	Outcome *Outcome       `json:"outcome,omitempty"`
	Failure *Failure       `json:"failure,omitempty"`
}

// Check is the result of one of the project's commands.
type Check struct {
	Command  string  `json:"command"`
	N        int     `json:"n"`  // number of the command, from 1
	Of       int     `json:"of"` // number of commands
	Code     int     `json:"code"`
	Last     string  `json:"last,omitempty"`     // last line of the output
	Forgiven bool    `json:"forgiven,omitempty"` // it failed in the same way before the work
	Seconds  float64 `json:"seconds"`
}

// Failed reports whether the result counts against the work.
func (c Check) Failed() bool { return c.Code != 0 && !c.Forgiven }

// Wait says what a task waits for.
type Wait struct {
	For     string    `json:"for"`               // backoff, rate_limit, provider, approval, trust, dependency, slot, checks, watcher, time, budget, person
	Why     string    `json:"why,omitempty"`     // explanation in words
	Until   time.Time `json:"until,omitzero"`    // when the task continues by itself
	Attempt int       `json:"attempt,omitempty"` // number of the next attempt, for a backoff
	Of      int       `json:"of,omitempty"`      // number of attempts
	Next    string    `json:"next,omitempty"`    // command for a person
}

// Outcome is the result of a run: everything that a person wants to know about it at once.
type Outcome struct {
	Status   trellis.Status  `json:"status"`
	Outcome  trellis.Outcome `json:"outcome,omitempty"`
	Seconds  float64         `json:"seconds"`
	Usage    trellis.Usage   `json:"usage"`
	Stat     string          `json:"stat,omitempty"` // changed files, one per line
	Met      int             `json:"met"`            // number of criteria met
	Criteria int             `json:"criteria"`
	Rounds   int             `json:"rounds"`
	Commit   string          `json:"commit,omitempty"`
	Branch   string          `json:"branch,omitempty"`
	Worktree string          `json:"worktree,omitempty"`
	Report   string          `json:"report,omitempty"` // path relative to the main checkout
	Next     string          `json:"next,omitempty"`   // next command for a person
}

// Failure is the reason why something failed.
type Failure struct {
	Code   trellis.Code `json:"code"`
	Detail string       `json:"detail"`
}
