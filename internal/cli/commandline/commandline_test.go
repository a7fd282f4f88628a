package commandline_test

import (
	"bytes"
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/commandline"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// A command that was ended by a signal reports the signal, even if its error is only that of a cancelled context.
func TestSignalDecides(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&proc.SignalError{Signal: syscall.SIGTERM})
	var out bytes.Buffer
	a := &command.Console{Stderr: &out}
	if got := commandline.ReportExit(ctx, a, fmt.Errorf("running git: %w", context.Canceled)); got != command.ExitTerminated {
		t.Errorf("got %d, want %d", got, command.ExitTerminated)
	}
}
