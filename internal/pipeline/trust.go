package pipeline

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/patience"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// trustJudge decides whether what a run takes in came from somebody who is trusted here.
type trustJudge struct {
	repo         *git.Repo
	trustedClaim func(ctx context.Context, t *taskdir.Task, base bases.Base, begun bool) error
	trustedBase  func(ctx context.Context, base bases.Base) error
	textsTrusted func(ctx context.Context, texts map[string][]byte) error
}

// untrustedError suspends a run until somebody here trusts what it would take in.
type untrustedError struct{ error }

func (e untrustedError) Unwrap() error { return e.error }

// Is makes the error a suspension, after which the run continues later.
func (e untrustedError) Is(target error) bool { return target == flow.ErrSuspended }

// untilTrusted suspends the run if err says that something is not trusted. It returns any other error unchanged.
func untilTrusted(err error) error {
	if errors.Is(err, trust.ErrUntrusted) {
		return untrustedError{err}
	}
	return err
}

// trusted returns an error if the task may not begin at base, and nil if it may.
func (tj *trustJudge) trusted(ctx context.Context, t *taskdir.Task, base bases.Base, begun bool) error {
	if tj.trustedClaim == nil {
		return nil
	}
	return untilTrusted(tj.trustedClaim(ctx, t, base, begun))
}

// trustedTexts returns an error if files of the checkout, given by their paths, must not be taken in, and nil if they may be.
func (tj *trustJudge) trustedTexts(ctx context.Context, texts map[string][]byte) error {
	if tj.textsTrusted == nil || len(texts) == 0 {
		return nil
	}
	return untilTrusted(tj.textsTrusted(ctx, texts))
}

// readTrusted reads files of the checkout with read, which returns them by path. Files that are not trusted are read again while
// somebody is changing them, for at most a second: the judge knows less about a version that has been replaced.
func (tj *trustJudge) readTrusted(ctx context.Context, read func() (map[string][]byte, error)) error {
	var before map[string][]byte
	for end := time.Now().Add(Saving); ; {
		texts, err := read()
		if err != nil {
			return err
		}
		err = tj.trustedTexts(ctx, texts)
		same := before != nil && maps.EqualFunc(texts, before, bytes.Equal)
		if !errors.Is(err, trust.ErrUntrusted) || same || time.Now().After(end) {
			return err
		}
		before = texts
		if err := patience.Sleep(ctx, retryDelay); err != nil {
			return err
		}
	}
}

// trustedCopies returns an error if the files that worktrees get copies of must not be copied, since git brought them with a
// commit that is not trusted, and nil if they may be.
func (tj *trustJudge) trustedCopies(ctx context.Context, j Job) error {
	if tj.trustedBase == nil || len(j.Setup.Copy) == 0 {
		return nil
	}
	came, err := tj.repo.Provenance().Indexed(ctx, j.Setup.Copy...)
	if err != nil || len(came) == 0 {
		return err
	}
	head, err := tj.repo.Refs().Head(ctx, tj.repo.Main)
	if errors.Is(err, git.ErrNoCommit) {
		return nil
	}
	if err == nil {
		err = tj.trustedBase(ctx, bases.Base{Commit: head})
	}
	return untilTrusted(err)
}

// untrusted says why base must not be brought into the work, "" if it may be.
func (tj *trustJudge) untrusted(ctx context.Context, base bases.Base) (string, error) {
	if tj.trustedBase == nil {
		return "", nil
	}
	err := tj.trustedBase(ctx, base)
	if errors.Is(err, trust.ErrUntrusted) {
		return err.Error(), nil
	}
	return "", err
}
