package proof

import "slices"

// Filter returns those of the decisions in a task directory that count, with their Voter set. A nil Filter keeps all.
type Filter func(dir string, list []Approval) ([]Approval, error)

// Read is like the function Read, but returns only the decisions that count.
func (c Filter) Read(dir string) ([]Approval, error) {
	list, _, err := Read(dir) // an invalid line is not a decision; validate reports it
	if err != nil || c == nil || len(list) == 0 {
		return list, err
	}
	return c(dir, list)
}

// OnlyListed wraps hash, for Bind, so that only the lines in list are bound.
func OnlyListed(list []Approval, hash func(step string) string) func(Approval) (string, error) {
	return func(a Approval) (string, error) {
		if !slices.ContainsFunc(list, func(counts Approval) bool { return counts.Text == a.Text }) {
			return "", nil
		}
		return hash(a.Step), nil
	}
}
