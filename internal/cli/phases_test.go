package cli

import (
	"slices"
	"testing"
)

// Edge C16: what a log has can be asked for.
func TestPhases(t *testing.T) {
	known := phases()
	for _, name := range []string{"implement", "check", "verify", "debug", "accept", "evaluate", "research", "taskspec", "plan", "judge", "baseline", "commit", "deliver", "script", "survey"} {
		if !slices.Contains(known, name) {
			t.Errorf("%s is not a phase: %v", name, known)
		}
	}
}
