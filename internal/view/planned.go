package view

import "strings"

// planned is what the plan says that holds whatever its steps are.
func (t Task) planned() [][2]string {
	if t.plan == nil {
		return nil
	}
	var left []string
	for _, u := range t.plan.Uncovered {
		left = append(left, u.Item+" ("+u.Reason+")")
	}
	list := func(items []string) string { return strings.Join(items, "; ") }
	return [][2]string{{"decided", list(t.plan.DesignDecisions)}, {"assumed", list(t.plan.Assumptions)}, {"left out", list(left)}, {"excluded", list(t.plan.OutOfScope)}}
}

// touches are the globs of what the task changes, as task.json says or else its plan.
func (t Task) touches() string {
	globs := t.task.Pipeline.Touches
	if len(globs) == 0 && t.plan != nil {
		globs = t.plan.Touches
	}
	return strings.Join(globs, ", ")
}
