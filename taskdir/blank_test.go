package taskdir_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/taskdir"
)

// PlaceholderLines returns the lines of a prd.md that still have the placeholder text of a new one.
func TestUnfilled(t *testing.T) {
	prd := string(taskdir.BlankPRD("Log in\nwith mail", ""))
	if !strings.HasPrefix(prd, "# Log in with mail\n") {
		t.Errorf("got %q", prd)
	}
	for text, want := range map[string][]int{
		prd:                                      {3, 7},
		strings.ReplaceAll(prd, "\n", "\r\n"):    {3, 7},
		strings.Replace(prd, "<What", "What", 1): {7},
		string(taskdir.BlankPRD("x", "It says bye.\nTo all.")): {8},
		"# x\n\nA <b>word</b>\n\n- [ ] <html>\n":               nil,
	} {
		if got := taskdir.PlaceholderLines([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
