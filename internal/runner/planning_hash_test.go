package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// An approval ends with an edit of any file or field that decides what is done, and nothing runs until the next approval. Files that only
// describe the planning may change.
func TestApprovalIsOfThePlanAsItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Git("branch", "other")
	dir := w.handPlan(runnertest.ProvenPRD, planJSON(""))
	w.Write(".trellis/tasks/02-01-bye/task.json", `{"status": "waiting", "branch": "feature/bye", "base_branch": "main", "pipeline": {"approval": {"required": true, "approvers": 1}, "verify": ["sh test.sh"]}}`)
	files := map[string]string{"requirement.md": "say bye\n", "research.md": "# Found\n", "debug.jsonl": `{"file": "greet.sh", "reason": "the program"}` + "\n"}
	for name, text := range files {
		w.Write(".trellis/tasks/02-01-bye/"+name, text)
	}
	more := func(name, text string) func() {
		return func() {
			path := filepath.Join(dir, name)
			data, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, append(data, text...), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	row := `{"file": "README.md", "reason": "what it is"}` + "\n"
	for _, c := range []struct {
		what string
		edit func()
	}{
		{"plan.json", func() { w.replan(dir, "It waves.", "It waves twice.") }},
		{"plan.json, its spaces", more("plan.json", "\n")},
		{"research.md", more("research.md", "More.\n")},
		{"research.md taken away", func() { os.Remove(filepath.Join(dir, "research.md")) }},
		{"requirement.md", more("requirement.md", "twice\n")},
		{"prd.md", more("prd.md", "\n## Notes\n\nMore.\n")},
		{"info.md", more("info.md", "More.\n")},
		{"design.md", more("design.md", "More.\n")},
		{"implement.jsonl", more("implement.jsonl", row)},
		{"check.jsonl", more("check.jsonl", row)},
		{"debug.jsonl", more("debug.jsonl", row)},
		{"the base", func() { w.Edit(dir, `"main"`, `"other"`) }},
		{"the branch", func() { w.Edit(dir, `"feature/bye"`, `"feature/ciao"`) }},
		{"the commands that decide", func() { w.Edit(dir, "sh test.sh", "sh test.sh Ada") }},
	} {
		w.Approve(dir, "ann")
		if got := w.Task(dir).Status; got != trellis.Ready {
			t.Fatalf("before the edit of %s it is %s", c.what, got)
		}
		c.edit()
		if res := w.Start(dir); res.Status != trellis.Waiting || len(res.Waits) != 1 {
			t.Fatalf("after an edit of %s: %s, %v, %q", c.what, res.Status, res.Failure, res.Waits)
		}
		none(w, dir, "run/journal.jsonl")
	}
	w.Approve(dir, "ann")
	more("taskspec.json", specJSON)()
	more(".plan-log", "x\n")()
	more("REJECTED-1.md", "x\n")()
	w.Write(".trellis/rehearsal.yaml", runnertest.ByPlan("true"))
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("agreed to: %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
}

// A rejection that a person wrote by hand counts: the task waits for another plan.
func TestRejectedByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	dir := w.handPlan(runnertest.ProvenPRD, planJSON(""))
	w.Write(".trellis/tasks/02-01-bye/task.json", `{"status": "ready", "base_branch": "main", "pipeline": {"approval": {"required": true}}}`)
	said := ".trellis/tasks/02-01-bye/approvals.jsonl"
	w.Write(said, `{"step": "", "decision": "reject", "by": "Ada", "reason": "too risky"}`+"\n")
	const next = "trellis edit 02-01-bye prd"
	if res := w.Start(dir); res.Status != trellis.Waiting || res.Waits.String() != "another plan: this one was rejected by Ada: too risky; next: "+next {
		t.Errorf("got %s, %q", res.Status, res.Waits)
	}
	if got, err := w.Site.Assessor().Next(t.Context(), dir); err != nil || got != next {
		t.Errorf("next is %q, %v", got, err)
	}
	w.Write(".trellis/tasks/02-01-bye/requirement.md", "say bye\n")
	w.Write(said, `{"step": "", "decision": "reject", "by": "Ada", "reason": "too risky"}`+"\n")
	if got, err := w.Site.Assessor().Next(t.Context(), dir); err != nil || got != "trellis plan --retry 02-01-bye --feedback 'what should be different'" {
		t.Errorf("with a requirement next is %q, %v", got, err)
	}
	w.Write(said, `{"decision": "rejected", "by": "Ada"}`)
	_, err := w.Site.Approvals().Approve(dir, "Bob", "")
	if p := (*trellis.Problem)(nil); !errors.As(err, &p) || p.Line != 1 || w.Read(said) != `{"decision": "rejected", "by": "Ada"}` {
		t.Errorf("behind a line that nobody can read: %v", err)
	}
}
