package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

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
func (tj *trustJudge) trusted(ctx context.Context, t *taskdir.Task, base Base, begun bool) error {
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
		if err := breathe(ctx); err != nil {
			return err
		}
	}
}

// breathe waits for whoever is saving a file.
func breathe(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(Saving / 20):
		return nil
	}
}

// readTrusted takes what counts of the directory of a task.
func (ik *intake) readTrusted(ctx context.Context) (t *taskdir.Task, k *taken, err error) {
	err = ik.trust.readTrusted(ctx, func() (map[string][]byte, error) {
		if t, err = steady(ctx, func() (*taskdir.Task, error) { return ik.store.Load(ik.task.dir) }); err != nil {
			return nil, err
		}
		if k, err = ik.read(t); err != nil {
			return nil, err
		}
		return ik.byPath(k), nil
	})
	return t, k, err
}

// judge has what was taken be judged by what reads the directory again. Where that says something else by then, it is taken and
// judged anew: no yes to what lies there now counts for what was taken. A run sleeps while it is never the same.
func (ik *intake) judge(ctx context.Context, judge func(*taskdir.Task, *taken) error) (*taskdir.Task, error) {
	for end := time.Now().Add(Saving); ; {
		t, k, err := ik.readTrusted(ctx)
		if err != nil {
			return nil, err
		}
		verdict := judge(t, k)
		if same, err := ik.unchanged(ctx, k); same || err != nil {
			return t, cmp.Or(err, verdict)
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%w: the files of %s are being changed", flow.ErrSuspended, filepath.Base(ik.task.dir))
		}
		if err := breathe(ctx); err != nil {
			return nil, err
		}
	}
}

// unchanged reports whether the directory says what was taken of it.
func (ik *intake) unchanged(ctx context.Context, k *taken) (bool, error) {
	t, err := steady(ctx, func() (*taskdir.Task, error) { return ik.store.Load(ik.task.dir) })
	if err != nil {
		return false, err
	}
	now, err := ik.read(t)
	return err == nil && now.hash == k.hash && maps.EqualFunc(ik.byPath(now), ik.byPath(k), bytes.Equal), err
}

// trustedCopies says why what worktrees get a copy of is not copied, nil when it may be: it came by git with a commit that is not
// trusted.
func (tj *trustJudge) trustedCopies(ctx context.Context, j Job) error {
	if tj.trustedBase == nil || len(j.Setup.Copy) == 0 {
		return nil
	}
	came, err := tj.repo.Indexed(ctx, j.Setup.Copy...)
	if err != nil || len(came) == 0 {
		return err
	}
	head, err := tj.repo.Head(ctx, tj.repo.Main)
	if errors.Is(err, git.ErrNoCommit) {
		return nil
	}
	if err == nil {
		err = tj.trustedBase(ctx, Base{Commit: head})
	}
	return untilTrusted(err)
}

// untrusted says why nothing of base is brought into the work, "" when it may be.
func (tj *trustJudge) untrusted(ctx context.Context, base Base) (string, error) {
	if tj.trustedBase == nil {
		return "", nil
	}
	err := tj.trustedBase(ctx, base)
	if errors.Is(err, trust.ErrUntrusted) {
		return err.Error(), nil
	}
	return "", err
}
