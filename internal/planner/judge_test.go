package planner

import "testing"

// A judge mentions a step if its text contains the step's id as a whole word, in any markup.
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
