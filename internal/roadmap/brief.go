package roadmap

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// maxTold is how much of an objective a planner is told, in bytes.
const maxTold = 64 << 10

// Requirement is what a planner is asked for: the step alone, and the objective around it, which is no order.
func Requirement(name, title string, s Step, src []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Step %s of the objective %q: %s\n\n", s.ID, cmp.Or(title, name), s.Description)
	if s.Phase != "" {
		fmt.Fprintf(&b, "It stands in the phase %q.\n", s.Phase)
	}
	b.WriteString("This step alone is wanted, whatever else the objective names: its other steps are planned and done each on its own.\n")
	fmt.Fprintf(&b, "The objective is told so that the step fits into it. This is .trellis/objectives/%s.md as it is now:\n\n", name)
	text := strings.ToValidUTF8(string(src), "\uFFFD")
	if len(text) > maxTold {
		text = strings.ToValidUTF8(text[:maxTold], "") + "\n[cut here]\n"
	}
	b.WriteString(text)
	return b.String()
}

// PlanCommand is what to type for a step to be planned, or its planning to be gone on with; without an id the next one.
func PlanCommand(name, step string) string {
	if step == "" {
		return "trellis objective plan " + trellis.ShellWord(name)
	}
	return fmt.Sprintf("trellis objective plan %s --step %s", trellis.ShellWord(name), trellis.ShellWord(step))
}

// Title is what a step's task is called until its plan says better.
func (s Step) Title() string {
	if s.Description == "" {
		return "Step " + s.ID
	}
	return fmt.Sprintf("Step %s: %s", s.ID, s.Description)
}

// taskWords is how long the name of a step's task is at most, before a number that tells it from others.
const taskWords = trellis.MaxName - 4

// TaskName is the name of a step's task: of its description as many words as fit, else of its id.
func (s Step) TaskName() string {
	words := strings.Fields(s.Description)
	for len(words) > 1 && len(trellis.Slug(strings.Join(words, " "))) >= taskWords {
		words = words[:len(words)-1]
	}
	name := trellis.Slug(strings.Join(words, " "))
	if day, _ := taskdir.SplitID(name); name == "" || day != "" {
		name = trellis.Slug("step " + s.ID + " " + name)
	}
	if len(name) > taskWords {
		name = strings.TrimRight(name[:taskWords], "-")
	}
	if name == "" {
		name = "step"
	}
	return name
}
