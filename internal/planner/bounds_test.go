package planner

import (
	"slices"
	"strings"
	"testing"
)

// A judge means a step by its id as a word, however it is marked.
func TestMentions(t *testing.T) {
	for text, want := range map[string]bool{
		"add: too much": true, "split `add`.": true, "**add**, run": true, "_add_ is": true, "step add's": true, "(add)": true, "ADD": false, "": false,
		"address": false, "add_flag": false, "re-add": true, "the addition": false, "run/add": true, "ädd": false,
	} {
		if got := mentions(text, "add"); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
	if !mentions(`split add\_flag`, "add_flag") || mentions("add flag", "add_flag") {
		t.Error("an id of two words is not found, or found where it is not")
	}
}

// What is left out of a list is counted, and what is kept takes no more of a record than it may.
func TestPart(t *testing.T) {
	angles := strings.Repeat("<", 10) // 62 bytes, with quotes
	for _, c := range []struct {
		list []string
		n    int
		kept []string
		left int
	}{
		{nil, 100, nil, 0},
		{[]string{"a", "b"}, 8, []string{"a", "b"}, 0},
		{[]string{"a", "b"}, 7, []string{"a"}, 1},
		{[]string{angles, "a"}, 60, []string{}, 2},
		{[]string{"a", angles, "b"}, 66, []string{"a"}, 2},
		{[]string{"a", angles, "b"}, 67, []string{"a", angles}, 1},
	} {
		if kept, left := part(c.list, c.n); !slices.Equal(kept, c.kept) || left != c.left {
			t.Errorf("%q within %d: got %q and %d", c.list, c.n, kept, left)
		}
	}
}
