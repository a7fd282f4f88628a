package runner_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// The commands that decide are from the first source that has any, and the report names the source.
func TestSourcesOfCommands(t *testing.T) {
	t.Parallel()
	const research = "# Research\n\n## Verification Plan\n\n- `sh test.sh`\n- `no-such-program-here --check`\n"
	for _, c := range []struct {
		source   string
		commands []string
		task     string
		config   []string
		plan     bool
	}{
		{"task.json", []string{"true && sh test.sh"}, `{"status": "ready", "pipeline": {"verify": ["true && sh test.sh"]}}`, []string{"echo config"}, true},
		{"config.yaml", []string{"echo config"}, `{"status": "ready"}`, []string{"echo config"}, true},
		{"plan.json", []string{"sh greet.sh"}, `{"status": "ready"}`, nil, true},
		{"research.md", []string{"sh test.sh"}, `{"status": "ready"}`, nil, false},
	} {
		t.Run(c.source, func(t *testing.T) {
			t.Parallel()
			w := cheat(t, "echo x > notes.txt")
			w.Site.Config.Verify = c.config
			prd := provenBy("test -f notes.txt")
			dir := w.Hand("02-01-bye", prd)
			if c.plan {
				dir = w.handPlan(prd, strings.NewReplacer("sh test.sh", "sh greet.sh", "grep -q Bye", "grep -q Hello").Replace(planJSON("")))
			}
			w.Write(".trellis/tasks/02-01-bye/task.json", c.task)
			w.Write(".trellis/tasks/02-01-bye/research.md", research)
			res := w.Start(dir)
			if res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			var got []string
			for _, r := range res.Report.Baseline.Results {
				got = append(got, r.Command)
			}
			if !slices.Equal(got, c.commands) {
				t.Errorf("ran %q, want %q", got, c.commands)
			}
			w.holds("report.md", w.File(dir, "report.md"), "Commands from "+c.source)
			w.holds("the journal", w.File(dir, "run/journal.jsonl"), `"verify_source":"`+c.source+`"`)
		})
	}
}

// A command that failed at the base is forgiven, unless the task names the command or there was no check at the base.
func TestWhatFailedAtTheBase(t *testing.T) {
	t.Parallel()
	const broken = "test -f never.txt"
	for name, c := range map[string]struct {
		prd, task string
		baseline  bool
		status    trellis.Status
		says      string
	}{
		"it is forgiven":        {"", `{"status": "ready"}`, true, trellis.Review, "| `test -f never.txt` | 1 |"},
		"prd.md names it":       {"Make `test -f never.txt` pass.\n", `{"status": "ready"}`, true, trellis.Failed, "`test -f never.txt` exited with 1"},
		"task.json names it":    {"", `{"status": "ready", "pipeline": {"verify": ["sh test.sh", "test -f never.txt"]}}`, true, trellis.Failed, "`test -f never.txt` exited with 1"},
		"nobody looked at base": {"", `{"status": "ready"}`, false, trellis.Failed, "`test -f never.txt` exited with 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := cheat(t, "echo x > notes.txt")
			w.Site.Config.Verify, w.Site.Config.Baseline = []string{"sh test.sh", broken}, strconv.FormatBool(c.baseline)
			dir := w.Hand("02-01-bye", c.prd+provenBy("test -f notes.txt"))
			w.Write(".trellis/tasks/02-01-bye/task.json", c.task)
			res := w.Start(dir)
			if res.Status != c.status {
				t.Errorf("got %s, %v", res.Status, res.Failure)
			}
			w.holds("report.md", w.File(dir, "report.md"), c.says)
			if forgiven := strings.Contains(w.File(dir, "report.md"), "(forgiven)"); forgiven != (c.status == trellis.Review) {
				t.Errorf("forgiven is %v", forgiven)
			}
		})
	}
}
