// Package workflow runs the steps of a plan: scripts, prompts, groups, loops, other files, messages, and waits for people. A run
// that was killed continues where it stopped, and finished steps are not repeated. docs/reference/workflow.md is its contract.
package workflow

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Options say which steps of a bundle run, and how.
type Options struct {
	Dir      string `json:"dir,omitempty"`  // where they work; "": the Dir of Acts
	Only     string `json:"only,omitempty"` // path of the one step to run, such as build or each.2.compile
	From     string `json:"from,omitempty"` // the first step
	To       string `json:"to,omitempty"`   // the last one
	FailFast bool   `json:"fail_fast,omitempty"`
	Serial   bool   `json:"serial,omitempty"` // run one step at a time, whatever the plan says; FailFast does that too
	// Verified says that somebody else runs the plan's verification steps, which are at its end.
	Verified bool `json:"verified,omitempty"`
	// Grouped says that this includes verification steps that are groups or loops.
	Grouped bool `json:"grouped,omitempty"`
	// Finished are the steps, and rounds of loops, that earlier runs finished, as returned by the function Finished.
	Finished map[string]string `json:"finished,omitempty"`
}

// Host is what a run of steps needs from whoever runs it. Its functions are flow code. They may be called concurrently by steps
// that run at the same time, unless Options.Serial or FailFast is set.
type Host struct {
	// Ask makes a call of an agent in a role, within limits and budgets of the host.
	Ask func(flow.Flow, Question) (agentcall.Reply, error)
	// Wait returns nil once people have approved, or a *flow.Failure approval_rejected.
	Wait func(flow.Flow, Request) error
	// Own reports whether the failure of an agent fails only its step, so that other steps go on. Nil: it ends the run, unless the
	// step says continue_on_error.
	Own func(*flow.Failure) bool
	// Mend tries to fix what made a step fail, and reports whether the step is worth another try. May be nil.
	Mend func(flow.Flow, Trouble) (bool, error)
}

// Question is a call of an agent for a step.
type Question struct {
	Role    trellis.Role // implement, grade, heal
	Step    *plan.Step
	Data    PromptData
	Session string // session to be continued
}

// Template returns the template of the prompt, "" for that of the role.
func (q Question) Template() string {
	if q.Role == trellis.Implement {
		return "step"
	}
	return ""
}

// Schema returns the schema of the answer, "" for free text.
func (q Question) Schema() string {
	if q.Role == trellis.Grade {
		return "grade"
	}
	return ""
}

// Limit returns how long the call may take according to the step, 0 if it does not say.
func (q Question) Limit() time.Duration { return seconds(*q.Step) }

// readOnlyTools are the tools that change nothing, as agents and people spell them.
var readOnlyTools = []string{"read", "glob", "grep", "ls", "list", "find", "search"}

// Who returns who is called, given the choice for the role: a step may name its own agent and model, and restrict permissions.
func (q Question) Who(c agentcall.Choice) agentcall.Choice {
	if q.Role != trellis.Implement {
		return c
	}
	if q.Step.Agent != "" && q.Step.Agent != c.Agent {
		c.Agent, c.Model = q.Step.Agent, ""
	}
	if q.Step.Model != "" {
		c.Model = q.Step.Model
	}
	tools := q.Step.AllowedTools
	switch {
	case tools == nil:
	case len(*tools) == 0:
		c.Permission = trellis.PermitNone
	case !slices.ContainsFunc(*tools, func(t string) bool { return !slices.Contains(readOnlyTools, strings.ToLower(t)) }):
		c.Permission = trellis.PermitRead
	}
	return c
}

// PromptData is the Data of a step's request, from which its prompt is made.
type PromptData struct {
	Dir     string            `json:"dir,omitempty"`
	Bundle  string            `json:"bundle"`
	Place   plan.Place        `json:"place"`
	Path    string            `json:"path"`
	Values  map[string]string `json:"values,omitempty"`  // of placeholders
	Tries   []string          `json:"tries,omitempty"`   // feedback on earlier tries
	Before  *agentcall.Ref    `json:"before,omitempty"`  // the answer that was refused; grade: the answer to judge
	Tree    string            `json:"tree,omitempty"`    // tree of the folder before the step
	Ran     *CommandResult    `json:"ran,omitempty"`     // heal: the command that failed
	Again   bool              `json:"again,omitempty"`   // the session knows the task already
	Attempt int               `json:"attempt,omitempty"` // number of the attempt at the step, its grading or its healing
}

// Request is what people have to approve before a step.
type Request struct {
	Path        string   `json:"path"`
	Title       string   `json:"title"`
	Description string   `json:"description,omitempty"`
	Lets        []string `json:"lets,omitempty"` // the steps that run after the approval
	Hash        string   `json:"hash"`           // of what is approved
	Approvers   int      `json:"approvers"`      // how many different people have to approve; below 1 means 1
}

// Trouble is a step that failed.
type Trouble struct {
	Path   string
	Title  string
	Detail string
	Ran    *CommandResult // the command that failed, nil if none did
}

// State is how a step ended.
type State string

const (
	Done    State = "done"
	Failed  State = "failed"
	Blocked State = "blocked" // a step that it depends on failed
	Skipped State = "skipped" // not chosen, or the run was over

	// States of steps that have not ended, for those who follow a run.
	Running     State = "running"
	Waiting     State = "waiting"     // for a decision of people
	Interrupted State = "interrupted" // the run continues later
)

// Outcome is how a step ended, and why.
type Outcome struct {
	Path      string   `json:"path"`
	State     State    `json:"state"`
	Code      int      `json:"code,omitempty"` // exit code of the command that failed it
	Detail    string   `json:"detail,omitempty"`
	Because   []string `json:"because,omitempty"`   // blocked: the chain of causes
	Tolerated bool     `json:"tolerated,omitempty"` // failed with continue_on_error
	Proof     string   `json:"proof,omitempty"`     // hash of the record
	TimedOut  bool     `json:"timed_out,omitempty"`
	Refused   bool     `json:"refused,omitempty"` // by a person
	Empty     bool     `json:"empty,omitempty"`   // its loop had no items: nothing was done

	inner Report // report of the steps within it
}

// allowsNext reports whether steps that depend on this one may run.
func (o Outcome) allowsNext() bool { return o.State == Done || o.State == Skipped || o.Tolerated }

// Report describes how a run ended.
type Report struct {
	Steps    int       `json:"steps"` // that ended; those within a loop count in each round
	Done     int       `json:"done"`
	Skipped  int       `json:"skipped,omitempty"`
	Failed   int       `json:"failed,omitempty"`
	Blocked  int       `json:"blocked,omitempty"`
	Tolerate int       `json:"tolerated,omitempty"` // failures of steps that say continue_on_error
	Worst    []Outcome `json:"worst,omitempty"`     // failed or blocked steps, the first ones
	Empty    []string  `json:"empty,omitempty"`     // paths of loops without items, the first ones
	TimedOut bool      `json:"timed_out,omitempty"` // a step failed at a time limit
}

// Failure says why the run did not end well. It returns nil if it did.
func (r Report) Failure() *flow.Failure {
	if r.Failed == 0 && r.Blocked == 0 {
		return nil
	}
	for _, o := range r.Worst {
		if o.State == Failed && o.Refused && !o.Tolerated {
			return flow.Fail(string(trellis.ApprovalRejected), "step %s was %s", o.Path, o.Detail)
		}
		if o.State == Failed && !o.Tolerated {
			return flow.Fail(string(trellis.StepFailed), "step %s failed: %s", o.Path, o.Detail)
		}
	}
	return flow.Fail(string(trellis.StepFailed), "%d steps failed, %d were blocked", r.Failed, r.Blocked)
}

// CommandResult is how a command ended. Code is 128 plus the number for a signal, and 124 for a time limit.
type CommandResult struct {
	Command  string        `json:"command"`
	Code     int           `json:"code"`
	Signal   string        `json:"signal,omitempty"`
	TimedOut bool          `json:"timed_out,omitempty"`
	Seconds  float64       `json:"seconds"`
	Stdout   agentcall.Ref `json:"stdout"`
	Stderr   agentcall.Ref `json:"stderr"`
	Tail     string        `json:"tail,omitempty"`    // the end of its output
	Sandbox  string        `json:"sandbox,omitempty"` // name of the sandbox that it ran in
}

// The activities of a run, besides the calls of its roles.
const (
	begin       flow.Act[beginIn, beginResult]   = "begin"
	end         flow.Act[endIn, ended]           = "end"
	shell       flow.Act[shellIn, CommandResult] = "script"
	items       flow.Act[shellIn, itemsResult]   = "items"
	prove       flow.Act[proveIn, proofResult]   = "proof"
	checkOutput flow.Act[outputIn, outputOut]    = "output"
	halt        flow.Act[haltIn, struct{}]       = "halt"
)

// IsDetail reports whether an activity of steps is left out where people read about a run, unless it failed.
func IsDetail(activity string) bool {
	return slices.Contains([]string{string(begin), string(end), string(shell), string(items), string(prove), string(checkOutput), string(halt), string(request)}, activity)
}

type (
	beginIn struct {
		Dir    string            `json:"dir,omitempty"`
		Bundle string            `json:"bundle"`
		Place  plan.Place        `json:"place"`
		Path   string            `json:"path"`
		Kind   string            `json:"kind"`
		Values map[string]string `json:"values,omitempty"`
		Loop   string            `json:"loop,omitempty"`  // path of the concurrent loop that this is a round of
		Round  int               `json:"round,omitempty"` // number of the round
		Of     int               `json:"of,omitempty"`    // number of rounds of the loop
	}
	beginResult struct {
		Stop   bool   `json:"stop,omitempty"`   // the run, or the loop, is over
		Output string `json:"output,omitempty"` // sha256 of the file that a prompt step has to write, before the step
		Tree   string `json:"tree,omitempty"`   // tree of the folder, for those who judge the step
	}
	endIn struct {
		Outcome Outcome `json:"outcome"`
		Kind    string  `json:"kind"`
		Hash    string  `json:"hash,omitempty"` // mark by which a later run recognizes it
	}
	ended   struct{}
	shellIn struct {
		Dir     string            `json:"dir,omitempty"`
		Bundle  string            `json:"bundle"`
		Place   plan.Place        `json:"place"`
		Path    string            `json:"path"`
		Field   string            `json:"field"` // command, verify, for_each
		Values  map[string]string `json:"values,omitempty"`
		Loops   []string          `json:"loops,omitempty"`  // names of values that are put into a script's environment
		Output  string            `json:"output,omitempty"` // file for the stdout of a successful run
		Timeout time.Duration     `json:"timeout,omitempty"`
	}
	itemsResult struct {
		Ran   CommandResult `json:"ran"`
		Items []string      `json:"items"`
	}
	proveIn struct {
		Dir      string            `json:"dir,omitempty"`
		Bundle   string            `json:"bundle"`
		Place    plan.Place        `json:"place"`
		Path     string            `json:"path"`
		Kind     string            `json:"kind"`
		Values   map[string]string `json:"values,omitempty"`
		Ran      *CommandResult    `json:"ran,omitempty"`
		Session  string            `json:"session,omitempty"`
		Approved bool              `json:"approved,omitempty"`
	}
	proofResult struct {
		Hash string `json:"hash,omitempty"`
		Why  string `json:"why,omitempty"` // why it is not proven
	}
	outputIn struct {
		Dir    string `json:"dir,omitempty"`
		File   string `json:"file"`
		Before string `json:"before,omitempty"`
	}
	outputOut struct {
		Why string `json:"why,omitempty"`
	}
	haltIn struct {
		Loop string `json:"loop,omitempty"` // path; "" is the whole run
	}
)

// Run runs the steps of a bundle. The Report says how steps ended; an error is what keeps the run from continuing.
func Run(f flow.Flow, b *plan.Bundle, h Host, o Options) (Report, error) {
	r := &run{b: b, host: h, o: o}
	p := b.Plan("")
	if p == nil {
		return Report{}, flow.Fail(string(trellis.InvalidTask), "the plan %s is gone", b.Hash)
	}
	var err error
	if r.choice, err = choose(b, o, false); err != nil {
		return Report{}, err
	}
	_, rep, err := r.runSteps(f, p.Steps, scope{values: values(p.Vars, b.Given), sessions: map[string]string{}}, p.Parallel)
	return rep, err
}

type run struct {
	b      *plan.Bundle
	host   Host
	o      Options
	choice choice
}

// scope is the place of a list of steps, and what the steps can use.
type scope struct {
	place          plan.Place
	path           string            // of the step that contains the list
	numbers        []int             // the same place in numbers, including rounds
	values         map[string]string // of placeholders
	loops          []string          // names of values that are loop variables
	concurrentLoop string            // path of the concurrent loop of which a round is about to begin
	sessions       map[string]string // by agent and model; nil: every prompt begins a session
	tolerated      bool              // a step around the list says continue_on_error
}

// values returns the values of a plan's variables. Those that a person gave take precedence.
func values(vars map[string]*string, given map[string]string) map[string]string {
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		v := vars[name]
		if value, ok := given[name]; ok {
			all[name] = value
		} else if v != nil {
			all[name] = *v
		}
	}
	return all
}

func join(path, id string) string { return strings.TrimPrefix(path+"."+id, ".") }

func scopeName(s plan.Step) string { return "step-" + s.ID }
