package runner_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func TestByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Working)
	dir := w.Hand("02-01-bye", "# Say bye\n\n## Acceptance Criteria\n\n- [ ] it says bye\n  verify: `sh greet.sh --bye | grep -q Bye`\n")
	before := w.Git("rev-parse", "HEAD") + w.Git("status", "--porcelain", "--", ":!.trellis/tasks", ":!.trellis/.runtime")
	res := w.Start(dir)
	if res.Status != trellis.Review || res.Outcome != trellis.Delivered || res.Failure != nil {
		t.Fatalf("got %s, %s, %v", res.Status, res.Outcome, res.Failure)
	}
	if after := w.Git("rev-parse", "HEAD") + w.Git("status", "--porcelain", "--", ":!.trellis/tasks", ":!.trellis/.runtime"); after != before {
		t.Errorf("the main checkout is %q, was %q", after, before)
	}
	if got := w.Git("show", "feature/bye:greet.sh"); !strings.Contains(got, "Hello") || !strings.Contains(got, "Bye") {
		t.Errorf("got %q on the branch", got)
	}
	if got := w.Git("log", "--format=%s|%an", "main..feature/bye"); got != "feat: Say bye|Tester" {
		t.Errorf("got commits %q", got)
	}
	if got := w.Git("show", "--name-only", "--format=", "feature/bye"); got != "greet.sh" {
		t.Errorf("the commit holds %q", got)
	}
	if task := w.Task(dir); task.Commit != w.Git("rev-parse", "feature/bye") || task.Pipeline.Round != 2 || task.Branch != "feature/bye" || task.BaseBranch != "main" {
		t.Errorf("task.json says %+v", task)
	}
	if report := w.Read(".trellis/tasks/02-01-bye/report.md"); !strings.Contains(report, "sh test.sh") || !strings.Contains(report, "delivered") {
		t.Errorf("report.md is\n%s", report)
	}
}
