package taskdir_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

func TestSubtasks(t *testing.T) {
	s := newStore(t)
	parent, child, other := create(t, s, taskdir.New{Name: "parent"}), create(t, s, taskdir.New{Name: "child"}), create(t, s, taskdir.New{Name: "other"})
	for range 2 { // the second time changes nothing
		if err := s.AddSubtask(parent.Dir, child.Dir); err != nil {
			t.Fatal(err)
		}
		p, c := load(t, s, parent.Dir), load(t, s, child.Dir)
		if !reflect.DeepEqual(p.Children, []string{child.ID}) || c.Parent != parent.ID || p.Pipeline.Revision+c.Pipeline.Revision != 0 {
			t.Errorf("got children %v, parent %q, revisions %d %d", p.Children, c.Parent, p.Pipeline.Revision, c.Pipeline.Revision)
		}
	}
	if err := s.AddSubtask(other.Dir, child.Dir); err == nil || !strings.Contains(err.Error(), "is a subtask of 02-01-parent already") {
		t.Errorf("got %v for a second parent", err)
	}
	if err := s.AddSubtask(child.Dir, other.Dir); err != nil {
		t.Fatal(err)
	}
	for _, up := range []*taskdir.Task{child, other, parent} {
		if err := s.AddSubtask(up.Dir, parent.Dir); err == nil || !strings.Contains(err.Error(), "can't be its own subtask") {
			t.Errorf("%s above the parent: got %v, want an error", up.ID, err)
		}
	}
	if err := s.RemoveSubtask(other.Dir, child.Dir); err == nil {
		t.Error("removed a link that is not there")
	}
	set(t, s, parent.Dir, map[string]any{"children": []string{}}) // now only the child names the other
	if err := s.RemoveSubtask(parent.Dir, child.Dir); err != nil {
		t.Fatal(err)
	}
	if got := load(t, s, child.Dir).Parent; got != "" {
		t.Errorf("got parent %q, want none", got)
	}
	missing := filepath.Join(s.Tasks(), "02-01-missing")
	if err := s.AddSubtask(missing, child.Dir); !errors.Is(err, taskdir.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if got := load(t, s, child.Dir).Parent; got != "" {
		t.Errorf("got parent %q after a refused link, want none", got)
	}
}

func TestCompleteParents(t *testing.T) {
	s := newStore(t)
	top, parent := create(t, s, taskdir.New{Name: "top"}), create(t, s, taskdir.New{Name: "parent"})
	a, b := create(t, s, taskdir.New{Name: "a"}), create(t, s, taskdir.New{Name: "b"})
	for _, link := range [][2]*taskdir.Task{{top, parent}, {parent, a}, {parent, b}} {
		if err := s.AddSubtask(link[0].Dir, link[1].Dir); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := s.CompleteParents(a.Dir); err != nil || len(done) > 0 {
		t.Errorf("before the child is completed: got %v %v", done, err)
	}
	withStatus(t, s, a.Dir, trellis.Review)
	if _, err := s.Archive(a.Dir); err != nil { // Archive completes the task
		t.Fatal(err)
	}
	if got := load(t, s, parent.Dir).Status; got != trellis.Planning {
		t.Errorf("with one child left: got %s, want planning", got)
	}
	withStatus(t, s, b.Dir, trellis.Completed)
	done, err := s.CompleteParents(b.Dir)
	if want := []string{parent.ID, top.ID}; err != nil || !reflect.DeepEqual(done, want) {
		t.Errorf("got %v %v, want %v", done, err, want)
	}
	if p := load(t, s, top.Dir); p.Status != trellis.Completed || p.CompletedAt != "2026-02-01" || p.Pipeline.Revision != 1 {
		t.Errorf("got %+v", p)
	}
}

func TestCompleteParentsLeavesRunsAndCancelledAlone(t *testing.T) {
	s := newStore(t)
	parent, child := create(t, s, taskdir.New{Name: "parent"}), create(t, s, taskdir.New{Name: "child"})
	if err := s.AddSubtask(parent.Dir, child.Dir); err != nil {
		t.Fatal(err)
	}
	withStatus(t, s, child.Dir, trellis.Completed)
	if _, err := s.RunDir(parent.Dir); err != nil {
		t.Fatal(err)
	}
	lock, err := durable.TryLock(filepath.Join(parent.Dir, taskdir.RunLock), durable.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := s.CompleteParents(child.Dir); err != nil || len(done) > 0 {
		t.Errorf("a parent that runs: got %v %v, want it left alone", done, err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	withStatus(t, s, parent.Dir, trellis.Cancelled)
	if done, err := s.CompleteParents(child.Dir); err != nil || len(done) > 0 {
		t.Errorf("a cancelled parent: got %v %v, want it left alone", done, err)
	}
}

func TestArchive(t *testing.T) {
	s := newStore(t)
	parent, task, child := create(t, s, taskdir.New{Name: "parent"}), create(t, s, taskdir.New{Name: "task", Status: trellis.Review}), create(t, s, taskdir.New{Name: "child"})
	for _, link := range [][2]*taskdir.Task{{parent, task}, {task, child}} {
		if err := s.AddSubtask(link[0].Dir, link[1].Dir); err != nil {
			t.Fatal(err)
		}
	}
	rows := "{\"file\": \".trellis/tasks/02-01-task/design.md\", \"reason\": \"a < b\", \"x\": 1.0}\r\n\n{\"path\": \".trellis/tasks/02-01-task/research/\", \"type\": \"directory\"}\n" +
		"{\"file\": \".trellis/tasks/02-01-task-2/x.md\"}\n{\"file\": \"src/a.go\"}\nnot json .trellis/tasks/02-01-task/x\n{\"file\":\".trellis/tasks/02-01-task/é.md\"}"
	write(t, s, "02-01-task/implement.jsonl", rows)
	write(t, s, "02-01-task/approvals.jsonl", `{"file": ".trellis/tasks/02-01-task/x"}`)
	dir, err := s.Archive(task.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(s.Tasks(), "archive", "2026-02", "02-01-task"); dir != want {
		t.Errorf("got %s, want %s", dir, want)
	}
	if _, err := os.Stat(task.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old directory is still there (%v)", err)
	}
	if got := load(t, s, dir); got.Status != trellis.Completed || got.CompletedAt != "2026-02-01" || got.Parent != parent.ID {
		t.Errorf("got %+v", got)
	}
	if p, c := load(t, s, parent.Dir), load(t, s, child.Dir); !reflect.DeepEqual(p.Children, []string{task.ID}) || c.Parent != "" {
		t.Errorf("got children %v and parent %q, want the child kept in its parent's list and its own child without a parent", p.Children, c.Parent)
	}
	want := strings.ReplaceAll(rows, ".trellis/tasks/02-01-task/", ".trellis/tasks/archive/2026-02/02-01-task/")
	want = strings.Replace(want, "json .trellis/tasks/archive/2026-02/", "json .trellis/tasks/", 1)
	if got := read(t, filepath.Join(dir, "implement.jsonl")); got != want {
		t.Errorf("got rows\n%s\nwant\n%s", got, want)
	}
	if got := read(t, filepath.Join(dir, "approvals.jsonl")); strings.Contains(got, "archive") {
		t.Errorf("approvals were changed: %s", got)
	}
	if again, err := s.Archive(dir); err != nil || again != dir {
		t.Errorf("a second time: got %s %v, want the same", again, err)
	}
}

func TestArchiveWithATakenName(t *testing.T) {
	s := newStore(t)
	byHand(t, s, "archive/2026-02/02-01-task", `{"title": "the older one"}`)
	byHand(t, s, "archive/2026-01/02-01-task-2", `{}`)
	task := byHand(t, s, "02-01-task", `{"status": "failed"}`)
	parent := byHand(t, s, "02-01-parent", `{"children": ["02-01-x", "02-01-task"]}`)
	later := byHand(t, s, "02-01-later", `{"pipeline": {"depends_on": ["02-01-task", "02-01-task-9"], "stacked_on": "02-01-task", "revision": 3}}`)
	byHand(t, s, "02-01-broken", `{"children": ["02-01-task"]`)
	dir, err := s.Archive(task)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := filepath.Base(dir), "02-01-task-3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := load(t, s, parent).Children, []string{"02-01-x", "02-01-task-3"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got children %v, want %v", got, want)
	}
	if got, want := string(load(t, s, later).Raw), `{"pipeline": {"depends_on": ["02-01-task-3", "02-01-task-9"], "stacked_on": "02-01-task-3", "revision": 3}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := load(t, s, filepath.Join(s.Tasks(), "archive/2026-02/02-01-task")).Title; got != "the older one" {
		t.Errorf("the older one became %q", got)
	}
}

func TestArchiveByStatus(t *testing.T) {
	s := newStore(t)
	s.Now = func() time.Time { return time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC) }
	refused := map[trellis.Status]bool{trellis.Waiting: true, trellis.Paused: true, trellis.InProgress: true}
	for _, status := range trellis.Statuses {
		dir := byHand(t, s, "12-31-"+strings.ReplaceAll(string(status), "_", "-"), `{"status": "`+string(status)+`"}`)
		write(t, s, filepath.Base(dir)+"/"+taskdir.Journal, "")
		to, err := s.Archive(dir)
		if (err != nil) != refused[status] {
			t.Errorf("%s: got %v, want an error: %v", status, err, refused[status])
		}
		if err == nil && filepath.Base(filepath.Dir(to)) != "2027-01" {
			t.Errorf("%s: got %s, want the month of the archiving", status, to)
		}
	}
	byHandOnly := byHand(t, s, "12-31-no-journal", `{"status": "in_progress"}`)
	if _, err := s.Archive(byHandOnly); err != nil {
		t.Errorf("in_progress without a run of ours: got %v", err)
	}
	if _, err := s.Archive(byHand(t, s, ".new-12-31-x", `{}`)); err == nil {
		t.Error("a draft was archived")
	}
	running := byHand(t, s, "12-31-running", `{"status": "ready"}`)
	if _, err := s.RunDir(running); err != nil {
		t.Fatal(err)
	}
	lock, err := durable.TryLock(filepath.Join(running, taskdir.RunLock), durable.Holder{PID: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if _, err := s.Archive(running); !errors.Is(err, durable.ErrHeld) {
		t.Errorf("got %v for a task that runs, want ErrHeld", err)
	}
}
