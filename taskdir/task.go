package taskdir

import (
	"time"

	"github.com/tidwall/gjson"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Task is what a task.json says. Text that is null, missing or of the wrong type is "".
type Task struct {
	Dir string // of the task, as it was given to Load
	ID  string // name of the directory: the task's identity

	Name, Title, Description string
	Status                   trellis.Status // a missing one is planning; an unknown one is kept and a problem
	DevType                  string
	Scope                    string // a list, as older versions wrote, is joined by commas
	Package                  string
	Priority                 string // P0 to P3
	Creator, Assignee        string
	CreatedAt, CompletedAt   string // YYYY-MM-DD
	Branch, BaseBranch       string
	WorktreePath, Commit     string
	PRURL                    string
	Subtasks, Children       []string
	Parent                   string
	RelatedFiles             []string
	Notes                    string
	Source                   Source // meta.source
	Pipeline                 Pipeline
	Raw                      []byte            // the file's bytes
	Problems                 []trellis.Problem // what is not legal, in the file's order
}

// Pipeline is the part of task.json that only Trellis uses.
type Pipeline struct {
	SchemaVersion int
	Revision      int64
	Size          trellis.Size
	Agent         string
	Verify        []string
	DependsOn     []string
	Touches       []string
	Protected     []string
	NotBefore     time.Time // zero: at once
	Objective     Objective
	Rejection     Rejection
	Judge         *Judge // nil: no judge has seen the plan
	Approval      Approval
	PlanHash      string
	BaseCommit    string
	StackedOn     string
	Phase         string
	Round         int
	Attempt       int
	Outcome       trellis.Outcome
	Failure       Failure
	ResumeAt      time.Time // zero: not waiting for a time
	Usage         trellis.Usage
}

// Source is the issue that a task came from.
type Source struct {
	Issue   string `json:"issue"`             // linear:ABC-12
	URL     string `json:"url"`               // where people read it
	Comment bool   `json:"comment,omitempty"` // the address of the pull request is to be written there
}

// Objective is the step of a roadmap that a task is for.
type Objective struct {
	Name string `json:"name"`
	Step string `json:"step"`
}

// Rejection is why a requirement was not accepted.
type Rejection struct {
	Category    string   `json:"category"`
	Details     string   `json:"details"`
	Suggestions []string `json:"suggestions"`
}

// Judge is the verdict on the plan.
type Judge struct {
	Pass     bool   `json:"pass"`
	Feedback string `json:"feedback"`
}

// Approval says whether people must approve the plan, and how many.
type Approval struct {
	Required  bool `json:"required"`
	Approvers int  `json:"approvers"`
	Asked     int  `json:"asked,omitempty"` // how often a planning asked anew, after people had decided
}

// Failure is why the last run failed or stopped; Code "" is no failure.
type Failure struct {
	Code      trellis.Code
	Detail    string
	Retryable bool
	At        time.Time
}

// MarshalJSON writes all four keys, a zero time as "".
func (f Failure) MarshalJSON() ([]byte, error) {
	at := ""
	if !f.At.IsZero() {
		at = stamp(f.At)
	}
	return text.JSON(struct {
		Code      trellis.Code `json:"code"`
		Detail    string       `json:"detail"`
		Retryable bool         `json:"retryable"`
		At        string       `json:"at"`
	}{f.Code, f.Detail, f.Retryable, at})
}

// stamp is a time as task.json spells it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// BranchName is the task's branch, or the one it gets when it names none.
func (t *Task) BranchName() string {
	if t.Branch != "" || t.Name == "" {
		return t.Branch
	}
	return "feature/" + t.Name
}

// GivenID is the id that the file has, whoever gave it; "" when it has none. The task is known by [Task.ID].
func (t *Task) GivenID() string { return gjson.GetBytes(t.Raw, "id").String() }
