package plan

import (
	"encoding/json"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// CheckTaskSpec returns the problems of a TaskSpec, each with its line.
func CheckTaskSpec(file string, data []byte) (problems []trellis.Problem) {
	_, wrong := openTaskSpec(data)
	for _, p := range wrong {
		problems = append(problems, p.ForFile(file))
	}
	return problems
}

func openTaskSpec(data []byte) (*document, []Problem) {
	d, broken := parseDocument(data)
	if broken != nil {
		return nil, []Problem{*broken}
	}
	return d, d.schemaProblems("taskspec")
}

// ParseTaskSpec parses a TaskSpec, or returns its problems, each as "<JSON pointer>: <reason>". The lists in the result are
// never nil, and it always has a priority.
func ParseTaskSpec(data []byte) (*TaskSpec, []string) {
	d, problems := openTaskSpec(data)
	var wrong []string
	for _, p := range problems {
		wrong = append(wrong, p.ForModel())
	}
	if wrong != nil {
		return nil, wrong
	}
	t := MinimalTaskSpec("")
	if err := json.Unmarshal([]byte(d.text), &t); err != nil {
		return nil, []string{"/: " + err.Error()}
	}
	return &t, nil
}

// MinimalTaskSpec returns a TaskSpec that contains nothing but the requirement.
func MinimalTaskSpec(requirement string) TaskSpec {
	if strings.TrimSpace(requirement) == "" {
		requirement = "(the requirement is blank)"
	}
	return TaskSpec{UserIntent: requirement, Goals: []string{}, Constraints: []string{}, Artifacts: []string{}, Contexts: []string{},
		Actions: []Action{}, Acceptance: []string{}, Priority: "normal"}
}

// Hint returns the TaskSpec as text for the agents that plan and implement.
func (t TaskSpec) Hint() string {
	o := &outline{}
	o.line("%s", strings.TrimSpace(t.UserIntent))
	o.list("Goals", t.Goals)
	o.list("Constraints", t.Constraints)
	o.list("Artifacts", t.Artifacts)
	o.list("Contexts", t.Contexts)
	o.list("Actions", t.actions())
	o.list("Acceptance", t.Acceptance)
	if t.Priority != "" && t.Priority != "normal" {
		o.line("\nPriority: %s", t.Priority)
	}
	return o.String()
}

func (t TaskSpec) actions() (list []string) {
	for _, a := range t.Actions {
		s := a.Tool
		if a.Description != "" {
			s += ": " + a.Description
		}
		if len(a.Params) > 0 && string(a.Params) != "{}" {
			s += " " + string(a.Params)
		}
		if a.Reason != "" {
			s += " (" + a.Reason + ")"
		}
		list = append(list, s)
	}
	return list
}

// TaskPriority returns the task priority for the TaskSpec's, "" if it doesn't determine one.
func (t TaskSpec) TaskPriority() string {
	switch t.Priority {
	case "high":
		return "P1"
	case "low":
		return "P3"
	}
	return ""
}
