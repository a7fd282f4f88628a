package proc

import (
	"context"
	"fmt"
	"time"
)

// FailedError says that a program ran and did not succeed: it took too long, or had an exit code.
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

// Succeed is [Run] of a program that has to end with 0. Else the error is a FailedError, or that of Run.
func Succeed(ctx context.Context, c Command) error {
	res, err := Run(ctx, c)
	if err == nil && (res.TimedOut || res.Code != 0) {
		return &FailedError{res, c.Wall}
	}
	return err
}
