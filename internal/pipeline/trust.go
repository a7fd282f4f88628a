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
	repo       *git.Repo
	judgeClaim func(ctx context.Context, t *taskdir.Task, base bases.Base, begun bool) error
	judgeBase  func(ctx context.Context, base bases.Base) error
	judgeTexts func(ctx context.Context, texts map[string][]byte) error
}

// untrustedError suspends a run until somebody here trusts what it would take in.
type untrustedError struct{ error }

func (e untrustedError) Unwrap() error { return e.error }

// Is makes the error a suspension, after which the run continues later.
func (e untrustedError) Is(target error) bool { return target == flow.ErrSuspended }

// suspendUntrusted suspends the run if err says that something is not trusted. It returns any other error unchanged.
func suspendUntrusted(err error) error {
	if errors.Is(err, trust.ErrUntrusted) {
		return untrustedError{err}
	}
	return err
}

// checkClaim returns an error if the task may not begin at base, and nil if it may.
func (tj *trustJudge) checkClaim(ctx context.Context, t *taskdir.Task, base bases.Base, begun bool) error {
	if tj.judgeClaim == nil {
		return nil
	}
	return suspendUntrusted(tj.judgeClaim(ctx, t, base, begun))
}

// checkTexts returns an error if files of the checkout, given by their paths, must not be taken in, and nil if they may be.
func (tj *trustJudge) checkTexts(ctx context.Context, texts map[string][]byte) error {
	if tj.judgeTexts == nil || len(texts) == 0 {
		return nil
	}
	return suspendUntrusted(tj.judgeTexts(ctx, texts))
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
		err = tj.checkTexts(ctx, texts)
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

// checkCopies returns an error if the files that worktrees get copies of must not be copied, since git brought them with a
// commit that is not trusted, and nil if they may be.
func (tj *trustJudge) checkCopies(ctx context.Context, j Job) error {
	if tj.judgeBase == nil || len(j.Setup.Copy) == 0 {
		return nil
	}
	provenance, err := tj.repo.Provenance().Indexed(ctx, j.Setup.Copy...)
	if err != nil || len(provenance) == 0 {
		return err
	}
	head, err := tj.repo.Refs().Head(ctx, tj.repo.Main)
	if errors.Is(err, git.ErrNoCommit) {
		return nil
	}
	if err == nil {
		err = tj.judgeBase(ctx, bases.Base{Commit: head})
	}
	return suspendUntrusted(err)
}

// distrustReason says why base must not be brought into the work, "" if it may be.
func (tj *trustJudge) distrustReason(ctx context.Context, base bases.Base) (string, error) {
	if tj.judgeBase == nil {
		return "", nil
	}
	err := tj.judgeBase(ctx, base)
	if errors.Is(err, trust.ErrUntrusted) {
		return err.Error(), nil
	}
	return "", err
}
