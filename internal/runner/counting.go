package runner

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trust"
)

// counts says which decisions count: those that are signed with a key that is trusted, that were written in this clone, or
// that stand on the trusted branch. What else came by git is nobody's word. It is nil where everything is trusted.
func (s Approvals) counts() proof.Filter {
	if s.Trust == nil || s.Trust.Everything {
		return nil
	}
	return func(dir string, list []proof.Approval) (counted []proof.Approval, err error) {
		if filepath.Dir(dir) != s.Store.Tasks() {
			return list, nil // of the run of a file, which git never has
		}
		v, err := s.Trust.Subject(context.Background(), decisions(s.Store.Rel(filepath.Join(dir, proof.ApprovalsFile)), filepath.Base(dir), list))
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			if a.Voter = a.SignedBy(s.Keys); a.Voter != "" || !slices.ContainsFunc(v.Foreign, func(f trust.Foreign) bool { return f.Item.Text == a.Text }) {
				counted = append(counted, a)
			}
		}
		return counted, nil
	}
}

// decisions are the lines of an approvals.jsonl as they were read, each for itself.
func decisions(file, task string, list []proof.Approval) trust.Subject {
	var text bytes.Buffer
	for _, a := range list {
		text.WriteString(a.Text + "\n")
	}
	s := trust.Subject{Name: "decisions " + task, Read: func(file string, data []byte) (items []trust.Item, _ []string) {
		n := 0
		for line := range bytes.Lines(data) {
			if n++; len(bytes.TrimSpace(line)) > 0 {
				items = append(items, trust.Item{Kind: trust.Approval, Text: string(bytes.TrimSpace(line)), File: file, Line: n})
			}
		}
		return items, nil
	}}
	return s.Of(map[string][]byte{filepath.ToSlash(file): text.Bytes()})
}
