package app_test

import (
	"errors"
	"slices"
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
