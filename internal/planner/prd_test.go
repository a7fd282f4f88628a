package planner

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/taskdir"
)

func TestRenderPRD(t *testing.T) {
	got := prd{Document: Document{Title: "Say\nbye", Summary: "It says bye.", Requirements: []string{"a", "b\nb"},
		Acceptance:     []Criterion{{Criterion: "says bye", Verify: "sh x | grep `date`", Level: "must"}, {Criterion: "nice", Level: "should"}},
		TechnicalNotes: "Notes.", OutOfScope: []string{"hello"}}, notes: []string{"new area"}}.render()
	want := "# Task: Say bye\n\n## Overview\n\nIt says bye.\n\n## Requirements\n\n- a\n- b b\n\n## Acceptance Criteria\n\n- [ ] says bye\n  verify: `` sh x | grep `date` ``\n" +
		"- [ ] nice\n  level: should\n\n## Technical Notes\n\nNotes.\n- new area\n\n## Out of Scope\n\n- hello\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	got = prd{Document: Document{Title: "Say bye"}, step: roadmapStep{objective: taskdir.Objective{Name: "farewells", Step: "1A.2"}}}.render()
	if want := "# Task: Say bye\n\nPart of Objective farewells, Step 1A.2\n\n## Overview\n"; !strings.HasPrefix(got, want) {
		t.Errorf("of a step: got\n%s\nwant\n%s", got, want)
	}
}

func TestRejectionPage(t *testing.T) {
	for category, label := range reasons {
		if got := (Rejection{Category: category}).Reason(); got != label || label == "" {
			t.Errorf("%s: got %q", category, got)
		}
	}
	page := Rejection{Category: "harmful", Details: "d", Suggestions: []string{"s"}, Dir: ".trellis/tasks/it's here", Name: "x", DevType: ""}.Render()
	if want := `trellis plan --retry '.trellis/tasks/it'\''s here' --requirement '<revised requirement>'`; !strings.Contains(page, want) {
		t.Errorf("the page lacks %q:\n%s", want, page)
	}
	if want := "trellis plan --name x --requirement '<revised requirement>'"; !strings.Contains(page, want) {
		t.Errorf("the page of a task without a type lacks %q:\n%s", want, page)
	}
	if page := (Rejection{Name: "x", DevType: "docs"}).Render(); !strings.Contains(page, "trellis plan --name x --type docs --requirement") {
		t.Errorf("the page lacks the type:\n%s", page)
	}
	if strings.Contains(page, "rm -") || strings.Contains(page, "${") {
		t.Errorf("the page tells to remove the task, or has a name in the place of a value:\n%s", page)
	}
}

func TestCodeSpan(t *testing.T) {
	for s, want := range map[string]string{"make": "`make`", "a `b` c": "``a `b` c``", "`x`": "`` `x` ``", "a ``b``": "``` a ``b`` ```"} {
		if got := codeSpan(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}
