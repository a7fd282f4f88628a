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

// trustJudge asks whether what a run takes in came from somebody who is trusted here.
type trustJudge struct {
	repo         *git.Repo
	trustedClaim func(ctx context.Context, t *taskdir.Task, base bases.Base, begun bool) error
	trustedBase  func(ctx context.Context, base bases.Base) error
	textsTrusted func(ctx context.Context, texts map[string][]byte) error
}

// untrustedError suspends a run until somebody here trusts what it would take in.
type untrustedError struct{ error }

func (e untrustedError) Unwrap() error { return e.error }

// Is makes the run go on later.
func (e untrustedError) Is(target error) bool { return target == flow.ErrSuspended }

// untilTrusted has the run sleep for what is not trusted. What else keeps the judge from a verdict stays what it is.
func untilTrusted(err error) error {
	if errors.Is(err, trust.ErrUntrusted) {
		return untrustedError{err}
	}
	return err
}

// trusted says why a task does not begin at base, nil when it may.
func (tj *trustJudge) trusted(ctx context.Context, t *taskdir.Task, base bases.Base, begun bool) error {
	if tj.trustedClaim == nil {
		return nil
	}
	return untilTrusted(tj.trustedClaim(ctx, t, base, begun))
}

// trustedTexts says why files of the checkout that were read, by their paths, are not taken in, nil when they are.
func (tj *trustJudge) trustedTexts(ctx context.Context, texts map[string][]byte) error {
	if tj.textsTrusted == nil || len(texts) == 0 {
		return nil
	}
	return untilTrusted(tj.textsTrusted(ctx, texts))
}

// readTrusted reads files of the checkout, which read returns by their paths. What is not trusted is read again as long as somebody
// changes it, for a second at most: of what is gone by then the judge knows less.
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

// trustedCopies says why what worktrees get a copy of is not copied, nil when it may be: it came by git with a commit that is not
// trusted.
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

// untrusted says why nothing of base is brought into the work, "" when it may be.
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
