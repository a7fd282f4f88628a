package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Edge S11: no command prints characters of a repository's files that a terminal would obey, or that change the direction of text.
func TestFacesShowWhatHides(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t, realTrellis(t))
	hostile := "bye \x1b]0;owned\a\x1b[2J \u202eesrever\u2066 \u200bx\u009b31m"
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	said := string(quoted)
	for _, status := range []string{"ready", "failed", "review", "rejected", "waiting", "in_progress", "planning"} {
		w.write(".trellis/tasks/02-09-"+strings.ReplaceAll(status, "_", "-")+"/task.json", `{"title": `+said+`, "status": "`+status+`", "assignee": `+said+`, "branch": `+said+`, "base_branch": `+said+`,
			"pr_url": `+said+`, "commit": `+said+`, "parent": `+said+`, "worktree_path": `+said+`, "pipeline": {"failure": {"code": "step_failed", "detail": `+said+`}, "judge": {"pass": false, "feedback": `+said+`},
			"rejection": {"category": "unclear", "details": `+said+`}, "depends_on": [`+said+`], "touches": [`+said+`], "base_commit": `+said+`}}`)
		w.write(".trellis/tasks/02-09-"+strings.ReplaceAll(status, "_", "-")+"/prd.md", "# "+hostile+"\n\n## Acceptance Criteria\n\n- [ ] "+hostile+"\n")
		w.write(".trellis/tasks/02-09-"+strings.ReplaceAll(status, "_", "-")+"/implement.jsonl", `{"file": `+said+`, "reason": `+said+`}`+"\n")
	}
	w.write(".trellis/objectives/odd.md", "# Objective: "+hostile+"\n\n| Step | Description | Status | PR |\n| --- | --- | --- | --- |\n| 1 | "+hostile+" | | plan "+hostile+" |\n| 2 | b "+hostile+" | blocked | |\n")
	for _, command := range []string{"list", "status", "status 02-09-failed", "status 02-09-rejected", "task show 02-09-waiting", "task show 02-09-review", "validate --all", "validate 02-09-ready", "doctor", "cleanup",
		"objective list", "objective show odd", "objective next odd", "objective check odd", "deliver --dry-run 02-09-review", "diff 02-09-review", "task list-context 02-09-ready", "start 02-09-ready", "retry 02-09-failed", "approve 02-09-waiting", "logs 02-09-failed", "verify 02-09-review", "prompt implement 02-09-planning"} {
		w.said = ""
		w.trellis(strings.Fields(command)...)
		for line := range strings.Lines(w.said) {
			if shown := trellis.Visible(line); shown != line && !strings.HasPrefix(command, "prompt") { // a prompt is shown exactly as an agent gets it
				t.Errorf("trellis %s shows %q", command, line)
				break
			}
		}
	}
}
