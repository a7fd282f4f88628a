package pipeline

import (
	"slices"
	"testing"
)

// Only what is plainly one word is a marker that the check agent is to end with.
func TestMarkers(t *testing.T) {
	got := markers([]byte(`{"file": "a.md", "reason": "lint"}
{"file": "b.md", "reason": "Type-check."}
{"file": "c.md", "reason": "the tests"}
{"file": "d.md", "reason": "检查代码是否符合规范"}
{"file": "e.md", "reason": "lint"}
{"file": "f.md"}
{"file": "g.md", "reason": "."}
`))
	if want := []string{"ALL_CHECKS_FINISH", "LINT_FINISH", "TYPE-CHECK_FINISH"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
