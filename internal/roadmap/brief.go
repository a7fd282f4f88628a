package roadmap

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// maxObjectiveText is the maximum length of an objective in a requirement, in bytes.
const maxObjectiveText = 64 << 10

// Requirement returns the requirement for a planner: only the step, with the objective as background.
func Requirement(name, title string, s Step, src []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Step %s of the objective %q: %s\n\n", s.ID, cmp.Or(title, name), s.Description)
	if s.Phase != "" {
		fmt.Fprintf(&b, "It is in the phase %q.\n", s.Phase)
	}
	b.WriteString("This step alone is wanted, whatever else the objective names: its other steps are planned and done each on its own.\n")
	fmt.Fprintf(&b, "The objective is shown so that the step fits into it. This is .trellis/objectives/%s.md as it is now:\n\n", name)
	text := strings.ToValidUTF8(string(src), "\uFFFD")
	if len(text) > maxObjectiveText {
		text = strings.ToValidUTF8(text[:maxObjectiveText], "") + "\n[cut here]\n"
	}
	b.WriteString(text)
	return b.String()
}

// PlanCommand returns the command that plans a step, or resumes its planning; without an id, the next step.
func PlanCommand(name, step string) string {
	if step == "" {
		return "trellis objective plan " + trellis.ShellWord(name)
	}
	return fmt.Sprintf("trellis objective plan %s --step %s", trellis.ShellWord(name), trellis.ShellWord(step))
}

// Title returns the title of a step's task before it is planned.
func (s Step) Title() string {
	if s.Description == "" {
		return "Step " + s.ID
	}
	return fmt.Sprintf("Step %s: %s", s.ID, s.Description)
}

// maxTaskName is the maximum length of the name of a step's task, before a number that makes it unique.
const maxTaskName = trellis.MaxName - 4

// TaskName returns the name for a step's task: as many words of its description as fit, otherwise its id.
func (s Step) TaskName() string {
	words := strings.Fields(s.Description)
	for len(words) > 1 && len(trellis.Slug(strings.Join(words, " "))) >= maxTaskName {
		words = words[:len(words)-1]
	}
	name := trellis.Slug(strings.Join(words, " "))
	if day, _ := taskdir.SplitID(name); name == "" || day != "" {
		name = trellis.Slug("step " + s.ID + " " + name)
	}
	if len(name) > maxTaskName {
		name = strings.TrimRight(name[:maxTaskName], "-")
	}
	if name == "" {
		name = "step"
	}
	return name
}
