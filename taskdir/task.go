package taskdir

import (
	"time"

	"github.com/tidwall/gjson"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Task is the content of a task.json. Text that is null, missing or of the wrong type is "".
type Task struct {
	Dir string // the task's directory, as passed to Load
	ID  string // name of the directory, which is the task's identity

	Name, Title, Description string
	Status                   trellis.Status // planning if missing; an unknown one is kept, with a problem
	DevType                  string
	Scope                    string // a list, the format of older versions, is joined by commas
	Package                  string
	Priority                 string // P0 to P3
	Creator, Assignee        string
	CreatedAt, CompletedAt   string // YYYY-MM-DD
	Branch, BaseBranch       string
	WorktreePath, Commit     string // a relative path, written by a person, was taken from the top of the repository
	PRURL                    string
	Subtasks, Children       []string
	Parent                   string
	RelatedFiles             []string
	Notes                    string
	Source                   Source // meta.source
	Pipeline                 Pipeline
	Raw                      []byte            // the bytes of the file
	Problems                 []trellis.Problem // illegal values and other problems, in the order of the file
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
	URL     string `json:"url"`               // its web page
	Comment bool   `json:"comment,omitempty"` // whether to post the pull request's URL there
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
	Asked     int  `json:"asked,omitempty"` // how often a planning asked again after people had decided
}

// Failure is why the last run failed or stopped; Code "" means no failure.
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
		at = formatTime(f.At)
	}
	return text.JSON(struct {
		Code      trellis.Code `json:"code"`
		Detail    string       `json:"detail"`
		Retryable bool         `json:"retryable"`
		At        string       `json:"at"`
	}{f.Code, f.Detail, f.Retryable, at})
}

// formatTime formats a time for task.json.
func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// BranchName returns the task's branch, or the default one if none is set.
func (t *Task) BranchName() string {
	if t.Branch != "" || t.Name == "" {
		return t.Branch
	}
	return "feature/" + t.Name
}

// GivenID returns the id field of the file, by whatever tool; "" if it has none. Trellis identifies the task by [Task.ID].
func (t *Task) GivenID() string { return gjson.GetBytes(t.Raw, "id").String() }
