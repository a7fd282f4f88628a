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
	Background  []string // what a person says to understand the requirement by
	Constraints []string // what must hold whatever is planned, one sentence each
	NoTaskSpec  bool
	ChooseType  bool // where New names no type, by what the research finds
}

// asks reports whether something is asked for that an earlier planning was not.
func (o PlanOptions) asks() bool {
	return o.Requirement != "" || o.Feedback != "" || o.Agent != "" || o.Quick || o.Base != "" || len(o.Verify) > 0 ||
		len(o.Context) > 0 || len(o.Background) > 0 || len(o.Constraints) > 0 || o.NoTaskSpec
}

// remember takes the files and constraints of the planning before where no others are given. Of one that did not
// come to a good end all that was asked for counts, so that what its failure hints at does the same again.
func (o *PlanOptions) remember(h *journal.History) error {
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
		o.Feedback = said(last.Feedback, o.Feedback)
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

// earlierFeedback is how much of what a person said before goes on beside what they say now, in bytes.
const earlierFeedback = 8 << 10

// said is what a person says now, behind what they said before.
func said(before, now string) string {
	if len(before) > earlierFeedback {
		before = "…" + strings.ToValidUTF8(before[len(before)-earlierFeedback:], "")
	}
	return before + "\n\nAnd then, of the plan after that:\n\n" + now
}
