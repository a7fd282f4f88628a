package app_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
)

// What retry says about the existing work is true, depending on where the worktree is now and whether git still knows it.
func TestRetrySaysWhatBecomesOfTheWork(t *testing.T) {
	p, _ := configured(t, "")
	run := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", p.Root, "-c", "user.name=Ann", "-c", "user.email=ann@example.org"}, args...)...)
		cmd.Env = p.Env.Vars
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("commit", "-q", "--allow-empty", "-m", "first")
	base, id := run("rev-parse", "HEAD"), "02-01-bye"
	n := git.NewWorktree{Path: filepath.Join(filepath.Dir(p.Root), "trees", "bye"), Branch: "feature/bye", Base: base, Owner: id}
	if err := p.Repo.Worktrees().Add(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(p.Root, ".trellis", "tasks", id)
	const row = `{"file": ".trellis/README.md", "reason": "what this is"}` + "\n"
	says := func() string {
		data, err := json.Marshal(map[string]any{"status": "cancelled", "branch": n.Branch, "base_branch": run("branch", "--show-current"), "worktree_path": n.Path, "pipeline": map[string]any{"base_commit": base}})
		if err == nil {
			err = os.MkdirAll(dir, 0o755)
		}
		for name, text := range map[string]string{"task.json": string(data), "../../README.md": "Bye.\n", "implement.jsonl": row, "check.jsonl": row, "debug.jsonl": row, "prd.md": "# Bye\n\n## Acceptance Criteria\n\n- [ ] A1: it says bye\n"} {
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		done, err := p.Orders().Retry(t.Context(), dir, false)
		if err != nil {
			t.Fatal(err)
		}
		return done.Says
	}
	if got := says(); !strings.Contains(got, "resume in ../trees/bye, keeping") && !strings.Contains(got, "resume in "+n.Path) {
		t.Errorf("as it was made: %s", got)
	}
	run("worktree", "move", n.Path, n.Path+"-moved")
	if got := says(); !strings.Contains(got, "trees/bye-moved, keeping") {
		t.Errorf("moved: %s", got)
	}
	run("worktree", "move", n.Path+"-moved", n.Path)
	run("update-ref", "-d", "refs/heads/feature/bye")
	if got := says(); strings.Contains(got, "keeping the work") || !strings.Contains(got, "`git update-ref refs/heads/feature/bye "+base+"`") {
		t.Errorf("without its branch: %s", got)
	}
	run("update-ref", "refs/heads/feature/bye", base)
	if err := os.Remove(filepath.Join(n.Path, ".git")); err != nil {
		t.Fatal(err)
	}
	if got := says(); !strings.Contains(got, "bye, keeping") {
		t.Errorf("without its .git file, which a run makes again: %s", got)
	}
	var diff strings.Builder
	if _, err := p.Diff(t.Context(), dir, false, &diff); err == nil || !strings.HasSuffix(err.Error(), "`git worktree repair` makes that again") {
		t.Errorf("what git can't read has no changes: %q, %v", diff.String(), err)
	}
	run("worktree", "repair")
	if _, err := p.Diff(t.Context(), dir, false, &diff); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(filepath.Join(p.Repo.Common, "worktrees")); err != nil {
		t.Fatal(err)
	}
	if got := says(); strings.Contains(got, "keeping the work") || !strings.Contains(got, "once this is fixed") || !strings.Contains(got, "`mv "+n.Path) {
		t.Errorf("lost by git: %s", got)
	}
}
