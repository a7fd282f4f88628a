// Package plan knows plan.json: its fields, how it is read, what must hold in it beyond its schema, and how
// agents and people are shown it. docs/reference/plan.md is its contract.
package plan

import "encoding/json"

// SchemaVersion is the version of the format that this package writes.
const SchemaVersion = 1

// Plan is a plan.json: what is to be done, in steps, and how one tells that it is done. Its vars are put into
// what Trellis runs whoever does the steps: commands of preconditions and criteria.
type Plan struct {
	SchemaVersion   int                `json:"schema_version"`
	Title           string             `json:"title"`
	Summary         string             `json:"summary,omitempty"`
	Requirements    []string           `json:"requirements,omitempty"`
	DesignDecisions []string           `json:"design_decisions,omitempty"`
	Assumptions     []string           `json:"assumptions,omitempty"`
	Preconditions   []Precondition     `json:"preconditions,omitempty"`
	Files           []File             `json:"files,omitempty"`
	Vars            map[string]*string `json:"vars,omitempty"` // nil: whoever runs the plan gives the value
	Parallel        bool               `json:"parallel,omitempty"`
	Steps           []Step             `json:"steps"`
	Acceptance      []Criterion        `json:"acceptance,omitempty"`
	Uncovered       []Uncovered        `json:"uncovered,omitempty"`
	OutOfScope      []string           `json:"out_of_scope,omitempty"`
	Rollback        []string           `json:"rollback,omitempty"`
	Touches         []string           `json:"touches,omitempty"` // globs

	lines map[string]int    // by JSON pointer, of the file it was read from
	tool  string            // the other tool whose file that is
	own   map[string]string // the pointers in that file, by those of the plan
}

// File is a file that the plan changes.
type File struct {
	Path   string `json:"path"`
	Change string `json:"change"` // edit, new, delete
}

// Precondition must hold before the work begins. In JSON it is a sentence or {"command": "…"}.
type Precondition struct {
	Text    string // shown to people
	Command string // exits 0 when it holds
}

// Criterion is one way to tell that the work is done.
type Criterion struct {
	Criterion string   `json:"criterion"`
	Verify    string   `json:"verify,omitempty"` // a command that exits 0 when it is met
	Level     string   `json:"level,omitempty"`  // must (default), should
	Covers    []string `json:"covers,omitempty"` // acceptance items of the TaskSpec
}

// Uncovered is an acceptance item of the TaskSpec that the plan leaves out.
type Uncovered struct {
	Item   string `json:"item"`
	Reason string `json:"reason"`
}

// Kinds of steps.
const (
	Prompt   = "prompt"   // an agent does it
	Script   = "script"   // a command does it
	Approval = "approval" // a person allows it
	Log      = "log"      // a message
	Workflow = "workflow" // another file
	Group    = "group"    // steps of its own
)

// Step is one part of the work. Type is "" where it follows from the fields; see [Step.Kind].
type Step struct {
	ID             string             `json:"id"`
	Title          string             `json:"title,omitempty"`
	Type           string             `json:"type,omitempty"`
	Description    string             `json:"description,omitempty"`
	DesiredOutcome string             `json:"desired_outcome,omitempty"`
	Prompt         string             `json:"prompt,omitempty"`
	Command        string             `json:"command,omitempty"`
	Message        string             `json:"message,omitempty"`
	Workflow       string             `json:"workflow,omitempty"`
	Vars           map[string]*string `json:"vars,omitempty"` // of the other file
	Steps          []Step             `json:"steps,omitempty"`
	Parallel       bool               `json:"parallel,omitempty"`
	DependsOn      *[]string          `json:"depends_on,omitempty"` // nil: the step before it
	Covers         []string           `json:"covers,omitempty"`
	Verify         string             `json:"verify,omitempty"`
	Proof          *Proof             `json:"proof,omitempty"`
	Risk           string             `json:"risk,omitempty"` // low, medium, high: a person allows it first
	Output         string             `json:"output,omitempty"`
	Context        []string           `json:"context,omitempty"`
	ForEach        *ForEach           `json:"for_each,omitempty"`
	Repeat         int                `json:"repeat,omitempty"`
	As             string             `json:"as,omitempty"`
	Concurrency    int                `json:"concurrency,omitempty"`
	Agent          string             `json:"agent,omitempty"`
	Model          string             `json:"model,omitempty"`
	Session        string             `json:"session,omitempty"` // continue (default), fresh
	AllowedTools   *[]string          `json:"allowed_tools,omitempty"`

	TimeoutSeconds     float64 `json:"timeout_seconds,omitempty"`
	LLMAsJudge         bool    `json:"llm_as_judge,omitempty"`
	MaxJudgeAttempts   int     `json:"max_judge_attempts,omitempty"`
	SelfHealing        bool    `json:"self_healing,omitempty"`
	MaxHealingAttempts int     `json:"max_healing_attempts,omitempty"`
	ContinueOnError    bool    `json:"continue_on_error,omitempty"`
}

// Proof is how a step's outcome is recorded as proven.
type Proof struct {
	Type     string  `json:"type"` // script, test, lint, build, file, manual, composite
	Path     string  `json:"path,omitempty"`
	Contains string  `json:"contains,omitempty"`
	SHA256   string  `json:"sha256,omitempty"`
	All      []Proof `json:"all,omitempty"`
	Any      []Proof `json:"any,omitempty"`
}

// ForEach is what a step is done for, one after the other: a list, or a shell command whose lines are the
// items. In JSON it is a list of strings or a string.
type ForEach struct {
	Items   []string
	Command string
}

// TaskSpec is what a requirement means in a fixed form, before anybody has looked at the code. It is a hint.
type TaskSpec struct {
	UserIntent  string   `json:"user_intent"`
	Goals       []string `json:"goals"`
	Constraints []string `json:"constraints"`
	Artifacts   []string `json:"artifacts"`
	Contexts    []string `json:"contexts"`
	Actions     []Action `json:"actions"`
	Acceptance  []string `json:"acceptance"`
	Priority    string   `json:"priority"` // low, normal, high
}

// Action is something that the TaskSpec sees somebody do.
type Action struct {
	Tool        string          `json:"tool"`
	Params      json.RawMessage `json:"params,omitempty"` // an object
	Description string          `json:"description,omitempty"`
	Reason      string          `json:"reason,omitempty"`
}

// IDs are the ids of all steps, inner ones behind the one they belong to.
func (p *Plan) IDs() []string { return stepIDs(p.Steps) }

func stepIDs(steps []Step) (ids []string) {
	for _, s := range steps {
		ids = append(append(ids, s.ID), stepIDs(s.Steps)...)
	}
	return ids
}
