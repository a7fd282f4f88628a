// Package plan implements plan.json: its fields, how it is read, what must hold in it beyond its schema, and how it is shown to
// agents and people. docs/reference/plan.md is its contract.
package plan

import "encoding/json"

// SchemaVersion is the version of the format that this package writes.
const SchemaVersion = 1

// Plan is a plan.json: what is to be done, in steps, and how to tell that it is done. Its vars are filled into the commands
// that Trellis runs regardless of who carries out the steps: those of preconditions and criteria.
type Plan struct {
	SchemaVersion   int                `json:"schema_version"`
	Title           string             `json:"title"`
	Summary         string             `json:"summary,omitempty"`
	Requirements    []string           `json:"requirements,omitempty"`
	DesignDecisions []string           `json:"design_decisions,omitempty"`
	Assumptions     []string           `json:"assumptions,omitempty"`
	Preconditions   []Precondition     `json:"preconditions,omitempty"`
	Files           []File             `json:"files,omitempty"`
	Vars            map[string]*string `json:"vars,omitempty"` // nil: the value is given by whoever runs the plan
	Parallel        bool               `json:"parallel,omitempty"`
	Steps           []Step             `json:"steps"`
	Acceptance      []Criterion        `json:"acceptance,omitempty"`
	Uncovered       []Uncovered        `json:"uncovered,omitempty"`
	OutOfScope      []string           `json:"out_of_scope,omitempty"`
	Rollback        []string           `json:"rollback,omitempty"`
	Touches         []string           `json:"touches,omitempty"` // globs

	lines     map[string]int    // line numbers in the file it was read from, by JSON pointer
	tool      string            // the tool whose file it was converted from; "" for a plan.json
	originals map[string]string // JSON pointers in that file, by those in the plan
}

// File is a file that the plan changes.
type File struct {
	Path   string `json:"path"`
	Change string `json:"change"` // edit, new, delete
}

// Precondition must hold before the work begins. In JSON it is a sentence or {"command": "…"}.
type Precondition struct {
	Text    string // "" if there is a command
	Command string // exits with 0 if the precondition holds
}

// Criterion is one way to tell that the work is done.
type Criterion struct {
	Criterion string   `json:"criterion"`
	Verify    string   `json:"verify,omitempty"` // a command that exits with 0 if the criterion is met
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
	Prompt   = "prompt"   // done by an agent
	Script   = "script"   // done by a command
	Approval = "approval" // allowed by a person
	Log      = "log"      // a message
	Workflow = "workflow" // the steps of another file
	Group    = "group"    // inner steps
)

// Step is one part of the work. If Type is "", it follows from the other fields; see [Step.Kind].
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
	Vars           map[string]*string `json:"vars,omitempty"` // for the vars of the other file
	Steps          []Step             `json:"steps,omitempty"`
	Parallel       bool               `json:"parallel,omitempty"`
	DependsOn      *[]string          `json:"depends_on,omitempty"` // nil: the previous step
	Covers         []string           `json:"covers,omitempty"`
	Verify         string             `json:"verify,omitempty"`
	Proof          *Proof             `json:"proof,omitempty"`
	Risk           string             `json:"risk,omitempty"` // low, medium, high; high: a person has to allow the step
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

// ForEach is the items that a step is done for, one after the other: a list, or the lines that a shell command prints. In JSON
// it is a list of strings or a string.
type ForEach struct {
	Items   []string
	Command string
}

// TaskSpec is a requirement in a fixed form, before anybody has looked at the code. It is a hint.
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

// Action is something that the TaskSpec expects somebody to do.
type Action struct {
	Tool        string          `json:"tool"`
	Params      json.RawMessage `json:"params,omitempty"` // an object
	Description string          `json:"description,omitempty"`
	Reason      string          `json:"reason,omitempty"`
}

// IDs returns the ids of all steps, those of inner steps after the step that contains them.
func (p *Plan) IDs() []string { return stepIDs(p.Steps) }

func stepIDs(steps []Step) (ids []string) {
	for _, s := range steps {
		ids = append(append(ids, s.ID), stepIDs(s.Steps)...)
	}
	return ids
}
