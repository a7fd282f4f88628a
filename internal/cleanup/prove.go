package cleanup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// taskTrailer is a trailer of the commits that Trellis makes.
const taskTrailer = "Trellis-Task: "

// prover looks for the work of tasks in their bases.
type prover struct{ repo *git.Repo }

// prove looks for a task's work in its bases. A branch on which nothing was committed is merged nowhere.
func (p prover) prove(ctx context.Context, l *Leftover) error {
	delivered, err := p.repo.Refs().Find(ctx, l.Task.Commit)
	if err != nil {
		return err
	}
	work, err := p.workCommits(ctx, l.Tip, delivered)
	if err != nil {
		return err
	}
	switch own, err := p.hasOwnCommit(ctx, l, work[0], delivered); {
	case err != nil:
		return err
	case work[0] == "":
		l.Why = "neither its branch nor its commit is there any more"
		return nil
	case !own:
		l.Why = "it has no commit of its own"
		return nil
	case len(l.bases) == 0:
		l.Why = missingBaseText(l)
		return nil
	}
	return p.proveIn(ctx, l, work)
}

// missingBaseText returns the message that the base branch itself does not exist, and what to do about that.
func missingBaseText(l *Leftover) string {
	return fmt.Sprintf("its base branch %s is not there: `trellis task set-base-branch %s BRANCH` names the one that it was renamed to", l.Base, trellis.ShellWord(l.ID))
}

// workCommits returns the commits that have to be in a base: the tip of the branch and, if it does not contain that, the commit that
// was delivered.
func (p prover) workCommits(ctx context.Context, tip, delivered string) ([]string, error) {
	if tip == "" || tip == delivered || delivered == "" {
		return []string{cmp.Or(tip, delivered)}, nil
	}
	within, err := p.repo.History().IsAncestor(ctx, delivered, tip)
	if err != nil || within {
		return []string{tip}, err
	}
	return []string{tip, delivered}, nil
}

// proveIn looks for a base that has all of the commits. The best proof counts.
func (p prover) proveIn(ctx context.Context, l *Leftover, work []string) error {
	var names []string
	for _, b := range l.bases {
		names = append(names, b.name)
		proof, err := p.proofOf(ctx, b, l.Task.Pipeline.BaseCommit, work)
		if err != nil {
			return err
		}
		if proof != "" && (l.Proof == "" || proof == git.InHistory) {
			l.Proof, l.In = proof, b.name
		}
	}
	if l.Proof != "" {
		return nil
	}
	l.Why = "its changes are not in " + strings.Join(names, " or ")
	err := p.findNamingCommit(ctx, l)
	if l.Named == "" && !slices.Contains(names, l.Base) { // only a remote has it
		l.Why += ", and " + missingBaseText(l)
	}
	return err
}

// findNamingCommit looks for a commit of a base that names the task, such as one that a forge makes of a whole pull request. Nothing
// proves what was changed on that way: a person has to say that it is the work.
func (p prover) findNamingCommit(ctx context.Context, l *Leftover) error {
	from, err := p.repo.Refs().Find(ctx, l.Task.Pipeline.BaseCommit)
	if err != nil || from == "" || l.Status != trellis.Review {
		return err
	}
	for _, b := range l.bases {
		sha, err := p.repo.History().FindMessage(ctx, from, b.commit, taskTrailer+l.ID)
		if err != nil {
			return err
		}
		if sha != "" {
			l.Named = sha
			l.Why += fmt.Sprintf(" as they are, but %.12s of %s names the task: if that is its work, edited when it was merged, `trellis task archive %s` completes it", sha, b.name, trellis.ShellWord(l.ID))
			return nil
		}
	}
	return nil
}

// proofOf returns how the first of the commits is in a base, if the others are in it, too.
func (p prover) proofOf(ctx context.Context, b base, from string, work []string) (first git.Proof, err error) {
	for i, sha := range work {
		proof, err := p.repo.History().Prove(ctx, b.commit, from, sha)
		if err != nil || proof == "" {
			return "", err
		}
		if i == 0 {
			first = proof
		}
	}
	return first, nil
}

// hasOwnCommit reports whether work has a commit of the task: one that was delivered, or that carries its name, or that no base has.
func (p prover) hasOwnCommit(ctx context.Context, l *Leftover, work, delivered string) (bool, error) {
	from, err := p.repo.Refs().Find(ctx, l.Task.Pipeline.BaseCommit)
	if err != nil || work == "" || work == from {
		return false, err
	}
	if delivered != "" {
		return delivered != from, nil
	}
	for _, b := range l.bases {
		within, err := p.repo.History().IsAncestor(ctx, work, b.commit)
		if err != nil {
			return false, err
		}
		if within {
			made, err := p.repo.History().FindTrailer(ctx, from, work, taskTrailer+l.ID)
			return made != "", err
		}
	}
	return true, nil
}

// inBase reports whether a commit is in the history of a base.
func inBase(ctx context.Context, repo *git.Repo, l Leftover, commit string) (bool, error) {
	for _, b := range l.bases {
		if within, err := repo.History().IsAncestor(ctx, commit, b.commit); err != nil || within {
			return within, err
		}
	}
	return false, nil
}
