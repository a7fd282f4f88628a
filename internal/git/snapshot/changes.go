package snapshot

import (
	"context"
	"io"
	"slices"

	"github.com/trellis-tasks/trellis/internal/git"
)

// Changes returns the paths at which the snapshot differs from a commit, sorted.
func (s *Snapshot) Changes(ctx context.Context, base string) ([]git.Change, error) {
	return s.r.repo.CachedChanges(base, s.Tree, func() (string, error) { return s.compare(ctx, base, nil, "-z", "--raw", "--numstat") })
}

// compare compares the snapshot with a commit or a tree.
func (s *Snapshot) compare(ctx context.Context, base string, out io.Writer, options ...string) (string, error) {
	base, err := s.comparisonTree(ctx, base)
	if err != nil {
		return "", err
	}
	args := slices.Concat([]string{"diff-index", "--cached"}, git.DiffOptions, options, []string{base})
	if s.privateTree != s.Tree {
		if err := s.storeTree(ctx); err != nil {
			return "", err
		}
		args = slices.Concat([]string{"diff-tree", "-r"}, git.DiffOptions, options, []string{base, s.Tree})
	}
	text, _, err := s.r.repo.Run(ctx, git.Command{Dir: s.dir, Env: s.env, Stdout: out, Args: args})
	return text, err
}

// DiffStat returns the difference to a commit as text for people: a line per file and the sum.
func (s *Snapshot) DiffStat(ctx context.Context, base string) (string, error) {
	return s.compare(ctx, base, nil, "--stat=100")
}
