package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/status"
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
		for _, name := range []string{path, filepath.Join(dir, "prd.md"), filepath.Join(dir, "implement.jsonl"), filepath.Join(dir, "check.jsonl")} {
			if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(path, noon, noon); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// Edge C9: scripts rely on these keys, their order, and on a value of the right type even if there is nothing to report.
func TestTaskJSON(t *testing.T) {
	r := reader(t, map[string]string{"02-01-auth": `{"id": "login", "title": "Log in", "status": "failed", "scope": ["api", "web"], "package": "cli", "creator": "ada", "assignee": "bob", "parent": "02-00-all", "children": ["02-02-x"], "priority": "P1", "pr_url": "https://example.org/1", "commit": "abc", "worktree_path": "/w",
		"base_branch": "main", "pipeline": {"phase": "check", "round": 2, "attempt": 1, "outcome": "failed", "depends_on": ["02-00-first"],
		"failure": {"code": "verify_failed", "detail": "go test", "retryable": false, "at": ""},
		"usage": {"input_tokens": 10, "output_tokens": 2, "cached_tokens": 3, "cost_usd": 0.5, "seconds": 4}}}`})
	tasks, err := r.Tasks(status.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(tasks, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := `[
  {
    "dir": ".trellis/tasks/02-01-auth",
    "id": "02-01-auth",
    "task_id": "login",
    "name": "auth",
    "title": "Log in",
    "status": "failed",
    "dev_type": "",
    "priority": "P1",
    "branch": "feature/auth",
    "base_branch": "main",
    "commit": "abc",
    "worktree": "/w",
    "phase": "check",
    "round": 2,
    "attempt": 1,
    "outcome": "failed",
    "failure": {
      "code": "verify_failed",
      "detail": "go test"
    },
    "waiting_for": "",
    "since": "2026-02-03T12:00:00Z",
    "held_by": null,
    "watcher": "none",
    "steps": {
      "at": "",
      "waits": false,
      "done": 0,
      "of": 0
    },
    "scope": "api,web",
    "package": "cli",
    "creator": "ada",
    "assignee": "bob",
    "parent": "02-00-all",
    "children": [
      "02-02-x"
    ],
    "depends_on": [
      "02-00-first"
    ],
    "subtasks": {
      "done": 0,
      "of": 1
    },
    "usage": {
      "input_tokens": 10,
      "output_tokens": 2,
      "cached_tokens": 3,
      "cost_usd": 0.5,
      "seconds": 4
    },
    "pr_url": "https://example.org/1",
    "pr": null,
    "submodule_prs": {},
    "updated_at": "2026-02-03T12:00:00Z",
    "problems": []
  }
]`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	alone, err := r.Task(filepath.Join(r.Store.Tasks(), "02-01-auth")) // has two more lists, which are empty
	if err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(alone); err != nil || !strings.HasSuffix(string(got), `"problems":[],"criteria":[],"changed_checks":[]}`) {
		t.Errorf("alone: got %s, %v", got, err)
	}
}

func TestBrokenTaskIsListed(t *testing.T) {
	r := reader(t, map[string]string{"02-01-auth": `{"title": "x"}`, "02-02-bad": "{\n  \"title\": \"x\"\n  \"status\": \"ready\"\n}\n"})
	tasks, err := r.Tasks(status.Filter{})
	if err != nil || len(tasks) != 2 {
		t.Fatalf("got %d tasks, %v, want 2", len(tasks), err)
	}
	bad := tasks[1]
	if bad.ID != "02-02-bad" || bad.Status != "" || len(bad.Problems) != 1 || bad.Problems[0].Line != 3 || bad.Problems[0].File != ".trellis/tasks/02-02-bad/task.json" {
		raw, _ := json.Marshal(bad)
		t.Errorf("got %s, want one problem in line 3 of its task.json", raw)
	}
	if one, err := r.Task(filepath.Join(r.Store.Tasks(), "02-02-bad")); err != nil || len(one.Problems) != 1 {
		t.Errorf("alone: got %+v, %v, want one problem", one.Problems, err)
	}
}

func TestWaitingFor(t *testing.T) {
	r := reader(t, map[string]string{
		"02-01-base":                     `{"status": "in_progress"}`,
		"02-02-depends":                  `{"status": "waiting", "pipeline": {"depends_on": ["02-01-base"]}}`,
		"02-03-approval":                 `{"status": "waiting", "pipeline": {"approval": {"required": true, "approvers": 1}}}`,
		"02-19-met":                      `{"status": "waiting", "pipeline": {"depends_on": ["02-10-review"]}}`,
		"02-20-met":                      `{"status": "waiting", "pipeline": {"depends_on": ["02-10-review"], "approval": {"required": true}}}`,
		"02-04-judge":                    `{"status": "waiting", "pipeline": {"judge": {"pass": false, "feedback": "no"}}}`,
		"02-05-limit":                    `{"status": "paused", "pipeline": {"resume_at": "2026-02-03T13:00:00Z"}}`,
		"02-06-stopped":                  `{"status": "paused"}`,
		"02-07-later":                    `{"status": "ready", "pipeline": {"not_before": "2026-02-04T00:00:00Z"}}`,
		"02-08-ready":                    `{"status": "ready"}`,
		"02-09-over":                     `{"status": "ready", "pipeline": {"depends_on": ["02-10-review"]}}`,
		"02-10-review":                   `{"status": "review"}`,
		"02-13-review":                   `{"status": "review"}`,
		"02-14-both":                     `{"status": "waiting", "pipeline": {"depends_on": ["02-10-review", "02-13-review"]}}`,
		"02-11-budget":                   `{"status": "paused", "pipeline": {"failure": {"code": "budget_cost"}}}`,
		"02-12-busy":                     `{"status": "paused", "pipeline": {"resume_at": "2026-02-03T13:00:00Z", "failure": {"code": "rate_limited"}}}`,
		"02-15-person":                   `{"status": "paused", "pipeline": {"failure": {"code": "interrupted", "detail": "stopped by a person"}}}`,
		"02-16-unknown":                  `{"status": "ready", "pipeline": {"depends_on": ["02-99-none", "02-98-archived", "02-17-broken", "02-97-archived"]}}`,
		"02-17-broken":                   `{`,
		"02-18-agent":                    `{"status": "ready", "pipeline": {"failure": {"code": "agent_missing", "detail": "codex: not found"}}}`,
		"02-21-edited":                   `{"status": "ready", "pipeline": {"approval": {"required": true}}}`,
		"archive/2026-01/02-98-archived": `{"status": "completed"}`,
		"archive/2026-01/02-97-archived": `{"status": "failed"}`,
	})
	want := map[string]string{
		"02-02-depends":  "dependency 02-01-base (in_progress)",
		"02-03-approval": "approval",
		"02-19-met":      "watcher: none is running", // the dependency is met, and no approval is needed
		"02-20-met":      "approval",
		"02-21-edited":   "watcher: none is running",
		"02-04-judge":    "decision: the judge was not satisfied",
		"02-05-limit":    "time 2026-02-03T13:00:00Z, and no watcher is running",
		"02-06-stopped":  "start",
		"02-07-later":    "time 2026-02-04T00:00:00Z, and no watcher is running",
		"02-08-ready":    "watcher: none is running",
		"02-09-over":     "watcher: none is running",
		"02-14-both":     "merge of all but one of 02-10-review, 02-13-review",
		"02-11-budget":   "start (budget_cost)",
		"02-12-busy":     "time 2026-02-03T13:00:00Z (rate_limited), and no watcher is running",
		"02-15-person":   "start (stopped by a person)",
		"02-16-unknown":  "dependency 02-99-none (there is no such task), 02-17-broken (can't be read), 02-97-archived (failed, in the archive)",
		"02-18-agent":    "agent (agent_missing), and no watcher is running",
	}
	tasks, err := r.Tasks(status.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if task.WaitingFor != want[task.ID] {
			t.Errorf("%s: got %q, want %q", task.ID, task.WaitingFor, want[task.ID])
		}
	}
	r.Given = func(dir string) bool { return true } // other machines may run it, so that it needs no watcher here
	for _, id := range []string{"02-08-ready", "02-12-busy"} {
		one, err := r.Task(filepath.Join(r.Store.Tasks(), id))
		if want := map[string]string{"02-08-ready": "machine: none has taken it yet", "02-12-busy": "time 2026-02-03T13:00:00Z (rate_limited)"}[id]; err != nil || one.WaitingFor != want {
			t.Errorf("%s, shared: got %q, %v, want %q", id, one.WaitingFor, err, want)
		}
	}
	r.Given = nil
	if err := os.Remove(filepath.Join(r.Store.Tasks(), "02-08-ready", "prd.md")); err != nil {
		t.Fatal(err)
	}
	if one, err := r.Task(filepath.Join(r.Store.Tasks(), "02-08-ready")); err != nil || one.WaitingFor != "somebody" || !one.NeedsPerson() {
		t.Errorf("without prd.md: got %q, %v", one.WaitingFor, err)
	}
	for yes, want := range map[bool]string{false: "approval", true: "watcher: none is running"} {
		r.Agreement = func(string) (g pipeline.Agreement) {
			if g.State = proof.Pending; yes {
				g.State = proof.Approved
			}
			return g
		}
		for _, id := range []string{"02-20-met", "02-21-edited"} {
			if one, err := r.Task(filepath.Join(r.Store.Tasks(), id)); err != nil || one.WaitingFor != want {
				t.Errorf("%s, agreed to %v: got %q, %v, want %q", id, yes, one.WaitingFor, err, want)
			}
		}
	}
	r.Merged = true
	one, err := r.Task(filepath.Join(r.Store.Tasks(), "02-09-over"))
	if want := "dependency 02-10-review (review)"; err != nil || one.WaitingFor != want {
		t.Errorf("when only merged counts: got %q, %v, want %q", one.WaitingFor, err, want)
	}
}

func TestFilterAndOrder(t *testing.T) {
	r := reader(t, map[string]string{
		"02-01-a": `{"status": "ready", "assignee": "ada"}`,
		"02-02-b": `{"status": "ready", "priority": "P0"}`,
		"02-03-c": `{"status": "failed", "assignee": "bob", "creator": "ada"}`,
		"02-04-d": `{`,
		".new-e":  `{"status": "planning"}`,
	})
	for _, test := range []struct {
		filter status.Filter
		want   string
	}{
		{status.Filter{}, "02-02-b .new-e 02-01-a 02-03-c 02-04-d"},
		{status.Filter{Statuses: []trellis.Status{trellis.Ready, trellis.Planning}}, "02-02-b .new-e 02-01-a"},
		{status.Filter{Whose: "ada"}, "02-01-a 02-03-c"},
		{status.Filter{Archived: true}, ""},
	} {
		tasks, err := r.Tasks(test.filter)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, task := range tasks {
			ids = append(ids, task.ID)
		}
		if got := strings.Join(ids, " "); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.filter, got, test.want)
		}
	}
}

// What the watcher's heartbeat says of running and waiting tasks is shown, unless the watcher hangs.
func TestWatcherSays(t *testing.T) {
	r := reader(t, map[string]string{
		"02-01-runs":    `{"status": "in_progress", "pipeline": {"phase": "check"}}`,
		"02-02-ready":   `{"status": "ready"}`,
		"02-03-depends": `{"status": "waiting", "pipeline": {"depends_on": ["02-04-review"]}}`,
		"02-04-review":  `{"status": "review"}`,
		"02-05-cut-off": `{"status": "in_progress"}`,
	})
	for _, id := range []string{"02-01-runs", "02-05-cut-off"} {
		run := filepath.Join(r.Store.Tasks(), id, "run")
		if err := os.MkdirAll(run, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(run, "journal.jsonl"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := durable.TryLock(filepath.Join(r.Store.Tasks(), "02-01-runs", "run", "lock"), durable.Holder{PID: 7, Host: "here", Since: noon})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	until := noon.Add(time.Hour)
	r.Watcher = pulse.State{Alive: true, Beat: pulse.Beat{Running: []pulse.Work{{Task: "02-01-runs", Since: noon.Add(time.Minute)}},
		Waiting: []pulse.Wait{{Task: "02-02-ready", For: "room"}, {Task: "02-03-depends", For: "02-04-review to be merged (it is in review)"}, {Task: "02-05-cut-off", For: "another try: full", Until: &until}}}}
	for name, test := range map[string]struct {
		hangs bool
		want  string
	}{
		"it lives": {false, "02-01-runs alive 2026-02-03T12:01:00Z 7, 02-02-ready alive room, 02-03-depends alive dependency 02-04-review to be merged (it is in review), 02-04-review alive, 02-05-cut-off alive another try: full: 2026-02-03T13:00:00Z"},
		"it hangs": {true, "02-01-runs hangs 2026-02-03T12:01:00Z 7, 02-02-ready hangs watcher: it hangs, 02-03-depends hangs dependency 02-04-review to be merged (it is in review), 02-04-review hangs, 02-05-cut-off hangs watcher: it hangs"},
	} {
		r.Watcher.Hangs = test.hangs
		tasks, err := r.Tasks(status.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, task := range tasks {
			words := []string{task.ID, task.Watcher, task.WaitingFor}
			if task.HeldBy != nil {
				words = []string{task.ID, task.Watcher, task.Since, fmt.Sprint(task.HeldBy.PID)}
			}
			got = append(got, strings.TrimSpace(strings.Join(words, " ")))
		}
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, text, test.want)
		}
	}
}

// A ready task whose lock is held does not wait for a watcher: it is about to begin.
func TestHeldBeforeItBegins(t *testing.T) {
	r := reader(t, map[string]string{"02-01-ready": `{"status": "ready"}`})
	dir := filepath.Join(r.Store.Tasks(), "02-01-ready")
	if err := os.MkdirAll(filepath.Join(dir, "run"), 0o777); err != nil {
		t.Fatal(err)
	}
	lock, err := durable.TryLock(filepath.Join(dir, "run", "lock"), durable.Holder{PID: 7, Host: "here", Since: noon})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"", status.ForWatcher} {
		if got, err := r.Task(dir); err != nil || got.WaitingFor != want || (got.HeldBy == nil) != (want != "") {
			t.Errorf("got %q, held by %v, %v; want %q", got.WaitingFor, got.HeldBy, err, want)
		}
		if all, err := r.Tasks(status.Filter{}); err != nil || len(all) != 1 || all[0].WaitingFor != want {
			t.Errorf("among all: got %+v, %v; want %q", all, err, want)
		}
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
}

// A task whose lock is held does not need a person, even if its files have mistakes. Once the lock is free, it does.
func TestHeldNeedsNobody(t *testing.T) {
	r := reader(t, map[string]string{"02-01-slip": `{"status": "ready", "pipeline": {"dependsOn": ["02-01-auth"]}}`})
	dir := filepath.Join(r.Store.Tasks(), "02-01-slip")
	if err := os.MkdirAll(filepath.Join(dir, "run"), 0o777); err != nil {
		t.Fatal(err)
	}
	lock, err := durable.TryLock(filepath.Join(dir, "run", "lock"), durable.Holder{PID: 7, Host: "here", Since: noon})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{false, true} {
		if got, err := r.Task(dir); err != nil || len(got.Problems) == 0 || got.NeedsPerson() != want {
			t.Errorf("got %v, held by %v, with %v, %v; want %v", got.NeedsPerson(), got.HeldBy, got.Problems, err, want)
		}
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
}

// TasksIn and Task report the same wait as Tasks, although they read what the task depends on separately.
func TestSome(t *testing.T) {
	r := reader(t, map[string]string{
		"02-01-first": `{"status": "in_progress"}`, "02-02-broken": `{`, "02-03-done": `{"status": "completed"}`,
		"02-04-next": `{"status": "ready", "pipeline": {"depends_on": ["02-01-first", "02-02-broken", "02-03-done", "02-09-none", "../02-01-first"]}}`,
	})
	dirs, err := r.Store.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.Tasks(status.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	some := r.TasksIn(dirs[3:])
	if len(some) != 1 || some[0].ID != "02-04-next" {
		t.Fatalf("got %v, want 02-04-next", some)
	}
	alone, err := r.Task(dirs[3])
	if err != nil {
		t.Fatal(err)
	}
	want := "dependency 02-01-first (in_progress), 02-02-broken (can't be read), 02-09-none (there is no such task), ../02-01-first (there is no such task)"
	for _, got := range []status.Task{some[0], alone, all[slices.IndexFunc(all, func(t status.Task) bool { return t.ID == "02-04-next" })]} {
		if got.WaitingFor != want {
			t.Errorf("it waits for %q, want %q", got.WaitingFor, want)
		}
	}
}

// An activity of a step is shown with the step's path, also in a run that computes its baseline in parallel with the work.
func TestStepOf(t *testing.T) {
	for id, want := range map[string][2]string{
		"implement#1":                          {"", "implement#1"},
		"steps/step-a/implement#1":             {"a", "implement#1"},
		"steps/step-a/item-2/step-b/begin#1":   {"a.2.b", "begin#1"},
		"work/steps/step-a/implement#1":        {"a", "implement#1"},
		"work/observe#1":                       {"", "observe#1"},
		"work/steps/step-a/item-2/implement#1": {"a.2", "implement#1"},
		"round-1/verify#1":                     {"", "round-1/verify#1"},
	} {
		if path, rest := status.StepOf(id); path != want[0] || rest != want[1] {
			t.Errorf("%s is of %q, %q", id, path, rest)
		}
	}
}

// A run that ends after task.json was read, and before its holder is looked up, is not taken for cut off.
func TestRunEndsMeanwhile(t *testing.T) {
	r := reader(t, map[string]string{"02-01-auth": `{"status": "in_progress", "pipeline": {"phase": "commit"}}`})
	path := filepath.Join(r.Store.Tasks(), "02-01-auth", "task.json")
	r.Elsewhere = func(string) *status.Holder {
		if err := os.WriteFile(path, []byte(`{"status": "review"}`), 0o666); err != nil {
			t.Error(err)
		}
		return nil
	}
	tasks, err := r.Tasks(status.Filter{})
	if err != nil || len(tasks) != 1 || tasks[0].Status != trellis.Review || tasks[0].WaitingFor != "" {
		t.Errorf("got %+v %v", tasks, err)
	}
}

// A task whose planning is published after it was listed is read at its new place.
func TestPublishedMeanwhile(t *testing.T) {
	r := reader(t, map[string]string{".new-02-01-auth": `{"status": "planning"}`})
	entries, err := r.Store.List()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(entries[0].Dir, "task.json"), []byte(`{"status": "ready"}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(entries[0].Dir, "prd.md"), []byte("# Log in\n\n## Acceptance Criteria\n\n- [ ] one can\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(entries[0].Dir, filepath.Join(r.Store.Tasks(), "02-01-auth")); err != nil {
		t.Fatal(err)
	}
	got, err := r.Task(entries[0].Dir)
	if err != nil || got.ID != "02-01-auth" || got.Status != trellis.Ready || len(got.Criteria) != 1 {
		t.Errorf("got %+v %v", got, err)
	}
	if list := r.TasksIn([]string{entries[0].Dir}); len(list) != 1 || list[0].ID != "02-01-auth" || list[0].Status != trellis.Ready {
		t.Errorf("in a list: got %+v", list)
	}
}

// Planning that has not ended and that no process works on was cut off, also in a published task. A task that a person writes was not.
func TestPlanningThatWasCutOff(t *testing.T) {
	r := reader(t, map[string]string{"02-01-again": `{"status": "planning"}`, "02-02-hand": `{"status": "planning"}`, ".new-02-03-first": `{"status": "planning"}`})
	j, err := journal.Open(journal.Options{Dir: filepath.Join(r.Store.Tasks(), "02-01-again", "run")})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Begin(journal.Spec{Run: "02-01-again/2", Flow: planner.Flow, Code: planner.Code, Input: json.RawMessage("{}")}); err != nil {
		t.Fatal(err)
	}
	j.Close()
	tasks, err := r.Tasks(status.Filter{})
	if err != nil || len(tasks) != 3 {
		t.Fatalf("got %d tasks, %v", len(tasks), err)
	}
	for _, task := range tasks {
		if want := task.ID != "02-02-hand"; task.CutOff != want {
			t.Errorf("%s: got %v, want %v", task.ID, task.CutOff, want)
		}
	}
}

// A run that was requested, but has done nothing yet, is not started. Only a run that did something can be cut off.
func TestCutOff(t *testing.T) {
	r := reader(t, map[string]string{"02-01-auth": `{"status": "in_progress", "pipeline": {"phase": "commit", "round": 2}}`})
	dir := filepath.Join(r.Store.Tasks(), "02-01-auth")
	prepare := flow.Act[int, int]("prepare")
	run := func(work func(j *journal.Run) error) {
		t.Helper()
		j, err := journal.Open(journal.Options{Dir: filepath.Join(dir, "run"), Activities: []flow.Activity{prepare.With(func(context.Context, flow.Call, int) (int, error) {
			return 0, flow.ErrSuspended
		})}})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if err := work(j); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when, phase, want string) {
		t.Helper()
		task, err := r.Task(dir)
		if err != nil || task.Phase != phase || task.NotStartedReason() != want {
			t.Errorf("%s: got phase %q, %q, %v, want %q, %q", when, task.Phase, task.NotStartedReason(), err, phase, want)
		}
	}
	run(func(j *journal.Run) error {
		return j.Begin(journal.Spec{Run: "02-01-auth/2", Flow: pipeline.Flow, Code: pipeline.Code, Input: json.RawMessage("{}")})
	})
	check("asked for", "", "not started: run `trellis watch`")
	run(func(j *journal.Run) error {
		_, err := journal.Execute(t.Context(), j, func(f flow.Flow, _ struct{}) (int, error) { return prepare.Do(f, 1) })
		if errors.Is(err, flow.ErrSuspended) {
			return nil
		}
		return fmt.Errorf("got %v, want it suspended", err)
	})
	check("begun", "commit", "cut off: run `trellis watch`")
}
