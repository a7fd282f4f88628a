package pipeline

import (
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// The criteria are read from prd.md; a prd.md without any gets a single criterion, and a note.
func TestParseCriteria(t *testing.T) {
	got, notes := criteriaOf("## Acceptance Criteria (evolving)\n- [ ] a\n  verify: `false`\n1. b\n   level: should\n", nil)
	if want := []Criterion{{ID: "A1", Text: "a", Verify: "false"}, {ID: "A2", Text: "b", Should: true}}; !slices.Equal(got, want) || notes != nil {
		t.Errorf("got %+v, %q, want %+v", got, notes, want)
	}
	got, notes = criteriaOf("# T\n\ntext\n", nil)
	if want := []Criterion{{ID: "A1", Text: "prd.md is met"}}; !slices.Equal(got, want) || len(notes) != 1 {
		t.Errorf("without any: got %+v, %q", got, notes)
	}
}

// Boxes in prd.md take precedence: a plan entry with the same text fills in missing fields, other entries are appended with a note.
func TestCriteriaOfAPlan(t *testing.T) {
	p := &plan.Plan{Acceptance: []plan.Criterion{{Criterion: "a  b", Verify: "make a", Level: "should"}, {Criterion: "c", Verify: "make c", Level: "should"}, {Criterion: "d", Level: "must"}}}
	for name, c := range map[string]struct {
		prd   string
		want  []Criterion
		notes int
	}{
		"no box": {"# T\n", []Criterion{{ID: "A1", Text: "a b", Verify: "make a", Should: true}, {ID: "A2", Text: "c", Verify: "make c", Should: true}, {ID: "A3", Text: "d"}}, 3},
		"all of them, in another order": {"## Acceptance Criteria\n- [ ] d\n- [x] c\n- [ ] a\n  b\n",
			[]Criterion{{ID: "A1", Text: "d"}, {ID: "A2", Text: "c", Verify: "make c", Should: true}, {ID: "A3", Text: "a b", Verify: "make a", Should: true}}, 0},
		"the box says otherwise": {"## Acceptance Criteria\n- [ ] a b\n  verify: `make other`\n  level: must\n- [ ] e\n",
			[]Criterion{{ID: "A1", Text: "a b", Verify: "make other"}, {ID: "A2", Text: "e"}, {ID: "A3", Text: "c", Verify: "make c", Should: true}, {ID: "A4", Text: "d"}}, 2},
		"only one of both is said": {"## Acceptance Criteria\n- [ ] a b\n  level: must\n- [ ] c\n  verify: `make other`\n- [ ] d\n",
			[]Criterion{{ID: "A1", Text: "a b", Verify: "make a"}, {ID: "A2", Text: "c", Verify: "make other", Should: true}, {ID: "A3", Text: "d"}}, 0},
	} {
		got, notes := criteriaOf(c.prd, p)
		if !slices.Equal(got, c.want) || len(notes) != c.notes {
			t.Errorf("%s: got %+v, %q, want %+v", name, got, notes, c.want)
		}
	}
	if got, _ := criteriaOf("# T\n", &plan.Plan{}); len(got) != 1 || got[0].Text != "prd.md is met" {
		t.Errorf("without any: got %+v", got)
	}
}

func TestMessage(t *testing.T) {
	in := commitIn{Job: Job{Title: "Add\n  paging ", CommitType: "feat", Scope: "api"}, Task: "02-01-paging"}
	if got, want := message(in), "feat(api): Add paging\n\nTask: 02-01-paging"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	in.Job.Scope, in.Job.Title = "", strings.Repeat("ü", 200)
	if got, _, _ := strings.Cut(message(in), "\n"); len(got) > subjectMax || strings.Contains(got, "None") || !strings.HasSuffix(got, "…") {
		t.Errorf("got %q", got)
	}
}
