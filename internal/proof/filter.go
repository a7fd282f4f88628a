package proof

import "slices"

// Filter says which of the decisions in a task directory count, and whose each is. Nil: all of them do.
type Filter func(dir string, list []Approval) ([]Approval, error)

// Read is Read of the decisions that count.
func (c Filter) Read(dir string) ([]Approval, error) {
	list, _, err := Read(dir) // a broken line is no decision; validate names it
	if err != nil || c == nil || len(list) == 0 {
		return list, err
	}
	return c(dir, list)
}

// OnlyThese is hash for Bind, for the lines of list alone.
func OnlyThese(list []Approval, hash func(step string) string) func(Approval) (string, error) {
	return func(a Approval) (string, error) {
		if !slices.ContainsFunc(list, func(counts Approval) bool { return counts.Text == a.Text }) {
			return "", nil
		}
		return hash(a.Step), nil
	}
}
