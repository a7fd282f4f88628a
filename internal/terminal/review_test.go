package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A review shows everything that an approval covers at any width, fits the width, and contains no escape sequences.
func TestReview(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("words that go on ", 12))
	r := status.Review{Task: "02-01-bye", Title: "Say \x1b[2Jbye", Type: "backend", Summary: long,
		Criteria: []pipeline.StatedCriterion{{ID: "A1", Text: "it says bye", Verify: "sh greet.sh --bye"}, {ID: "A2", Text: "it is polite", Level: "should"}},
		Steps:    []plan.Line{{Path: "add", Kind: "prompt", Title: "Add it", Does: "Let it take --bye.", Verify: "true"}}, Files: []plan.File{{Path: "greet.sh", Change: "edit"}},
		Assumptions: []string{"there is a door"}, Questions: []string{"which door"}, OutOfScope: []string{"windows"},
		Problems: []trellis.Problem{{File: "prd.md", Line: 3, Message: "is odd", Warning: true}}, Why: []string{"the work is large"},
		Estimate: status.Estimate{Size: trellis.Large, Steps: 1, Rounds: 5, Tokens: 2000}}
	for _, width := range []int{0, 40, 200} {
		var out bytes.Buffer
		if err := Review(&out, r, Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		flat := text.OneLine(out.String())
		for _, want := range []string{long, "A1 it says bye $ sh greet.sh --bye", "A2 it is polite (should) judged by an agent", "add (prompt): Add it", "verify true", "edit greet.sh",
			"there is a door", "? which door", "windows", "warning: prd.md:3: is odd", "the work is large", "at most 5 rounds of check and debug", "at most 2.0k tokens"} {
			if !strings.Contains(flat, want) {
				t.Errorf("at width %d %q is not shown:\n%s", width, want, &out)
			}
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Errorf("at width %d an escape is shown: %q", width, &out)
		}
		for line := range strings.Lines(out.String()) {
			if n := text.Width(strings.TrimRight(line, "\n")); width > 0 && n > width {
				t.Errorf("at width %d a line has %d columns: %s", width, n, line)
			}
		}
	}
}

// The review of a rejected requirement or a failed planning gives the reason, and no limits of a run, since none will follow.
func TestReviewOfARejection(t *testing.T) {
	var out bytes.Buffer
	r := status.Review{Task: "02-01-bye", Title: "Say bye", Verify: []string{"true"}, Rejected: "out_of_scope: it greets only"}
	if err := Review(&out, r, Style{}); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "02-01-bye Say bye\n\n\nRejected\n  out_of_scope: it greets only\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	out.Reset()
	r.Rejected, r.Failed = "", "agent_exit: a cold"
	if err := Review(&out, r, Style{}); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "02-01-bye Say bye\n\n\nThe planning failed\n  agent_exit: a cold\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
