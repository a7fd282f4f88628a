package github_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	run := func(name, status, conclusion string) any {
		return m{"name": name, "status": status, "conclusion": conclusion}
	}
	old := func(name, state string) any { return m{"context": name, "state": state} }
	each(t, githubtest.State{}, func(w *world) {
		for name, c := range map[string]struct {
			checks []any
			review string
			want   string
		}{
			"nothing":         {nil, "", "  "},
			"passed":          {[]any{run("a", "COMPLETED", "SUCCESS"), run("b", "COMPLETED", "SKIPPED"), old("c", "SUCCESS")}, "APPROVED", "passed approved "},
			"at work":         {[]any{run("a", "COMPLETED", "SUCCESS"), run("b", "IN_PROGRESS", "")}, "REVIEW_REQUIRED", "pending review_required "},
			"failed":          {[]any{run("a", "COMPLETED", "FAILURE"), run("b", "QUEUED", ""), old("c", "ERROR")}, "CHANGES_REQUESTED", "failed changes_requested a,c"},
			"never heard of":  {[]any{run("a", "COMPLETED", "ODD")}, "ODD", "failed  a"},
			"an expected one": {[]any{old("c", "EXPECTED"), old("d", "SUCCESS")}, "", "pending  "},
			"run again":       {[]any{m{"context": "c", "state": "SUCCESS", "startedAt": late}, m{"context": "c", "state": "ERROR", "startedAt": early}}, "", "passed  "},
		} {
			w.has(w.pr(7, m{"statusCheckRollup": c.checks, "reviewDecision": c.review}))
			s, err := w.Status(w.Context(), &forge.PR{Number: 7})
			if got := s.Checks + " " + s.Review + " " + strings.Join(s.Failing, ","); err != nil || got != c.want {
				w.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
			}
		}
	})
}
