package runner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/taskdir"
)

// PlanOptions is a requirement and what a person says about its planning.
type PlanOptions struct {
	New         taskdir.New // name, type, title, priority, dependencies, …
	Requirement string      // valid UTF-8
	Agent       string
	Quick       bool
	Base        string
	Verify      []string
	Feedback    string
	Context     []string // files of the repository that a person names, slash-separated, relative to its root
	Background  []string // what a person says to explain the requirement
	Constraints []string // what must hold whatever is planned, one sentence each
	NoTaskSpec  bool
	ChooseType  bool // choose the type by what the research finds, if New names none
}

// isNewRequest reports whether o asks for anything that an earlier planning was not asked for.
func (o PlanOptions) isNewRequest() bool {
	return o.Requirement != "" || o.Feedback != "" || o.Agent != "" || o.Quick || o.Base != "" || len(o.Verify) > 0 ||
		len(o.Context) > 0 || len(o.Background) > 0 || len(o.Constraints) > 0 || o.NoTaskSpec
}

// inherit takes the files and constraints from the previous planning if o has none. From one that failed it takes all that
// was asked for, so that the command that its failure hints at does the same again.
func (o *PlanOptions) inherit(h *journal.History) error {
	o.ChooseType = o.ChooseType && o.New.DevType == ""
	if h.Flow != planner.Flow {
		return nil
	}
	var last planner.Input
	if err := json.Unmarshal(h.Input, &last); err != nil {
		return fmt.Errorf("reading the input of planning %s: %w", h.Run, err)
	}
	if len(o.Context)+len(o.Background) == 0 { // one flag gives both
		o.Context, o.Background = last.Context, last.Background
	}
	if len(o.Constraints) == 0 {
		o.Constraints = last.Constraints
	}
	o.New.Priority = cmp.Or(o.New.Priority, last.Priority)
	o.ChooseType = (o.ChooseType || last.ChooseType) && o.New.DevType == ""
	if o.Requirement == "" && o.Feedback != "" && last.Feedback != "" {
		o.Feedback = joinFeedback(last.Feedback, o.Feedback)
	}
	if h.Ended && h.End == nil {
		return nil
	}
	o.Agent, o.Quick, o.NoTaskSpec = cmp.Or(o.Agent, last.Agent), o.Quick || last.Quick, o.NoTaskSpec || last.NoTaskSpec
	if o.Requirement == "" {
		o.Feedback = cmp.Or(o.Feedback, last.Feedback)
	}
	return nil
}

// earlierFeedback is how many bytes of a person's earlier feedback are kept before the new feedback.
const earlierFeedback = 8 << 10

// joinFeedback returns a person's new feedback, after the earlier one.
func joinFeedback(before, now string) string {
	if len(before) > earlierFeedback {
		before = "…" + strings.ToValidUTF8(before[len(before)-earlierFeedback:], "")
	}
	return before + "\n\nAnd then, of the plan after that:\n\n" + now
}
