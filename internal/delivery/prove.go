package delivery

import (
	"context"
	"errors"
	"strings"

	"github.com/trellis-tasks/trellis/internal/git"
)

// taskTrailer stands in the commits that Trellis makes.
const taskTrailer = "Trellis-Task: "

// prove looks for a task's work in its bases: what its branch ends in and, should that not hold it, the commit that was
// delivered. A branch on which nothing was committed is merged nowhere.
func (c *Cleaner) prove(ctx context.Context, l *Leftover) error {
	delivered, err := c.known(ctx, l.task.Commit)
	if err != nil {
		return err
	}
	work, also := l.Tip, ""
	if work == "" {
		work = delivered
	} else if delivered != "" && delivered != work {
		within, err := c.Repo.IsAncestor(ctx, delivered, work)
		if err != nil {
			return err
		}
		if !within {
			also = delivered
		}
	}
	switch own, err := c.own(ctx, l, work, delivered); {
	case err != nil:
		return err
	case work == "":
		l.Why = "neither its branch nor its commit is there any more"
		return nil
	case !own:
		l.Why = "it has no commit of its own"
		return nil
	case len(l.bases) == 0:
		l.Why = "its base branch " + l.Base + " is not there"
		return nil
	}
	for _, b := range l.bases {
		proof, err := c.Repo.Prove(ctx, b.commit, l.task.Pipeline.BaseCommit, work)
		if err == nil && proof != "" && also != "" {
			var other git.Proof
			if other, err = c.Repo.Prove(ctx, b.commit, l.task.Pipeline.BaseCommit, also); other == "" {
				proof = ""
			}
		}
		if err != nil {
			return err
		}
		if proof != "" && (l.Proof == "" || proof == git.InHistory) {
			l.Proof, l.In = proof, b.name
		}
	}
	if l.Proof == "" {
		var names []string
		for _, b := range l.bases {
			names = append(names, b.name)
		}
		l.Why = "its changes are not in " + strings.Join(names, " or ")
	}
	return nil
}

// own reports whether work holds a commit of the task: one that was delivered, or that carries its name, or that no base
// has.
func (c *Cleaner) own(ctx context.Context, l *Leftover, work, delivered string) (bool, error) {
	from, err := c.known(ctx, l.task.Pipeline.BaseCommit)
	if err != nil || work == "" || work == from {
		return false, err
	}
	if delivered != "" {
		return delivered != from, nil
	}
	for _, b := range l.bases {
		within, err := c.Repo.IsAncestor(ctx, work, b.commit)
		if err != nil {
			return false, err
		}
		if within {
			made, err := c.Repo.FindTrailer(ctx, from, work, taskTrailer+l.ID)
			return made != "", err
		}
	}
	return true, nil
}

// known is a commit, "" when it is not in the repository.
func (c *Cleaner) known(ctx context.Context, commit string) (string, error) {
	if commit == "" {
		return "", nil
	}
	sha, err := c.Repo.Resolve(ctx, commit)
	if errors.Is(err, git.ErrNotFound) {
		return "", nil
	}
	return sha, err
}

// inBase reports whether a commit is in the history of a base.
func (c *Cleaner) inBase(ctx context.Context, l Leftover, commit string) (bool, error) {
	for _, b := range l.bases {
		if within, err := c.Repo.IsAncestor(ctx, commit, b.commit); err != nil || within {
			return within, err
		}
	}
	return false, nil
}
