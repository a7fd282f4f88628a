package app_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/app"
)

func TestWithNearest(t *testing.T) {
	unknown := errors.New("unknown")
	known := []string{"ready", "waiting"}
	near := app.WithNearest(unknown, "redy", known)
	if hints := app.HintsOf(near); !errors.Is(near, unknown) || near.Error() != "unknown" || !slices.Equal(hints, []string{"did you mean: ready"}) {
		t.Errorf("a word that is near: %v, hints %q", near, hints)
	}
	if far := app.WithNearest(unknown, "zzz", known); far != unknown {
		t.Errorf("a word that is far: %v, hints %q", far, app.HintsOf(far))
	}
}

// What the system refuses to write is told with what to do about it, as what it refuses to read; a program is another matter.
func TestHintsOfRefused(t *testing.T) {
	for op, want := range map[string]int{"mkdir": 1, "exec": 0} {
		err := fmt.Errorf("making folder: %w", &os.PathError{Op: op, Path: t.TempDir(), Err: syscall.EACCES})
		if hints := app.HintsOf(err); len(hints) != want {
			t.Errorf("%s: got %q", op, hints)
		}
	}
}
