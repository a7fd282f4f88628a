package trust

import (
	"context"
)

// origins finds out where the unknown items are from, and remembers it.
func (j *Judge) origins(_ context.Context, v *Verdict, _ Subject, _ []fileVersion, _ *book, unknown []Item) error {
	for _, i := range unknown {
		v.Foreign = append(v.Foreign, Foreign{Item: i})
	}
	return nil
}

// Base judges a commit that a worktree is made on: each commit that it has and the trusted branch has not.
func (j *Judge) Base(_ context.Context, commit string) (Verdict, error) {
	return Verdict{Subject: BasePrefix + commit}, nil
}
