package taskdir_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

func TestRender(t *testing.T) {
	got := string(taskdir.Render(taskdir.New{
		Name: "user-auth", Title: "Sign-in für alle <b>", Status: trellis.Ready, DevType: "backend", Priority: "P1",
		Creator: "ann", Verify: []string{"go test ./... && true"}, DependsOn: []string{"01-31-db"}, Branch: "feature/user-auth",
		Created: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), Objective: taskdir.Objective{Name: "gateway", Step: "1A.2"},
	}))
	want := `{
  "id": "user-auth",
  "name": "user-auth",
  "title": "Sign-in für alle <b>",
  "description": "",
  "status": "ready",
  "dev_type": "backend",
  "scope": null,
  "package": null,
  "priority": "P1",
  "creator": "ann",
  "assignee": "",
  "createdAt": "2026-02-01",
  "completedAt": null,
  "branch": "feature/user-auth",
  "base_branch": null,
  "worktree_path": null,
  "commit": null,
  "pr_url": null,
  "subtasks": [],
  "children": [],
  "parent": null,
  "relatedFiles": [],
  "notes": "",
  "meta": {},
  "pipeline": {
    "schema_version": 1,
    "revision": 0,
    "size": "",
    "agent": "",
    "verify": [
      "go test ./... && true"
    ],
    "depends_on": [
      "01-31-db"
    ],
    "touches": [],
    "protected": [],
    "not_before": null,
    "objective": {
      "name": "gateway",
      "step": "1A.2"
    },
`
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "\n  }\n}\n") {
		t.Errorf("got\n%s\nwant it to begin with\n%s", got, want)
	}
	task := parse(t, got)
	if len(task.Problems) > 0 {
		t.Errorf("got problems %v", task.Problems)
	}
}

// Shape has every field of the format, with the value that a reader assumes if the field is missing.
func TestShapeIsWhatReadingAssumes(t *testing.T) {
	empty, shape := parse(t, `{}`), parse(t, taskdir.Shape)
	for _, task := range []*taskdir.Task{empty, shape} {
		task.Raw = nil
	}
	if !reflect.DeepEqual(empty, shape) {
		t.Errorf("an empty file is read as %+v, the shape as %+v", empty, shape)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(taskdir.Shape), &fields); err != nil {
		t.Fatal(err)
	}
	if len(fields) != 25 {
		t.Errorf("got %d fields, want 24 and pipeline", len(fields))
	}
}

func TestCreate(t *testing.T) {
	s := newStore(t)
	task := create(t, s, taskdir.New{Name: "user-auth", Title: "User auth", Files: map[string][]byte{taskdir.Requirement: []byte("Add it.\r\n\x00")}})
	if task.ID != "02-01-user-auth" || task.Dir != filepath.Join(s.Tasks(), task.ID) || task.CreatedAt != "2026-02-01" || task.Status != trellis.Planning {
		t.Errorf("got %+v", task)
	}
	if got := read(t, filepath.Join(task.Dir, taskdir.Requirement)); got != "Add it.\r\n\x00" {
		t.Errorf("got requirement %q", got)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Tasks(), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCreateRefusesATakenName(t *testing.T) {
	s := newStore(t)
	first := create(t, s, taskdir.New{Name: "auth"})
	_, err := s.Create(taskdir.New{Name: "auth"})
	var exists *taskdir.ExistsError
	if !errors.Is(err, taskdir.ErrExists) || !errors.As(err, &exists) || exists.Dir != first.Dir || exists.Draft {
		t.Errorf("got %v, want ErrExists that names the directory", err)
	}
	second := create(t, s, taskdir.New{Name: "auth", Force: true})
	third := create(t, s, taskdir.New{Name: "auth", Force: true})
	if second.ID != "02-01-auth-2" || second.Name != "auth-2" || third.ID != "02-01-auth-3" {
		t.Errorf("got %s %s %s, want suffixes -2 and -3", second.ID, second.Name, third.ID)
	}
	tomorrow := s
	tomorrow.Now = func() time.Time { return s.Now().AddDate(0, 0, 1) }
	if got := create(t, tomorrow, taskdir.New{Name: "auth"}).ID; got != "02-02-auth" {
		t.Errorf("got %s on another day, want 02-02-auth", got)
	}
	withStatus(t, s, first.Dir, trellis.Completed)
	if _, err := s.Archive(first.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(taskdir.New{Name: "auth"}); !errors.Is(err, taskdir.ErrExists) {
		t.Errorf("got %v for a name in the archive, want ErrExists", err)
	}
	long := strings.Repeat("a", 60)
	create(t, s, taskdir.New{Name: long})
	if got, want := create(t, s, taskdir.New{Name: long, Force: true}).Name, long[:58]+"-2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCreateRefusesBadNames(t *testing.T) {
	s := newStore(t)
	for _, name := range []string{"", "User Auth", "../x", "a/b", "-x", "x-", "a--b", "ä", strings.Repeat("a", 61), "02-01-auth", "12-31-x"} {
		if task, err := s.Create(taskdir.New{Name: name}); err == nil {
			t.Errorf("%q: got %s, want an error", name, task.Dir)
		}
	}
	for _, file := range []string{"../x", "a/b", "task.json", "..", "/etc/x", ""} {
		if _, err := s.Create(taskdir.New{Name: "x", Files: map[string][]byte{file: nil}}); err == nil {
			t.Errorf("file %q: got no error", file)
		}
	}
	if list, err := os.ReadDir(s.Tasks()); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v %v", list, err)
	}
	create(t, s, taskdir.New{Name: "13-01-x"}) // 13 is not a month, so 13-01 is not a date
	create(t, s, taskdir.New{Name: "02-30-x"}) // February has no 30th
}

func TestDraftAndPublish(t *testing.T) {
	s := newStore(t)
	draft, err := s.Draft(taskdir.New{Name: "auth"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := filepath.Base(draft), ".new-02-01-auth"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, err = s.Draft(taskdir.New{Name: "auth"})
	var exists *taskdir.ExistsError
	if !errors.As(err, &exists) || !exists.Draft || exists.Dir != draft {
		t.Errorf("got %v, want an *ExistsError of the draft", err)
	}
	if _, err := s.Update(draft, func(_ *taskdir.Task, e *taskdir.Edit) error { e.Set("status", "ready"); return nil }); err != nil {
		t.Fatal(err)
	}
	entries, err := s.List()
	if err != nil || len(entries) != 1 || !entries[0].Planning || entries[0].Task.Name != "auth" || len(entries[0].Task.Problems) > 0 {
		t.Errorf("got %+v %v, want the draft as planning", entries, err)
	}
	if got, err := s.Find("02-01-auth"); err != nil || got != draft {
		t.Errorf("got %s %v, want the draft", got, err)
	}
	task, err := s.Publish(draft)
	if err != nil || task.ID != "02-01-auth" || task.Status != trellis.Ready {
		t.Errorf("got %+v %v", task, err)
	}
	if _, err := s.Publish(task.Dir); err == nil {
		t.Error("published what is not a draft")
	}
	again, err := s.Draft(taskdir.New{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	byHand(t, s, "02-01-other", `{}`)
	if _, err := s.Publish(again); !errors.Is(err, taskdir.ErrExists) {
		t.Errorf("got %v, want ErrExists for a name taken meanwhile", err)
	}
	if got := read(t, filepath.Join(s.Tasks(), "02-01-other", taskdir.TaskJSON)); got != "{}" {
		t.Errorf("the other task became %s", got)
	}
}

func TestCreateByManyAtOnce(t *testing.T) {
	s := newStore(t)
	var made atomic.Int32
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			_, err := s.Create(taskdir.New{Name: "auth"})
			if err == nil {
				made.Add(1)
			} else if !errors.Is(err, taskdir.ErrExists) {
				t.Errorf("got %v, want ErrExists", err)
			}
		})
	}
	all.Wait()
	if got := made.Load(); got != 1 {
		t.Errorf("got %d tasks, want 1", got)
	}
	for range 16 {
		all.Go(func() { create(t, s, taskdir.New{Name: "many", Force: true}) })
	}
	all.Wait()
	entries, err := s.List()
	if err != nil || len(entries) != 17 {
		t.Errorf("got %d tasks %v, want 17", len(entries), err)
	}
}

// If any step of Create fails, the task directory is either complete or missing.
func TestCreateSurvivesFaults(t *testing.T) {
	for fail := 1; ; fail++ {
		s := newStore(t)
		broken, step := errors.New("disk on fire"), 0
		s.Disk = &durable.Disk{Fault: func(string, string) error {
			if step++; step == fail {
				return broken
			}
			return nil
		}}
		_, err := s.Create(taskdir.New{Name: "auth", Files: map[string][]byte{taskdir.PRD: []byte("# x\n")}})
		dir := filepath.Join(s.Tasks(), "02-01-auth")
		if _, statErr := os.Stat(dir); !errors.Is(statErr, fs.ErrNotExist) {
			load(t, s, dir)
			read(t, filepath.Join(dir, taskdir.PRD))
		}
		if err == nil {
			if fail < 10 {
				t.Errorf("got %d steps, want at least those of two durable writes", fail-1)
			}
			return
		}
		if !errors.Is(err, broken) {
			t.Errorf("fault at step %d: got %v", fail, err)
		}
		if _, err := s.Create(taskdir.New{Name: "auth", Force: true}); err != nil {
			t.Errorf("after a fault at step %d: %v", fail, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	s := newStore(t)
	for prd, want := range map[string]string{
		"# Add sign-in\n":             "Add sign-in",
		"# Task: Add sign-in\n":       "Add sign-in",
		"intro\n\n# C# and F#\n":      "C# and F#",
		"# Closed ##\n":               "Closed",
		"~~~\n# no\n```\n~~~\n# yes":  "yes",
		"## Second level only\n":      "by-hand",
		"\ufeff# Mark\r\n":            "Mark",
		"``` sh\n# never closed\nx\n": "by-hand",
	} {
		write(t, s, "02-01-by-hand/prd.md", prd)
		task := load(t, s, byHand(t, s, "02-01-by-hand", `{"status": "ready"}`))
		taskdir.Defaults(task)
		if task.Title != want || task.Branch != "feature/by-hand" || task.Name != "by-hand" || task.BaseBranch != "" {
			t.Errorf("%q: got title %q, branch %q, name %q, base %q; want title %q", prd, task.Title, task.Branch, task.Name, task.BaseBranch, want)
		}
	}
	task := load(t, s, byHand(t, s, "02-01-full", `{"name": "n", "title": "t", "branch": "b"}`))
	taskdir.Defaults(task)
	if task.Title != "t" || task.Branch != "b" || task.Name != "n" {
		t.Errorf("got %+v, want what the file says", task)
	}
}

func TestSplitID(t *testing.T) {
	for id, want := range map[string][2]string{
		"02-01-auth": {"02-01", "auth"}, "02-29-leap": {"02-29", "leap"}, "02-30-x": {"", "02-30-x"}, "13-01-x": {"", "13-01-x"},
		"00-10-x": {"", "00-10-x"}, "auth": {"", "auth"}, "02-01": {"", "02-01"}, "02-01-": {"", "02-01-"}, ".new-02-01-auth": {"02-01", "auth"},
		"2-1-x": {"", "2-1-x"}, "": {"", ""},
	} {
		if day, name := taskdir.SplitID(id); day != want[0] || name != want[1] {
			t.Errorf("%q: got %q %q, want %q", id, day, name, want)
		}
	}
}

func TestDirectoryNames(t *testing.T) {
	s := newStore(t)
	for id, want := range map[string]struct {
		name  string
		legal bool
	}{
		"02-01-auth": {"auth", true}, "auth": {"auth", true}, "My_Task.v2": {"my-task-v2", true}, "my task": {"my-task", false},
		"-x": {"x", false}, "a..b": {"a-b", false}, "x.lock": {"x-lock", false}, "täsk\n": {"task", false}, ".new-02-01-auth": {"auth", true},
	} {
		task := load(t, s, byHand(t, s, id, `{}`))
		if task.Name != want.name || (len(task.Problems) == 0) != want.legal {
			t.Errorf("%q: got name %q and problems %v, want %q, legal %v", id, task.Name, task.Problems, want.name, want.legal)
		}
	}
}
