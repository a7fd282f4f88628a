package status

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// NeedsPerson reports whether a task stays as it is until a person does something: reviews it, decides, mends it.
func (t *Task) NeedsPerson() bool {
	switch t.Status {
	case "", trellis.Review, trellis.Failed:
		return true
	case trellis.Planning:
		return t.HeldBy == nil // it was cut off, or a person writes it
	case trellis.Waiting, trellis.Paused, trellis.Ready:
		return t.waitsForPerson()
	}
	return false
}

// waitsForPerson reports whether a task that does not run goes on only when a person does something about it.
func (t *Task) waitsForPerson() bool {
	forPerson := []string{"approval", "decision", "merge of", "trust", "start", "somebody", "agent ("}
	return t.Steps.Waits || len(t.Problems) > 0 && t.WaitingFor == "" && t.HeldBy == nil ||
		slices.ContainsFunc(forPerson, func(what string) bool { return strings.HasPrefix(t.WaitingFor, what) })
}
