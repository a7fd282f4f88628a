package forge_test

import (
	"context"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/forge/forgetest"
)

func TestStanding(t *testing.T) {
	run := func(name, status, conclusion string) any {
		return map[string]any{"__typename": "CheckRun", "name": name, "status": status, "conclusion": conclusion}
	}
	old := func(name, state string) any {
		return map[string]any{"__typename": "StatusContext", "context": name, "state": state}
	}
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
	} {
		t.Run(name, func(t *testing.T) {
			gh := forgetest.Install(t, forgetest.State{PRs: []map[string]any{{"number": 7, "url": "https://github.example/pull/7", "state": "OPEN", "headRefName": "work",
				"statusCheckRollup": c.checks, "reviewDecision": c.review}}})
			s, err := (&forge.Forge{Dir: t.TempDir(), Env: gh.Env}).Standing(context.Background(), 7)
			if got := s.Checks + " " + s.Review + " " + strings.Join(s.Failing, ","); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}
