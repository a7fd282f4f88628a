package roadmap_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

const steps = "# Objective: Steps\n\n| Step | Description | Status | PR |\n| --- | --- | --- | --- |\n| 1 | One | | |\n| 2 | Two | | |\n"

// desk returns a store with an objective x, and the path of its file.
func desk(t *testing.T, text string) (roadmap.Store, string) {
	t.Helper()
	d := roadmap.Store{Root: t.TempDir(), Disk: &durable.Disk{}}
	path := filepath.Join(d.Root, filepath.FromSlash(roadmap.File("x")))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, path, text)
	return d, path
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// link returns an edit that writes a plan into the PR cell of step.
func link(step string) func([]byte) ([]byte, error) {
	return func(src []byte) ([]byte, error) { return roadmap.Set(src, step, roadmap.PR, "plan "+step) }
}

// What a person saves at any moment of an edit is in the file afterwards, and so is the edit.
func TestEditMeanwhile(t *testing.T) {
	for _, at := range []string{"create", "write", "sync", "rename"} {
		d, path := desk(t, steps)
		byHand := 0
		d.Disk.Fault = func(step, _ string) error {
			if step == at && byHand < 3 {
				byHand++
				put(t, path, get(t, path)+fmt.Sprintf("\nby hand %d\n", byHand))
			}
			return nil
		}
		if err := d.Edit(context.Background(), "x", link("1")); err != nil {
			t.Fatal(err)
		}
		got := get(t, path)
		if byHand == 0 || !strings.Contains(got, "| 1 | One | | plan 1 |") || !strings.HasSuffix(got, fmt.Sprintf("\nby hand %d\n", byHand)) {
			t.Errorf("at %s:\n%s", at, got)
		}
	}
}

// Edit gives up if somebody else never stops writing the file.
func TestEditGivesUp(t *testing.T) {
	d, path := desk(t, steps)
	n := 0
	d.Disk.Fault = func(step, _ string) error {
		if n++; step == "rename" {
			put(t, path, steps+fmt.Sprintln(n))
		}
		return nil
	}
	if err := d.Edit(context.Background(), "x", link("1")); !errors.Is(err, durable.ErrChanged) {
		t.Errorf("got %v", err)
	}
	if got := get(t, path); strings.Contains(got, "plan") {
		t.Errorf("got\n%s", got)
	}
}

// Concurrent edits of one file lose nothing; a link is followed; an edit that changes nothing writes nothing.
func TestEditByMany(t *testing.T) {
	d, path := desk(t, "")
	text := steps
	for n := 3; n <= 12; n++ {
		text += fmt.Sprintf("| %d | More | | |\n", n)
	}
	home := filepath.Join(filepath.Dir(path), "home.txt")
	if err := errors.Join(os.Remove(path), os.Symlink("home.txt", path)); err != nil {
		t.Fatal(err)
	}
	put(t, home, text)
	var group sync.WaitGroup
	for n := 1; n <= 12; n++ {
		group.Go(func() {
			if err := d.Edit(context.Background(), "x", link(fmt.Sprint(n))); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	got := get(t, home)
	for n := 1; n <= 12; n++ {
		if !strings.Contains(got, fmt.Sprintf("plan %d |", n)) {
			t.Errorf("step %d is lost:\n%s", n, got)
		}
	}
	if st, err := os.Lstat(path); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", st, err)
	}
	before, _ := os.Stat(home)
	if err := d.Edit(context.Background(), "x", link("1")); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Stat(home); !os.SameFile(before, after) {
		t.Error("it was written again")
	}
	for _, name := range []string{"gone", "../x", ""} {
		if err := d.Edit(context.Background(), name, link("1")); !errors.Is(err, roadmap.ErrNotFound) {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := d.Claim(name, "1"); name != "gone" && !errors.Is(err, roadmap.ErrNotFound) {
			t.Errorf("claiming of %q: %v", name, err)
		}
	}
}

func TestClaim(t *testing.T) {
	d, _ := desk(t, steps)
	one, err := d.Claim("x", "1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Claim("x", "1"); !errors.Is(err, durable.ErrHeld) {
		t.Errorf("twice: %v", err)
	}
	two, err := d.Claim("x", "../2")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(one.Unlock(), two.Unlock()); err != nil {
		t.Error(err)
	}
	if one, err = d.Claim("x", "1"); err != nil {
		t.Error(err)
	}
	_ = one.Unlock()
}

// WriteDue writes the state of a step's task into a YAML block as well, where the pull request in pr may still be open.
func TestSettleYAML(t *testing.T) {
	const block = "# Objective: Y\n\n```yaml\nschema_version: \"4\"\nnodes:\n  - id: \"1\"\n    description: One\n    status: pending # soon\n    pr: null\n```\n"
	d, path := desk(t, block)
	store := taskdir.Store{Root: d.Root}
	task, err := store.Create(taskdir.New{Name: "one", Status: trellis.Ready, Objective: taskdir.Objective{Name: "x", Step: "1"}, Created: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status trellis.Status
		url    string
		want   string
	}{
		{trellis.Ready, "", "status: pending # soon\n    pr: plan " + task.ID},
		{trellis.Review, "https://github.example/a/b/pull/9", "status: pending # soon\n    pr: plan " + task.ID},
		{trellis.Failed, "", "status: blocked # soon\n    pr: plan " + task.ID},
		{trellis.Ready, "", "status: pending # soon\n    pr: plan " + task.ID},
		{trellis.Completed, "https://github.example/a/b/pull/9", "status: done # soon\n    pr: #9"},
	} {
		put(t, filepath.Join(task.Dir, taskdir.TaskJSON), fmt.Sprintf(`{"status": %q, "pr_url": %q, "pipeline": {"objective": {"name": "x", "step": "1"}}}`, c.status, c.url))
		for range 2 {
			works, err := roadmap.ReadStepTasks(store, false)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.WriteDue(context.Background(), store, "x", works); err != nil {
				t.Fatal(err)
			}
			if got := strings.NewReplacer(`'`, "", `"`, "").Replace(get(t, path)); !strings.Contains(got, c.want) {
				t.Errorf("%s: got\n%s\nwant %s", c.status, got, c.want)
			}
		}
	}
}

// If a table has a column for the plan and one for the pull request, each is written to its own column.
func TestPlanColumn(t *testing.T) {
	const rows = "| Step | Status | Plan | PR |\n| --- | --- | --- | --- |\n"
	d, path := desk(t, rows+"| 1 |  |  | - |\n")
	root, store := d.Root, taskdir.Store{Root: d.Root}
	task, err := store.Create(taskdir.New{Name: "one", Status: trellis.Ready, Objective: taskdir.Objective{Name: "x", Step: "1"}, Created: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	settle := func(status trellis.Status, url, want string) {
		t.Helper()
		put(t, filepath.Join(task.Dir, taskdir.TaskJSON), fmt.Sprintf(`{"status": %q, "pr_url": %q, "pipeline": {"objective": {"name": "x", "step": "1"}}}`, status, url))
		for range 2 {
			works, err := roadmap.ReadStepTasks(store, false)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.WriteDue(context.Background(), store, "x", works); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(strings.Fields(strings.TrimPrefix(get(t, path), rows)), ""); got != strings.ReplaceAll(want, " ", "") {
				t.Errorf("%s: got %s, want %s", status, got, want)
			}
		}
	}
	settle(trellis.Ready, "", "| 1 || "+task.ID+" | - |")
	settle(trellis.Failed, "", "| 1 | blocked | "+task.ID+" | - |")
	r, err := roadmap.Load(root, "x")
	if err != nil || r.Step("1").Link() != "plan "+task.ID || r.Step("1").Linked() != roadmap.Plan {
		t.Errorf("it says %q, %v", r.Step("1").Link(), err)
	}
	works, err := roadmap.ReadStepTasks(store, false)
	if err != nil || r.Free(works, *r.Step("1")) {
		t.Errorf("what the Plan cell names is free to be planned, %v", err)
	}
	settle(trellis.Review, "https://h/a/b/pull/9", "| 1 || "+task.ID+" | #9 |")
	settle(trellis.Completed, "https://h/a/b/pull/9", "| 1 | done | "+task.ID+" | #9 |")
	put(t, path, rows+"| 1 |  |  | #3 |\n") // written by a person
	settle(trellis.Review, "https://h/a/b/pull/9", "| 1 ||| #3 |")
	put(t, path, rows+"| 1 |  | plan "+task.ID+" |  |\n")
	settle(trellis.Ready, "", "| 1 || plan"+task.ID+" ||")
	if err := d.NoteIssue(context.Background(), store, "x", task.Dir, 101); err != nil {
		t.Fatal(err)
	}
	put(t, path, rows+"| 1 |  | "+task.ID+" | #9 |\n")
	settle(trellis.Review, "https://h/a/b/pull/9", "| 1 || #101 | #9 |")
}

// A rejected or cancelled task is the work of a step only as long as the step has no other task.
func TestWorkOfAStep(t *testing.T) {
	store := taskdir.Store{Root: t.TempDir()}
	made := func(name string, status trellis.Status) string {
		task, err := store.Create(taskdir.New{Name: name, Status: status, Objective: taskdir.Objective{Name: "x", Step: "1"}})
		if err != nil {
			t.Fatal(err)
		}
		return task.ID
	}
	check := func(want string) {
		t.Helper()
		works, err := roadmap.ReadStepTasks(store, true)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := works.Of("x", "1"); got.Task == nil || got.Name() != want {
			t.Errorf("got %+v, want %s", got.Task, want)
		}
	}
	first := made("a", trellis.Rejected)
	check(first)
	second := made("b", trellis.Cancelled)
	check(second)
	alive := made("a-2", trellis.Completed)
	check(alive)
	if _, err := store.Archive(filepath.Join(store.Tasks(), alive)); err != nil {
		t.Fatal(err)
	}
	check(alive)
	works, err := roadmap.ReadStepTasks(store, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := works.Task(alive); !ok || !got.Archived {
		t.Errorf("the archived one: %+v, %v", got.Task, ok)
	}
	late := made("late", trellis.Ready) // created after the survey
	if got, ok := works.Task(late); !ok || got.Archived || got.Name() != late {
		t.Errorf("the late one: %+v, %v", got.Task, ok)
	}
	if got, ok := works.Task("../" + alive); ok {
		t.Errorf("another path: %+v", got.Task)
	}
}

func TestTaskName(t *testing.T) {
	for text, want := range map[string]string{
		"Port the **tests**":        "port-the-tests",
		"":                          "step-1a-2",
		"日本語":                       "step-1a-2",
		"02-03 is a day":            "step-1a-2-02-03-is-a-day",
		strings.Repeat("word ", 30): strings.TrimSuffix(strings.Repeat("word-", 11), "-"),
		strings.Repeat("x", 100):    strings.Repeat("x", 56),
	} {
		if got := (roadmap.Step{ID: "1A.2", Description: text}).TaskName(); got != want || !trellis.ValidName(got) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for step, want := range map[string]string{"1A.2": "1A.2", "it's": `'it'\''s'`, "a b": "'a b'", "-x": "-x"} {
		if got := roadmap.PlanCommand("x", step); got != "trellis objective plan x --step "+want {
			t.Errorf("step %s is planned by %s", step, got)
		}
	}
	if got := (roadmap.Step{ID: "1A.2"}).Title(); got != "Step 1A.2" {
		t.Errorf("a step without a description is called %q", got)
	}
	long := roadmap.Requirement("x", "X", roadmap.Step{ID: "1", Description: "One"}, bytes.Repeat([]byte("long\n"), 1<<16))
	if len(long) > 70<<10 || !strings.HasSuffix(long, "\n[cut here]\n") {
		t.Errorf("the requirement has %d bytes", len(long))
	}
}
