package pipeline

import (
	"slices"
	"testing"
)

// A reason in check.jsonl becomes a marker that the check agent has to end with only if it is clearly a single word.
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
