package journal_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
)

// A failure of an activity because the disk can't take anything is not recorded: the run stops, reports that, and enters the
// activity again when the disk works. A failure in a program's own words counts as one if the disk is full just then.
func TestDiskAtFaultIsNoFailure(t *testing.T) {
	for name, fails := range map[string]error{"told": fmt.Errorf("writing x: %w", syscall.EDQUOT), "found": flow.Fail("commit_failed", "git: no room")} {
		t.Run(name, func(t *testing.T) {
			full, entered := true, 0
			disk := &durable.Disk{Fault: func(_, path string) error {
				if full && filepath.Base(path) == durable.TempPrefix+"room" {
					return syscall.ENOSPC
				}
				return nil
			}}
			one := flow.Act[string, string]("one")
			o := journal.Options{Dir: t.TempDir(), Disk: disk, Activities: []flow.Activity{one.With(func(context.Context, flow.Call, string) (string, error) {
				if entered++; full {
					return "", fails
				}
				return "done", nil
			})}}
			begin(t, o, "")
			do := func() (string, error) {
				r := open(t, o)
				defer r.Close()
				return journal.Execute(t.Context(), r, func(f flow.Flow, _ string) (string, error) { return one.Do(f, "") })
			}
			_, err := do()
			if !errors.Is(err, flow.ErrSuspended) || !strings.Contains(err.Error(), fails.Error()) || !durable.IsDiskError(err) || errors.As(err, new(*flow.Failure)) {
				t.Fatalf("on a full disk: %v", err)
			}
			full = false
			if got, err := do(); got != "done" || err != nil || entered != 2 {
				t.Errorf("got %q, %v, after %d entries", got, err, entered)
			}
		})
	}
}

// Edge F11: a failure because somebody holds a lock that an activity needs is not recorded: the run stops, reports the
// holder, and enters the activity again.
func TestHeldIsNoFailure(t *testing.T) {
	held, entered := true, 0
	one := flow.Act[string, string]("one")
	o := journal.Options{Dir: t.TempDir(), Activities: []flow.Activity{one.With(func(context.Context, flow.Call, string) (string, error) {
		if entered++; held {
			return "", fmt.Errorf("changing task x: %w", &durable.HeldError{Path: "run/write.lock", Holder: durable.Holder{PID: 4711}})
		}
		return "done", nil
	})}}
	begin(t, o, "")
	do := func() (string, error) {
		r := open(t, o)
		defer r.Close()
		return journal.Execute(t.Context(), r, func(f flow.Flow, _ string) (string, error) { return one.Do(f, "") })
	}
	if _, err := do(); !errors.Is(err, flow.ErrSuspended) || !errors.Is(err, durable.ErrHeld) || !strings.Contains(err.Error(), "process 4711") {
		t.Fatalf("while it is held: %v", err)
	}
	held = false
	if got, err := do(); got != "done" || err != nil || entered != 2 {
		t.Errorf("got %q, %v, after %d entries", got, err, entered)
	}
}
