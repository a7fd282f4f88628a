package terminal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

var noon = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)

// reader returns a Reader of a repository with these task.json files, by directory name.
func reader(t *testing.T, tasks map[string]string) status.Reader {
	t.Helper()
	r := status.Reader{Store: taskdir.Store{Root: t.TempDir()}, Now: noon}
	for id, text := range tasks {
		dir := filepath.Join(r.Store.Tasks(), id)
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "task.json")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, noon, noon); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestShowsWhatItIsStackedOn(t *testing.T) {
	r := reader(t, map[string]string{"02-02-b": `{"status": "review", "base_branch": "main", "pipeline": {"stacked_on": "02-01-a"}}`})
	task, err := r.Task(filepath.Join(r.Store.Tasks(), "02-02-b"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := terminal.Show(&b, task, terminal.Style{}); err != nil || !strings.Contains(b.String(), "feature/b (from main, stacked on 02-01-a)") {
		t.Errorf("got %v\n%s", err, b.String())
	}
}

func TestShowRun(t *testing.T) {
	for done, want := range map[int]string{0: "0 steps\n", 1: "1 step\n", 2: "2 steps\n"} {
		var b bytes.Buffer
		if err := terminal.ShowRun(&b, status.Run{ID: "260201-090503-k3fq", File: "release.yaml", Status: status.RunRunning, Done: done}); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("got %v\n%s\nwant %q", err, &b, want)
		}
	}
}

func TestShowsSubmodulesPullRequests(t *testing.T) {
	r := reader(t, map[string]string{"02-01-auth": `{"status": "review", "pr_url": "https://example.org/2"}`})
	file := delivery.RecordFile(filepath.Join(r.Store.Tasks(), "02-01-auth"))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(`{"submodule_prs": {"libs/cli": "https://example.org/1"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	task, err := r.Task(filepath.Join(r.Store.Tasks(), "02-01-auth"))
	var out strings.Builder
	if err := errors.Join(err, terminal.Show(&out, task, terminal.Style{})); err != nil {
		t.Fatal(err)
	}
	if want := "pr        https://example.org/2, after https://example.org/1 of libs/cli\n"; !strings.Contains(out.String(), want) || task.Modules["libs/cli"] == "" {
		t.Errorf("there is no %q in\n%s", want, &out)
	}
}

func TestTable(t *testing.T) {
	tasks := []status.Task{
		{ID: "02-01-auth", Status: trellis.InProgress, Priority: "P1", Phase: "check", Round: 2, Title: "Log in \x1b[31mwith\nmail"},
		{ID: "02-02-bad", Problems: []trellis.Problem{{File: "task.json", Line: 3, Message: "no comma"}}},
	}
	var got bytes.Buffer
	if err := terminal.Table(&got, tasks, terminal.Style{}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	want := "TASK        STATUS                           TITLE\n" +
		"02-01-auth  in_progress  check, round 2  P1  Log in ␛[31mwith mail\n" +
		"02-02-bad   broken                           task.json:3: no comma\n"
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	got.Reset()
	if err := terminal.Table(&got, tasks, terminal.Style{Colour: true, Width: 30}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if want := "02-01-auth  \x1b[36min_progress\x1b[0m  Log …\n"; !strings.Contains(got.String(), want) {
		t.Errorf("got %q, want a line %q", got.String(), want)
	}
}

// The table shows how long each task has had its status.
func TestTableWithAges(t *testing.T) {
	ago := func(d time.Duration) string { return noon.Add(-d).Format(time.RFC3339) }
	tasks := []status.Task{
		{ID: "a", Status: trellis.Ready, Since: ago(-time.Hour), WaitingFor: "room", Slots: "3 of 3 slots busy", Title: "A"}, // the clock was set back
		{ID: "b", Status: trellis.Review, Since: ago(59 * time.Second), Title: "B"},
		{ID: "c", Status: trellis.Review, Since: ago(59*time.Minute + 59*time.Second), Title: "C"},
		{ID: "d", Status: trellis.Review, Since: ago(47 * time.Hour), Title: "D"},
		{ID: "e", Status: trellis.Review, Since: ago(120 * 24 * time.Hour), Title: "E"},
		{ID: "f", Status: trellis.Review, Title: "F"},
	}
	var got bytes.Buffer
	if err := terminal.Table(&got, tasks, terminal.Style{}, noon); err != nil {
		t.Fatal(err)
	}
	want := "TASK  STATUS  FOR                               TITLE\n" +
		"a     ready   0s    queued (3 of 3 slots busy)  A\n" +
		"b     review  59s                               B\n" +
		"c     review  59m                               C\n" +
		"d     review  47h                               D\n" +
		"e     review  120d                              E\n" +
		"f     review                                    F\n"
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// The status of a single task shows the parts of its plan that people have to know. A plan that can't be read does not hide the rest.
func TestShowPlan(t *testing.T) {
	r := reader(t, map[string]string{"02-01-auth": `{"title": "Log in", "status": "ready"}`})
	dir := filepath.Join(r.Store.Tasks(), "02-01-auth")
	show := func(plan string) string {
		if err := os.WriteFile(filepath.Join(dir, "plan.json"), []byte(plan), 0o666); err != nil {
			t.Fatal(err)
		}
		task, err := r.Task(dir)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := terminal.Show(&b, task, terminal.Style{}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	got := show(`{"schema_version": 1, "title": "Log in", "design_decisions": ["cookies"], "assumptions": ["one domain", "HTTPS"], "uncovered": [{"item": "logout", "reason": "later"}],
		"out_of_scope": ["OAuth"], "touches": ["web/**", "db/users.sql"], "steps": [{"id": "s", "prompt": "P", "llm_as_judge": true}], "acceptance": [{"criterion": "c"}]}`)
	for _, want := range []string{"  decided   cookies\n", "  assumed   one domain; HTTPS\n", "  left out  logout (later)\n", "  out of scope: OAuth\n", "  touches   web/**, db/users.sql\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q", got, want)
		}
	}
	if got := show("{"); strings.Contains(got, "assumed") || !strings.Contains(got, "ready") {
		t.Errorf("with a broken plan: got\n%s", got)
	}
}
