package taskdir_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// saves are the ways in which editors save a file.
var saves = map[string]func(path, text string) error{
	"in place": func(path, text string) error { return os.WriteFile(path, []byte(text), 0o644) },
	"renamed": func(path, text string) error {
		return errors.Join(os.WriteFile(path+"~", []byte(text), 0o644), os.Rename(path+"~", path))
	},
	"made anew": func(path, text string) error {
		return errors.Join(os.Remove(path), os.WriteFile(path, []byte(text), 0o644))
	},
}

// Edge F3: if a person saves task.json during any step of an update, the file has both changes.
func TestUpdateKeepsASaveWithinEachStep(t *testing.T) {
	for how, save := range saves {
		for n := 1; ; n++ {
			s := newStore(t)
			dir := byHand(t, s, "02-01-a", `{"status": "ready", "notes": "old"}`)
			step, saved := 0, false
			s.Disk = &durable.Disk{Fault: func(_, path string) error {
				if step++; step != n {
					return nil
				}
				saved = true
				return save(filepath.Join(dir, taskdir.TaskJSON), `{"status": "ready", "notes": "by hand"}`)
			}}
			_, err := s.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error { e.Set("status", "in_progress"); return nil })
			if !saved {
				break
			}
			task := load(t, s, dir)
			if notes := gjson.GetBytes(task.Raw, "notes").Str; err != nil || notes != "by hand" || task.Status != trellis.InProgress || task.Pipeline.Revision != 1 {
				t.Errorf("%s at step %d: got %s, %v", how, n, task.Raw, err)
			}
		}
	}
}

// Edge F3: what a person saves between two steps of archiving is kept in the context file, and its paths are updated.
func TestArchiveKeepsASaveOfContext(t *testing.T) {
	s := newStore(t)
	dir := byHand(t, s, "02-01-a", `{"status": "review"}`)
	row := `{"file": ".trellis/tasks/02-01-a/prd.md"}` + "\n"
	write(t, s, "02-01-a/check.jsonl", row)
	saved := false
	s.Disk = &durable.Disk{Fault: func(step, path string) error {
		if step != "rename" || filepath.Base(path) != "check.jsonl" || saved {
			return nil
		}
		saved = true
		return os.WriteFile(path, []byte(row+"{\"file\": \"by-hand.md\"}\n"), 0o644)
	}}
	to, err := s.Archive(dir)
	if err != nil || !saved {
		t.Fatal(err, saved)
	}
	got, err := os.ReadFile(filepath.Join(to, "check.jsonl"))
	if want := "{\"file\": \"" + s.Rel(to) + "/prd.md\"}\n{\"file\": \"by-hand.md\"}\n"; err != nil || string(got) != want {
		t.Errorf("got %q, want %q, %v", got, want, err)
	}
}
