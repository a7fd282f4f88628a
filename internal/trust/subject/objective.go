package subject

import (
	"bytes"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trust"
)

// Objective returns the subject of a roadmap, whose steps would be planned.
func Objective(name string) trust.Subject {
	return trust.Subject{Name: trust.ObjectivePrefix + name, Files: []string{roadmap.File(name)}, Read: func(file string, data []byte) ([]trust.Item, []string) {
		return fromObjective(name, file, data), nil
	}}
}

// fromObjective leaves out the cells with the state of a step, which Trellis writes. The rest of the file goes into each
// requirement that is made from it.
func fromObjective(name, file string, data []byte) (items []trust.Item) {
	if len(data) == 0 {
		return nil
	}
	r, _ := roadmap.Parse(name, data) // a roadmap with errors is not planned
	if r.Auto {
		add(&items, trust.Advance, file, 0, "", "auto_advance: steps are planned without a person's asking")
	}
	add(&items, trust.Requirement, file, 0, "title", r.Title)
	for _, s := range r.Steps {
		text := strings.TrimSpace(s.Phase + " " + s.Description)
		if len(s.DependsOn) > 0 {
			text += " (after " + strings.Join(s.DependsOn, ", ") + ")"
		}
		add(&items, trust.Requirement, file, s.Line, "step "+s.ID, text)
	}
	return append(items, wholeFile(trust.Requirement, file, prose(r, data))...)
}

// prose returns the lines that Trellis does not write: neither rows of steps, nor lines with the state of one.
func prose(r *roadmap.Roadmap, data []byte) []byte {
	rows := map[int]bool{}
	for _, s := range r.Steps {
		rows[s.Line] = true
	}
	var b bytes.Buffer
	n := 0
	for line := range bytes.Lines(data) {
		n++
		key, _, _ := strings.Cut(strings.TrimLeft(string(line), " -"), ":")
		if !rows[n] && !slices.Contains([]string{"status", "pr", "plan"}, strings.ToLower(key)) {
			b.Write(line)
		}
	}
	return b.Bytes()
}
