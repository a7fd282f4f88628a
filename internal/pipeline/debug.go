package pipeline

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// trouble is why a round did not end in a verified commit.
type trouble struct {
	Code   trellis.Code      `json:"code"`
	Detail string            `json:"detail"`
	Failed []CommandResult   `json:"failed,omitempty"`
	Unmet  []CriterionResult `json:"unmet,omitempty"`
	Output agentcall.Ref     `json:"output,omitzero"` // output of a hook, or of a pull request's checks and reviewers
	Tree   string            `json:"tree"`            // on which it was found
	// Feedback is what people said about the work.
	Feedback []agentcall.Ref `json:"feedback,omitempty"`
}

// same reports whether both are the same failure of the same tree, so that nothing has changed in between.
func (t *trouble) same(u *trouble) bool {
	return u != nil && t.Code == u.Code && t.Detail == u.Detail && t.Tree == u.Tree
}

// UnreportedTrouble describes in one line what a call of the debug agent has to fix, by its input, if no command, criterion, hook or person
// has reported it before; "" for any other call.
func UnreportedTrouble(activity string, in json.RawMessage) string {
	var request agentcall.Request
	var data promptData
	if activity != string(trellis.Debug) || json.Unmarshal(in, &request) != nil || json.Unmarshal(request.Data, &data) != nil || data.Trouble == nil {
		return ""
	}
	const most = 300
	switch t := data.Trouble; {
	case t.Code == trellis.StepFailed && len(t.Failed) > 0 && t.Failed[0].Tail != "":
		return text.Clip(text.OneLine(t.Detail+": "+text.LastLine(t.Failed[0].Tail)), most)
	case t.Code == trellis.StepFailed:
		return text.Clip(text.OneLine(t.Detail), most)
	case len(t.Failed)+len(t.Unmet)+len(t.Feedback) == 0 && t.Output.Path == "":
		return text.Clip(text.OneLine(string(t.Code)+": "+t.Detail), most)
	}
	return ""
}

func (r *run) debug(f flow.Flow, last *trouble) error {
	content, err := r.observe(f, "debug")
	if err != nil {
		return err
	}
	if err := r.enter(f, "debug"); err != nil {
		return err
	}
	reply, err := r.ask(f, trellis.Debug, r.job.Limits.Debug, promptData{Content: content, Trouble: last})
	if err != nil {
		return err
	}
	return checkNotSilent(f, r.job, reply, last.Tree)
}

// debugSlots adds what went wrong: what Trellis found, and what others wrote.
func (pr *prompts) debugSlots(d promptData, slots map[string]string) (err error) {
	t := d.Trouble
	if t.Code == trellis.Conflict && d.Job.Clash != nil {
		slots["conflict"] = d.Job.Clash.Said
	}
	if len(t.Feedback) > 0 {
		slots["failure"] = fmt.Sprintf("%s: %s\n", t.Code, t.Detail)
		slots["feedback"], err = pr.task.feedback(t.Feedback)
		return err
	}
	if t.Code == trellis.CIFailed || t.Code == trellis.ChangesRequested { // reported by the checks and reviewers of a pull request
		slots["failure"] = fmt.Sprintf("%s: %s\n", t.Code, t.Detail)
		slots["review"], err = pr.task.output(t.Output)
		return err
	}
	slots["failure"], err = pr.describe(t)
	return err
}

func (pr *prompts) describe(t *trouble) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", t.Code, t.Detail)
	for _, c := range t.Failed {
		text, err := pr.task.output(c.Output)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n$ %s\nexit code %d\n%s\n", c.Command, c.Code, tail(text, failureTail))
	}
	for _, j := range t.Unmet {
		fmt.Fprintf(&b, "\n%s (%s): %s\n%s\n", j.ID, j.Verdict, j.Text, j.Evidence)
	}
	if t.Output.Path != "" {
		text, err := pr.task.output(t.Output)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n%s\n", tail(text, failureTail))
	}
	return b.String(), nil
}

// failureTail is how much of each failed command's output the debug agent is shown, in bytes.
const failureTail = 16 << 10
