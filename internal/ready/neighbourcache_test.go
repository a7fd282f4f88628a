package ready_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// asked returns the owner of the branch of 02-01-auth, as far as n knows; "" if that is the task itself.
func asked(t testing.TB, s taskdir.Store, n *ready.Neighbours) string {
	t.Helper()
	problems, err := ready.Check(t.Context(), ready.Input{Store: s, Dir: filepath.Join(s.Tasks(), "02-01-auth"), Status: trellis.Ready, Neighbours: n})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range trellis.Errors(problems) {
		var branch, owner string
		if _, err := fmt.Sscanf(p.Message, "branch %s belongs to task %s", &branch, &owner); err == nil {
			return owner
		}
	}
	return ""
}

// age sets the time of task.json so far back that a later change shows in the time.
func age(t *testing.T, dir string, hours int) {
	t.Helper()
	at := time.Now().Add(time.Duration(-hours) * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, taskdir.TaskJSON), at, at); err != nil {
		t.Fatal(err)
	}
}

const (
	takes  = `{"status": "review", "branch": "feature/auth"}`
	leaves = `{"status": "review", "branch": "feature/else"}`
)

func TestNeighboursSeeEveryChange(t *testing.T) {
	s := taskdir.Store{Root: t.TempDir()}
	task(t, s, "02-01-auth", map[string]string{"task.json": `{"status": "ready", "branch": "feature/auth"}`})
	other := task(t, s, "01-01-other", map[string]string{"task.json": leaves})
	n := new(ready.Neighbours)
	file := filepath.Join(other, taskdir.TaskJSON)
	for _, step := range []struct {
		name string
		do   func() error
		want string
	}{
		{"another branch", func() error { age(t, other, 9); return nil }, ""},
		{"as before", func() error { return nil }, ""},
		{"rewritten in place", func() error { return os.WriteFile(file, []byte(takes), 0o666) }, "01-01-other"},
		{"rewritten right after", func() error { return os.WriteFile(file, []byte(leaves), 0o666) }, ""},
		{"replaced", func() error {
			write(t, other, "new.json", takes)
			age(t, other, 9)
			return os.Rename(filepath.Join(other, "new.json"), file)
		}, "01-01-other"},
		{"grown old", func() error { age(t, other, 8); return nil }, "01-01-other"},
		{"broken", func() error { return os.WriteFile(file, []byte("{"), 0o666) }, ""},
		{"mended", func() error { return os.WriteFile(file, []byte(takes), 0o666) }, "01-01-other"},
		{"gone", func() error { return os.RemoveAll(other) }, ""},
		{"a draft", func() error {
			task(t, s, ".new-01-01-draft", map[string]string{"task.json": takes})
			return nil
		}, ""},
		{"a new one", func() error { task(t, s, "01-02-new", map[string]string{"task.json": takes}); return nil }, "01-02-new"},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := asked(t, s, n); got != step.want {
			t.Errorf("%s: got owner %q, want %q", step.name, got, step.want)
		}
	}
}

// After Follow, a check reads only tasks that Changed reported, and notices every one of them.
func TestNeighboursFollow(t *testing.T) {
	s := taskdir.Store{Root: t.TempDir()}
	task(t, s, "02-01-auth", map[string]string{"task.json": `{"status": "ready", "branch": "feature/auth"}`})
	n := new(ready.Neighbours)
	n.Changed("01-01-early") // before Follow
	n.Follow()
	want := func(name, want string) {
		t.Helper()
		if got := asked(t, s, n); got != want {
			t.Errorf("%s: got owner %q, want %q", name, got, want)
		}
	}
	want("the first look sees all", "")
	other := task(t, s, "01-01-other", map[string]string{"task.json": takes})
	draft := task(t, s, ".new-01-00-draft", map[string]string{"task.json": takes})
	want("not told", "")
	n.Changed(draft)
	want("told of a draft", "")
	n.Changed(other)
	want("told", "01-01-other")
	if err := os.RemoveAll(other); err != nil {
		t.Fatal(err)
	}
	n.Changed(other)
	want("told that it is gone", "")
	task(t, s, "01-02-new", map[string]string{"task.json": takes})
	n.Changed("")
	want("told that anything may have changed", "01-02-new")
}

// Edge F12: a task.json that can't be read because the file does not answer does not hold up the check of another task.
func TestNeighbourThatDoesNotAnswer(t *testing.T) {
	s := taskdir.Store{Root: t.TempDir()}
	task(t, s, "02-01-auth", map[string]string{"task.json": `{"status": "ready", "branch": "feature/auth"}`})
	task(t, s, "01-01-other", map[string]string{"task.json": takes})
	task(t, s, "01-02-slow", map[string]string{"note": ""})
	pipe := filepath.Join(s.Tasks(), "01-02-slow", taskdir.TaskJSON)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("no pipes to be had here: %v", err)
	}
	n := new(ready.Neighbours)
	for range 3 {
		if got := asked(t, s, n); got != "01-01-other" {
			t.Errorf("got %q", got)
		}
	}
	w, err := os.OpenFile(pipe, os.O_RDWR, 0) // frees the readers
	if err == nil {
		_, err = w.WriteString("{}")
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

func BenchmarkAmong10000(b *testing.B) {
	s := taskdir.Store{Root: b.TempDir()}
	old := time.Now().Add(-time.Hour)
	for i := range 10_000 {
		dir := filepath.Join(s.Tasks(), fmt.Sprintf("01-01-other-%d", i))
		text := fmt.Appendf(nil, `{"name": "other-%d", "title": "A task of a usual length", "status": "planning"}`, i)
		file := filepath.Join(dir, taskdir.TaskJSON)
		if os.MkdirAll(dir, 0o777) != nil || os.WriteFile(file, text, 0o666) != nil || os.Chtimes(file, old, old) != nil {
			b.Fatal("can't write tasks")
		}
	}
	dir := filepath.Join(s.Tasks(), "02-01-auth")
	if os.MkdirAll(dir, 0o777) != nil || os.WriteFile(filepath.Join(dir, taskdir.TaskJSON), []byte(`{"status": "ready", "branch": "feature/auth"}`), 0o666) != nil {
		b.Fatal("can't write the task")
	}
	followed := new(ready.Neighbours)
	followed.Follow()
	for name, n := range map[string]*ready.Neighbours{"anew": nil, "known": {}, "followed": followed} {
		b.Run(name, func(b *testing.B) {
			asked(b, s, n)
			for b.Loop() {
				followed.Changed(dir)
				asked(b, s, n)
			}
		})
	}
}
