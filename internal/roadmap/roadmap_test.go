package roadmap_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// whole is an objective as people write them.
const whole = `# Objective: Unified gateway testing
> One line.

## Goal
| Property | Value |
| --- | --- |
| Step by step | yes |

## Roadmap
### Phase 1A: Infrastructure (1 PR)
Prose.

| Step | Description | Status | PR |
| --- | --- | --- | --- |
| 1A.1 | Add gateway interface | | #12 |
| 1A.2 | Port tests | | plan 02-03-port-tests |
| 1A.3 | Remove old fakes | blocked | |

**Test:** all green

### Phase 2 - Rest

Step | Description | Status | PR
--- | :---: | --- | ---
2.1 | Use it | skipped | -
2.2 | Say ` + "`a\\|b`" + ` | | —

## Appendix
| a | b |
| - | - |
| 1 | 2 |
`

func TestParse(t *testing.T) {
	r, err := roadmap.Parse("gateway", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	if r.Title != "Unified gateway testing" || len(r.Phases) != 2 || r.Phases[0].ID != "1A" || r.Phases[1].Title != "Phase 2 - Rest" {
		t.Errorf("got %q, %+v", r.Title, r.Phases)
	}
	for i, want := range []struct {
		id, description string
		state           roadmap.State
		plan            string
		line            int
	}{
		{"1A.1", "Add gateway interface", roadmap.Done, "", 15},
		{"1A.2", "Port tests", roadmap.InProgress, "02-03-port-tests", 16},
		{"1A.3", "Remove old fakes", roadmap.Blocked, "", 17},
		{"2.1", "Use it", roadmap.Skipped, "", 25},
		{"2.2", "Say `a|b`", roadmap.Pending, "", 26},
	} {
		s := r.Steps[i]
		if s.ID != want.id || s.Description != want.description || s.State != want.state || s.Plan != want.plan || s.Line != want.line {
			t.Errorf("got %+v, want %+v", s, want)
		}
	}
	if got := r.Next(nil); got.Code != roadmap.Next || got.Step.ID != "2.2" {
		t.Errorf("got %+v", got)
	}
}

// A merge conflict is the only problem that is reported, since the others follow from it and no side is known to count.
func TestMergeConflict(t *testing.T) {
	r, err := roadmap.Parse("x", []byte("# X\n\n| Step | PR |\n|-|-|\n<<<<<<< HEAD\n| 1 | |\n=======\n| 2 | |\n>>>>>>> y\n"))
	var p *trellis.Problem
	if !errors.As(err, &p) || p.Line != 5 || p.Message != trellis.MergeConflict || len(r.Check()) != 1 {
		t.Errorf("got %v, %v", err, r.Check())
	}
	if _, err := roadmap.Parse("x", []byte("# X\n\n```\n<<<<<<< HEAD\n=======\n>>>>>>> y\n```\n\n| Step | PR |\n|-|-|\n| 1 | |\n")); err != nil {
		t.Errorf("an example: %v", err)
	}
}

// The error of a file with many problems fits into one line of a log; Check returns all of them.
func TestSeveralProblems(t *testing.T) {
	r, err := roadmap.Parse("x", []byte("| Step | PR |\n|-|-|\n| 1 | soon |\n| 2 | later |\n| 2 | |\n"))
	var p *trellis.Problem
	if !errors.As(err, &p) || p.Line != 3 || strings.Contains(err.Error(), "\n") || !strings.HasSuffix(err.Error(), ", and 2 more") {
		t.Errorf("got %v", err)
	}
	if len(r.Check()) != 3 {
		t.Errorf("problems %v", r.Check())
	}
}
