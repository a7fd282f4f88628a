package pipeline

import (
	"context"
	"errors"

	"github.com/trellis-tasks/trellis/internal/flow"
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
