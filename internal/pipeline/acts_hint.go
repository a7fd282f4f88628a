package pipeline

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// taskSpec is the TaskSpec of a frozen content, nil when there is none. It is a hint and nothing else: one that
// can't be read is an error that is told and does not stop anybody.
func (is *inputs) taskSpec(hash string) (*plan.TaskSpec, error) {
	data, err := taskdir.ReadFile(is.folder(hash), taskdir.TaskSpec)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading taskspec.json: %w", err)
	}
	spec, problems := plan.ParseTaskSpec(data)
	if spec == nil {
		return nil, fmt.Errorf("taskspec.json is left out: %s", strings.Join(problems, "; "))
	}
	return spec, nil
}

// planHint is what a role is told of TaskSpec and plan, within caps, and a note when that is not all. Who judges the
// criteria is told what was decided; how the work was to be done is nothing to them.
func (pr *prompts) planHint(role trellis.Role, hash string, caps contextfiles.Caps) (text string, notes []string, err error) {
	var parts []string
	if spec, _ := pr.inputs.taskSpec(hash); spec != nil { // what is wrong with it was told when it was taken in
		parts = append(parts, meant(spec))
	}
	p, err := pr.inputs.frozenPlan(hash)
	switch {
	case err != nil:
		return "", nil, err
	case p != nil && role == trellis.Accept:
		parts = append(parts, decided(p))
	case p != nil:
		parts = append(parts, p.Outline())
	}
	text = strings.Join(parts, "\n")
	if room := max(0, min(caps.Artifact, caps.Total)); len(text) > room {
		rest := fmt.Sprintf("\n… %d bytes in all; the rest is in %s/task/%s and %s", len(text), runtimeDir, taskdir.Plan, taskdir.TaskSpec)
		text = strings.ToValidUTF8(text[:room], "") + rest
		notes = []string{taskdir.Plan + " is not shown in full: the prompt has no room for all of it"}
	}
	return text, notes, nil
}

func meant(spec *plan.TaskSpec) string {
	return "# What the requirement was taken to mean\n\n" + spec.Hint()
}

// decided is what a plan settled beforehand.
func decided(p *plan.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", strings.TrimSpace(p.Title+"\n\n"+p.Summary))
	for _, s := range decisions(p) {
		s.write(&b)
	}
	return b.String()
}

// section is a heading and what stands under it.
type section struct {
	title string
	lines []string
}

// decisions are the parts of a plan that hold whatever its steps are.
func decisions(p *plan.Plan) []section {
	left := section{title: "Left out"}
	for _, u := range p.Uncovered {
		left.lines = append(left.lines, u.Item+": "+u.Reason)
	}
	return []section{{"Design decisions", p.DesignDecisions}, {"Assumptions", p.Assumptions}, left, {"Out of scope", p.OutOfScope}}
}

// write adds the section as a list under its heading, unless it is empty.
func (s section) write(b *strings.Builder) {
	if len(s.lines) == 0 {
		return
	}
	fmt.Fprintf(b, "## %s\n\n", s.title)
	for _, l := range s.lines {
		fmt.Fprintf(b, "- %s\n", oneLine(l))
	}
	b.WriteByte('\n')
}
