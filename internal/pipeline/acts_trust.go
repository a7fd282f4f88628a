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
func (a *Acts) trusted(ctx context.Context, t *taskdir.Task, base Base, begun bool) error {
	if a.TrustedClaim == nil {
		return nil
	}
	return untilTrusted(a.TrustedClaim(ctx, t, base, begun))
}

// trustedTexts says why files of the checkout that were read, by their paths, are not taken in, nil when they are.
func (a *Acts) trustedTexts(ctx context.Context, texts map[string][]byte) error {
	if a.TrustedTexts == nil || len(texts) == 0 {
		return nil
	}
	return untilTrusted(a.TrustedTexts(ctx, texts))
}

// readTrusted reads files of the checkout, which read returns by their paths. What is not trusted is read again as long as somebody
// changes it, for a second at most: of what is gone by then the judge knows less.
func (a *Acts) readTrusted(ctx context.Context, read func() (map[string][]byte, error)) error {
	var before map[string][]byte
	for end := time.Now().Add(Saving); ; {
		texts, err := read()
		if err != nil {
			return err
		}
		err = a.trustedTexts(ctx, texts)
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

// takeTrusted takes what counts of the directory of a task.
func (a *Acts) takeTrusted(ctx context.Context) (t *taskdir.Task, k *taken, err error) {
	err = a.readTrusted(ctx, func() (map[string][]byte, error) {
		if t, err = a.steady(ctx, func() (*taskdir.Task, error) { return a.Store.Load(a.Dir) }); err != nil {
			return nil, err
		}
		if k, err = a.take(t); err != nil {
			return nil, err
		}
		return a.named(k), nil
	})
	return t, k, err
}

// judgeTaken has what was taken be judged by what reads the directory again. Where that says something else by then, it is taken and
// judged anew: no yes to what lies there now counts for what was taken. A run sleeps while it is never the same.
func (a *Acts) judgeTaken(ctx context.Context, judge func(*taskdir.Task, *taken) error) (*taskdir.Task, error) {
	for end := time.Now().Add(Saving); ; {
		t, k, err := a.takeTrusted(ctx)
		if err != nil {
			return nil, err
		}
		verdict := judge(t, k)
		if same, err := a.stays(ctx, k); same || err != nil {
			return t, cmp.Or(err, verdict)
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%w: the files of %s are being changed", flow.ErrSuspended, filepath.Base(a.Dir))
		}
		if err := breathe(ctx); err != nil {
			return nil, err
		}
	}
}

// stays reports whether the directory says what was taken of it.
func (a *Acts) stays(ctx context.Context, k *taken) (bool, error) {
	t, err := a.steady(ctx, func() (*taskdir.Task, error) { return a.Store.Load(a.Dir) })
	if err != nil {
		return false, err
	}
	now, err := a.take(t)
	return err == nil && now.hash == k.hash && maps.EqualFunc(a.named(now), a.named(k), bytes.Equal), err
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
	return untilTrusted(err)
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
