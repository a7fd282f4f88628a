package dispatch_test

import (
	"context"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// working is a script whose implement writes a bug that the project's own test finds, and debug mends.
const working = `
roles:
  evaluate:
    - answer: {decision: accept, category: "", details: A flag., suggestions: [], size: tiny, confidence: 0.9}
  research:
    - answer: |
        ## implement.jsonl
        - path: greet.sh, reason: the program
        ## check.jsonl
        - path: test.sh, reason: its test
        ## Suggested Scope
        greet
        ## Verification Plan
        - test: sh test.sh
  prd:
    - answer: {title: Say bye, summary: greet.sh says bye., requirements: [bye], acceptance: [{criterion: it says bye, verify: "sh greet.sh --bye | grep -q Bye", level: must}]}
  implement:
    - files: {greet.sh: "echo Bye\n"}
      answer: done
  check:
    - answer: fine
  debug:
    - files: {greet.sh: "if [ \"$1\" = --bye ]; then echo Bye; else echo \"Hello, ${1:-world}!\"; fi\n"}
      answer: mended
  accept:
    - answer: {criteria: [{id: A1, verdict: met, evidence: "greet.sh:1"}]}
`

func TestByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, working)
	dir := w.hand("02-01-bye", "# Say bye\n\n## Acceptance Criteria\n\n- [ ] it says bye\n  verify: `sh greet.sh --bye | grep -q Bye`\n")
	before := w.git("rev-parse", "HEAD") + w.git("status", "--porcelain", "--", ":!.trellis/tasks", ":!.trellis/.runtime")
	res := w.start(dir)
	if res.Status != trellis.Review || res.Outcome != trellis.Delivered || res.Failure != nil {
		t.Fatalf("got %s, %s, %v", res.Status, res.Outcome, res.Failure)
	}
	if after := w.git("rev-parse", "HEAD") + w.git("status", "--porcelain", "--", ":!.trellis/tasks", ":!.trellis/.runtime"); after != before {
		t.Errorf("the main checkout is %q, was %q", after, before)
	}
	if got := w.git("show", "feature/bye:greet.sh"); !strings.Contains(got, "Hello") || !strings.Contains(got, "Bye") {
		t.Errorf("got %q on the branch", got)
	}
	if got := w.git("log", "--format=%s|%an", "main..feature/bye"); got != "feat: Say bye|Tester" {
		t.Errorf("got commits %q", got)
	}
	if got := w.git("show", "--name-only", "--format=", "feature/bye"); got != "greet.sh" {
		t.Errorf("the commit holds %q", got)
	}
	if task := w.task(dir); task.Commit != w.git("rev-parse", "feature/bye") || task.Pipeline.Round != 2 || task.Branch != "feature/bye" || task.BaseBranch != "main" {
		t.Errorf("task.json says %+v", task)
	}
	if report := w.read(".trellis/tasks/02-01-bye/report.md"); !strings.Contains(report, "sh test.sh") || !strings.Contains(report, "delivered") {
		t.Errorf("report.md is\n%s", report)
	}
}

func TestPlanThenWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, working)
	res, err := w.Site.Plan(context.Background(), dispatch.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "greet.sh --bye says bye"})
	if err != nil || res.Status != trellis.Ready || res.Failure != nil {
		t.Fatalf("got %+v, %v", res, err)
	}
	all, err := w.Site.Watch(context.Background(), dispatch.WatchOptions{Once: true, Parallel: 2, Rescan: 1e10})
	if err != nil || len(all) != 1 || all[0].Status != trellis.Review {
		t.Fatalf("got %+v, %v, %q", all, err, w.said)
	}
	if got := w.git("log", "--format=%s", "main..feature/bye"); got != "feat(greet): Say bye" {
		t.Errorf("got commits %q", got)
	}
}
