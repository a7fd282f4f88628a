package proc

import (
	"context"
	"fmt"
	"time"
)

// FailedError means that a program ran without success: it took too long, or its exit code was not 0.
type FailedError struct {
	Result
	Wall time.Duration
}

func (e *FailedError) Error() string {
	if e.TimedOut {
		return fmt.Sprintf("it took longer than %v", e.Wall)
	}
	return fmt.Sprintf("exit %d", e.Code)
}

// RunSuccessfully is [Run] for a program that has to exit with 0. Otherwise the error is a *FailedError, or that of Run.
func RunSuccessfully(ctx context.Context, c Command) error {
	res, err := Run(ctx, c)
	if err == nil && (res.TimedOut || res.Code != 0) {
		return &FailedError{res, c.Wall}
	}
	return err
}
