package pipeline

import (
	"context"
	"errors"

	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// untrustedError suspends a run until somebody here trusts what it would take in.
type untrustedError struct{ error }

func (e untrustedError) Unwrap() error { return e.error }

// Is makes the run go on later.
func (e untrustedError) Is(target error) bool { return target == flow.ErrSuspended }

// trusted says why a task does not begin at base, nil when it may.
func (a *Acts) trusted(ctx context.Context, t *taskdir.Task, base Base, begun bool) error {
	if a.TrustedClaim == nil {
		return nil
	}
	if err := a.TrustedClaim(ctx, t, base, begun); err != nil {
		return untrustedError{err}
	}
	return nil
}

// trustedTexts says why files of the checkout that were read, by their paths, are not taken in, nil when they are.
func (a *Acts) trustedTexts(ctx context.Context, texts map[string][]byte) error {
	if a.TrustedTexts == nil || len(texts) == 0 {
		return nil
	}
	if err := a.TrustedTexts(ctx, texts); err != nil {
		return untrustedError{err}
	}
	return nil
}

// takeTrusted takes what counts of the directory of a task. What is not trusted is read again as long as somebody changes it: of
// what is gone by then the judge knows less.
func (a *Acts) takeTrusted(ctx context.Context) (t *taskdir.Task, k *taken, err error) {
	for {
		if t, err = a.steady(ctx, func() (*taskdir.Task, error) { return a.Store.Load(a.Dir) }); err != nil {
			return nil, nil, err
		}
		before := k
		if k, err = a.take(t); err != nil {
			return nil, nil, err
		}
		err = a.trustedTexts(ctx, a.named(k))
		if !errors.Is(err, trust.ErrUntrusted) || k.same(before) {
			return t, k, err
		}
	}
}

// trustedCopies says why what worktrees get a copy of is not copied, nil when it may be: it came by git with a commit that is not
// trusted.
func (a *Acts) trustedCopies(ctx context.Context, j Job) error {
	if a.TrustedBase == nil || len(j.Setup.Copy) == 0 {
		return nil
	}
	came, err := a.Repo.Indexed(ctx, j.Setup.Copy...)
	if err != nil || len(came) == 0 {
		return err
	}
	head, err := a.Repo.Head(ctx, a.Repo.Main)
	if errors.Is(err, git.ErrNoCommit) {
		return nil
	}
	if err == nil {
		err = a.TrustedBase(ctx, Base{Commit: head})
	}
	if err != nil {
		return untrustedError{err}
	}
	return nil
}

// unknown says why nothing of base is brought into the work, "" when it may be.
func (a *Acts) unknown(ctx context.Context, base Base) (string, error) {
	if a.TrustedBase == nil {
		return "", nil
	}
	err := a.TrustedBase(ctx, base)
	if errors.Is(err, trust.ErrUntrusted) {
		return err.Error(), nil
	}
	return "", err
}
