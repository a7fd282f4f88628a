package pipeline

import (
	"slices"
	"strings"
	"testing"
)

func TestParseCriteria(t *testing.T) {
	for name, c := range map[string]struct {
		prd  string
		want []Criterion
	}{
		"none":                      {"# T\n\ntext\n", []Criterion{{ID: "A1", Text: "prd.md is met"}}},
		"empty section":             {"## Acceptance Criteria\n\nlater\n", []Criterion{{ID: "A1", Text: "prd.md is met"}}},
		"ticked or not, any bullet": {"## Acceptance Criteria\n- [ ] a\n* [x] b\n+ [X] c\n", []Criterion{{ID: "A1", Text: "a"}, {ID: "A2", Text: "b"}, {ID: "A3", Text: "c"}}},
		"with command and level": {"## Acceptance Criteria:\n\n- [ ] a\n  verify: `go test ./... | grep \"ok\"`\n  level: should\n- [ ] b\n  **Level**: must\n",
			[]Criterion{{ID: "A1", Text: "a", Verify: `go test ./... | grep "ok"`, Should: true}, {ID: "A2", Text: "b"}}},
		"bulleted below":       {"## acceptance criteria\n- [ ] a\n  - verify: `make`\n", []Criterion{{ID: "A1", Text: "a", Verify: "make"}}},
		"wrapped text":         {"## Acceptance Criteria\n- [ ] a long\n  story\n", []Criterion{{ID: "A1", Text: "a long story"}}},
		"backticks in command": {"## Acceptance Criteria\n- [ ] a\n  verify: `` echo `date` ``\n", []Criterion{{ID: "A1", Text: "a", Verify: "echo `date`"}}},
		"no ticks":             {"## Acceptance Criteria\n- [ ] a\n  verify: make test\n", []Criterion{{ID: "A1", Text: "a", Verify: "make test"}}},
		"boxes elsewhere, and in fences": {"- [ ] no\n## Acceptance Criteria\n```\n- [ ] no\n## Other\n```\n- [ ] yes\n## Out of Scope\n- [ ] no\n",
			[]Criterion{{ID: "A1", Text: "yes"}}},
		"CRLF":        {"## Acceptance Criteria\r\n- [ ] a\r\n  verify: `make`\r\n", []Criterion{{ID: "A1", Text: "a", Verify: "make"}}},
		"subheadings": {"## Acceptance Criteria\n### API\n- [ ] a\n### UI\n- [ ] b\n", []Criterion{{ID: "A1", Text: "a"}, {ID: "A2", Text: "b"}}},
	} {
		if got, notes := criteriaOf(c.prd, nil); !slices.Equal(got, c.want) || notes != nil {
			t.Errorf("%s: got %+v, %q, want %+v", name, got, notes, c.want)
		}
	}
}

func FuzzParseCriteria(f *testing.F) {
	f.Add("## Acceptance Criteria\n- [ ] a\n  verify: `x`\n")
	f.Fuzz(func(t *testing.T, prd string) {
		list, _ := criteriaOf(prd, nil)
		if len(list) == 0 {
			t.Fatal("a run without a criterion")
		}
		for i, c := range list {
			if strings.ContainsAny(c.Text+c.Verify, "\n") || c.ID == "" || i > 0 && list[i-1].ID == c.ID {
				t.Fatalf("got %+v", list)
			}
		}
	})
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
