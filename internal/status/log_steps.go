package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// Activities by which a step begins, ends, and asks people.
const (
	StepBegins = "begin"
	StepEnds   = "end"
	StepAsks   = "request"
)

// StepOf splits the id of an activity into the path of the step that it belongs to, "" if there is
// none, and its name within that step.
func StepOf(id string) (path, rest string) {
	parts := strings.Split(strings.TrimPrefix(strings.TrimPrefix(id, pipeline.FirstWork), "steps/"), "/")
	var names []string
	for len(parts) > 1 {
		name, step := strings.CutPrefix(parts[0], "step-")
		n, item := strings.CutPrefix(parts[0], "item-")
		switch {
		case step:
			names = append(names, name)
		case item && len(names) > 0:
			names = append(names, n)
		default:
			return strings.Join(names, "."), strings.Join(parts, "/")
		}
		parts = parts[1:]
	}
	return strings.Join(names, "."), strings.Join(parts, "/")
}

// startText returns the text for the start of an activity: what a person said to the work, why a
// planning asks again, what a step is, or what an agent is to do in it.
func (r *runLog) startText(c journal.Entry) string {
	if path, _ := StepOf(c.ID); path == "" {
		if said := pipeline.FeedbackOf(r.dir, c); said != "" {
			return "a person says: " + text.Clip(text.OneLine(said), maxText)
		}
		return cmp.Or(repeatReason(c), pipeline.UnreportedTrouble(c.Activity, c.In))
	}
	about := stepInfo(c)
	switch {
	case c.Activity == StepBegins:
		return r.stepText(c, about)
	case c.Activity == string(trellis.Implement) && len(about.Tries) > 0:
		return "again: " + text.Clip(about.Tries[len(about.Tries)-1], maxText)
	case c.Activity == string(trellis.Implement):
		if s := r.step(about); s != nil {
			return text.Clip(text.OneLine(plan.Fill(s.Prompt, about.Values)), maxText)
		}
	case c.Activity == string(trellis.Heal) && about.Ran != nil:
		return text.Clip(fmt.Sprintf("%s exited with %d", about.Ran.Command, about.Ran.Code), maxText)
	}
	return ""
}

// maxText is how many characters of what an agent is to do are shown in a log.
const maxText = 300

func (r *runLog) stepText(c journal.Entry, about workflow.PromptData) string {
	var in struct {
		Kind      string
		Round, Of int
	}
	_ = json.Unmarshal(c.In, &in) // missing fields stay empty
	says := in.Kind
	if in.Round > 0 {
		says += fmt.Sprintf(", %d of %d", in.Round, in.Of)
	}
	if s := r.step(about); s != nil && s.Title != "" {
		says += ": " + text.Clip(text.OneLine(plan.Fill(s.Title, about.Values)), maxText)
	}
	return says
}

// step returns the step that an activity is for, nil if the copy of the plan that the run took is gone.
func (r *runLog) step(about workflow.PromptData) *plan.Step {
	b, known := r.bundles[about.Bundle]
	if !known {
		b, _ = plan.OpenBundle(filepath.Join(r.dir, "inputs", about.Bundle), about.Bundle)
		r.bundles[about.Bundle] = b
	}
	if b == nil || b.Plan(about.Place.File) == nil {
		return nil
	}
	return b.Step(about.Place)
}

// addStepResult adds the result of an activity of a step to its line.
func (r *runLog) addStepResult(c journal.Entry, line *Line) {
	switch c.Activity {
	case StepBegins:
		r.begun[line.Step] = c.Started
	case StepEnds:
		var in struct{ Outcome workflow.Outcome }
		_ = json.Unmarshal(c.In, &in) // a missing outcome stays empty
		line.Text = strings.TrimSuffix(string(in.Outcome.State)+": "+in.Outcome.Detail, ": ")
		if at, ok := r.begun[line.Step]; ok {
			line.Seconds = secondsBetween(at, c.Finished)
		}
	case StepAsks:
		line.Text = pendingTitle(c)
	default:
		if line.Text == "" {
			line.Text = commandResult(c)
		}
	}
}

// pendingTitle returns what people are asked before a step, "" once they have decided.
func pendingTitle(c journal.Entry) string {
	var q workflow.Request
	var said workflow.Answer
	if json.Unmarshal(c.In, &q) != nil || json.Unmarshal(c.Out, &said) != nil || said.State != workflow.Pending {
		return ""
	}
	return q.Title
}

// commandResult returns the command that an activity of a step ran, with its result.
func commandResult(c journal.Entry) string {
	var ran workflow.CommandResult
	if json.Unmarshal(c.Out, &ran) != nil || ran.Command == "" {
		return ""
	}
	line := fmt.Sprintf("%s: %s (%s)", ran.Command, exitText(ran.Code, false), text.Seconds(ran.Seconds))
	if ran.Code != 0 && ran.Tail != "" {
		line += "\n" + text.Indent(ran.Tail)
	}
	return line
}
