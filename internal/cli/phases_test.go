package cli

import (
	"slices"
	"testing"
)

// Edge C16: these phases can be chosen in a log.
func TestPhases(t *testing.T) {
	known := phases()
	for _, name := range []string{"implement", "check", "verify", "debug", "accept", "evaluate", "research", "taskspec", "plan", "judge", "baseline", "commit", "deliver", "script", "survey"} {
		if !slices.Contains(known, name) {
			t.Errorf("%s is not a phase: %v", name, known)
		}
	}
}
