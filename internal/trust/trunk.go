package trust

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// trunk is the trusted branch in its current state. Its tip is "" if it has no commit, or nothing says which branch it is: a
// branch that can't be recorded is not trusted either.
type trunk struct{ ref, tip string }

// trunk finds the trusted branch: the one of the user's settings, the default branch of the remote, or, if nothing was ever
// fetched, the one that was checked out when this was first called.
func (j *Judge) trunk(ctx context.Context, b *book) (t trunk, err error) {
	if j.Branch != "" {
		t.ref, t.tip, err = j.Repo.Provenance().Tracked(ctx, j.Branch)
		return t, branchError(err, j.Branch)
	}
	ref, tip, fetched, err := j.Repo.Provenance().Upstream(ctx)
	switch {
	case err != nil:
		return t, branchError(err, "of the remote")
	case tip != "":
		return trunk{ref, tip}, nil
	case b.trunk == "" && fetched:
		return trunk{}, nil
	case b.trunk == "":
		branch, err := j.Repo.Refs().CurrentBranch(ctx, j.Repo.Main)
		if err != nil || branch == "" {
			return t, branchError(err, "that is checked out")
		}
		if j.addLocked([]Entry{{ID: branch, How: Trunk}}) != nil { // the next process may find somebody else's branch checked out
			return trunk{}, nil
		}
		b.trunk = branch
	}
	t.ref = "refs/heads/" + b.trunk
	t.tip, err = j.Repo.Refs().Branch(ctx, b.trunk)
	return t, branchError(err, b.trunk)
}

// branchError ignores that a branch does not exist, and says of other errors which branch was looked for.
func branchError(err error, name string) error {
	if err == nil || errors.Is(err, git.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("looking for the trusted branch %s: %w", name, err)
}

// FindTrunk returns the full name of the trusted branch and its commit, each "" if there is none. In a repository without
// remotes, the first call records the branch: `trellis init` makes it.
func (j *Judge) FindTrunk(ctx context.Context) (ref, tip string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b, err := j.book()
	if err != nil {
		return "", "", err
	}
	t, err := j.trunk(ctx, b)
	return t.ref, t.tip, err
}

// Chosen returns in words which branch is trusted, and what chose it. It records nothing.
func (j *Judge) Chosen(ctx context.Context) (string, error) {
	if j.Everything {
		return "none: all that is checked out is trusted", nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	b, err := j.book()
	if err != nil {
		return "", err
	}
	if j.Branch != "" {
		return j.describeSetting(ctx)
	}
	ref, tip, fetched, err := j.Repo.Provenance().Upstream(ctx)
	switch {
	case err != nil:
		return "", branchError(err, "of the remote")
	case tip != "":
		return j.describeRemote(ctx, strings.TrimPrefix(ref, "refs/remotes/"))
	case b.trunk != "":
		return b.trunk + ", which was checked out when Trellis first looked", nil
	case fetched:
		return "none: no default branch of a remote is known (name one with trust.branch in your settings)", nil
	}
	return "none yet: it is the one that is checked out when something is asked about first", nil
}

// describeSetting describes the branch that the settings name.
func (j *Judge) describeSetting(ctx context.Context) (string, error) {
	_, tip, err := j.Repo.Provenance().Tracked(ctx, j.Branch)
	if err = branchError(err, j.Branch); err != nil {
		return "", err
	}
	if tip == "" {
		return fmt.Sprintf("none: trust.branch of your settings is %s, and there is no such branch", j.Branch), nil
	}
	return j.Branch + ", by trust.branch of your settings", nil
}

// describeRemote describes a branch of a remote that is its default branch, as far as git knows, or has the name of one.
func (j *Judge) describeRemote(ctx context.Context, branch string) (string, error) {
	remote, _, _ := strings.Cut(branch, "/")
	_, head, err := j.Repo.Provenance().Tracked(ctx, remote+"/HEAD")
	if err = branchError(err, remote+"/HEAD"); err != nil {
		return "", err
	}
	if head == "" {
		return fmt.Sprintf("%s, by its name: git does not know which branch of %s is the default one (git remote set-head %s --auto)", branch, remote, trellis.ShellWord(remote)), nil
	}
	return fmt.Sprintf("%s, the default branch of %s as last fetched", branch, remote), nil
}
