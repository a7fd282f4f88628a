package runner_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Edge S11: a worktree that is removed or damaged at any time does not fail the run with an internal error, and a failure of git names the
// path. Soak tests try each way in each phase.
func TestWorktreeIsTakenAway(t *testing.T) {
	t.Parallel()
	ways := map[string]string{
		"removed":          "cd $TRELLIS_REPO; rm -rf $w",
		"removed by git":   "cd $TRELLIS_REPO; git worktree remove --force $w",
		"its .git":         "rm $w/.git",
		"git's folder":     "rm -rf $(git rev-parse --git-dir)",
		"its HEAD":         "rm $(git rev-parse --git-dir)/HEAD",
		"its index":        "echo x > $(git rev-parse --git-dir)/index",
		"its objects":      "rm -rf $(git rev-parse --git-path objects)/*",
		"its branch":       "git update-ref -d refs/heads/feature/bye",
		"its place a file": "cd $TRELLIS_REPO; rm -rf $w; touch $w",
	}
	for i, how := range slices.Sorted(maps.Keys(ways)) {
		for j, when := range []string{"implement", "check", "verify"} {
			if !soak.Asked() && (i+j)%3 != 0 {
				continue
			}
			t.Run(how+" by "+when, func(t *testing.T) {
				t.Parallel()
				line := "echo x > notes.txt; w=$PWD; export TRELLIS_REPO; " + ways[how]
				at := func(role, else_ string) string {
					if role != when {
						return else_
					}
					return fmt.Sprintf("run: [%q], ", line)
				}
				w := newWorld(t, roles("implement: [{"+at("implement", "run: [\"echo x > notes.txt\"], ")+"answer: done}]\ncheck: [{"+at("check", "")+"answer: fine}]\ndebug: [{answer: hm}]\n"+
					"accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"notes.txt:1\"}]}}]"))
				w.Site.Config.Limits.Rounds = 1
				if when == "verify" {
					w.Site.Config.Baseline = "false"
					w.Site.Config.Verify = []string{strings.ReplaceAll(line, "$TRELLIS_REPO", w.Dir)}
				}
				res := w.Start(w.Hand("02-01-bye", lyingPRD))
				if res.Status == trellis.Review {
					return
				}
				if res.Failure == nil || res.Failure.Code == string(trellis.Internal) {
					t.Fatalf("got %s, %v", res.Status, res.Failure)
				}
				if gits := res.Failure.Code == string(trellis.WorktreeFailed) || res.Failure.Code == string(trellis.CommitFailed); gits && !strings.Contains(res.Failure.Detail, w.Dir) && !strings.Contains(res.Failure.Detail, "repo-worktrees/feature/bye") {
					t.Errorf("no path in %v", res.Failure)
				}
				if how == "its branch" && !strings.Contains(res.Failure.Detail, "`git update-ref refs/heads/feature/bye "+w.Git("rev-parse", "main")+"` brings it back; `trellis retry 02-01-bye --fresh`") {
					t.Errorf("no way back in %v", res.Failure)
				}
			})
		}
	}
}
