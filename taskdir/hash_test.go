package taskdir_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/taskdir"
)

func planHash(t *testing.T, s taskdir.Store, dir string) string {
	t.Helper()
	hash, err := taskdir.PlanHash(dir, load(t, s, dir))
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// The hash can be computed with sha256sum alone.
func TestPlanHash(t *testing.T) {
	s := newStore(t)
	dir := byHand(t, s, "02-01-auth", `{"base_branch": "main", "pipeline": {"verify": ["go test ./... && true"]}}`)
	write(t, s, "02-01-auth/prd.md", "# x\n")
	write(t, s, "02-01-auth/implement.jsonl", "")
	write(t, s, "02-01-auth/check.jsonl", "{}\n")
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	want := "sha256:" + sum(sum("# x\n")+"  prd.md\n"+sum("{}\n")+"  check.jsonl\n"+sum("")+"  implement.jsonl\n"+
		"branch \"feature/auth\"\nbase_branch \"main\"\nverify [\"go test ./... && true\"]\n")
	if got := planHash(t, s, dir); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPlanHashCoversThePlan(t *testing.T) {
	s := newStore(t)
	dir := byHand(t, s, "02-01-auth", "{\n  \"status\": \"ready\"\n}\n")
	last := planHash(t, s, dir)
	step := func(changes bool, what string, do func()) {
		t.Helper()
		do()
		if got := planHash(t, s, dir); (got != last) != changes {
			t.Errorf("%s: hash changed %v, want %v", what, got != last, changes)
		}
		last = planHash(t, s, dir)
	}
	file := func(name string) func() {
		return func() { write(t, s, "02-01-auth/"+name, "x") }
	}
	field := func(name string, value any) func() {
		return func() { set(t, s, dir, map[string]any{name: value}) }
	}
	for _, name := range []string{"requirement.md", "prd.md", "plan.json", "info.md", "design.md", "research.md", "implement.jsonl", "check.jsonl", "debug.jsonl", "extra.jsonl", "\n\"\\.jsonl"} {
		step(true, name, file(name))
	}
	for _, name := range []string{"approvals.jsonl", "proofs.jsonl", "report.md", "REJECTED.md", "taskspec.json", ".plan-log", ".tmp-implement.jsonl", "run/journal.jsonl", "notes.txt"} {
		step(false, name, file(name))
	}
	step(false, "a branch as by default", field("branch", "feature/auth"))
	step(true, "branch", field("branch", "feature/other"))
	step(true, "base_branch", field("base_branch", "main"))
	step(true, "verify", field("pipeline.verify", []string{"make"}))
	step(true, "verify in two", field("pipeline.verify", []string{"make", "make"}))
	step(false, "that an approval is required", field("pipeline.approval", taskdir.Approval{Required: true, Approvers: 2}))
	step(true, "people are asked anew", field("pipeline.approval", taskdir.Approval{Required: true, Approvers: 2, Asked: 1}))
	step(false, "status, title, phase", func() {
		set(t, s, dir, map[string]any{"status": "in_progress", "title": "t", "pipeline.phase": "check", "scope": "x"})
	})
	step(true, "an empty file", func() { write(t, s, "02-01-auth/prd.md", "") })
	step(true, "a file less", func() { os.Remove(filepath.Join(dir, "prd.md")) })
}

func TestPlanHashErrors(t *testing.T) {
	s := newStore(t)
	dir := byHand(t, s, "02-01-auth", "{}")
	if err := os.Mkdir(filepath.Join(dir, "prd.md"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := taskdir.PlanHash(dir, load(t, s, dir)); err == nil || !strings.Contains(err.Error(), "prd.md: is a folder, not a file") {
		t.Errorf("got %v, want an error that names prd.md", err)
	}
	if _, err := taskdir.PlanHash(filepath.Join(dir, "gone"), &taskdir.Task{}); err == nil {
		t.Error("got no error for a directory that is gone")
	}
}
