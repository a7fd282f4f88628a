package taskdir_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

func TestList(t *testing.T) {
	s := newStore(t)
	if err := os.Remove(s.Tasks()); err != nil {
		t.Fatal(err)
	}
	if entries, err := s.List(); err != nil || len(entries) != 0 {
		t.Errorf("without a folder: got %v %v, want nothing", entries, err)
	}
	byHand(t, s, "02-01-good", `{"status": "ready"}`)
	byHand(t, s, "02-01-broken", `{"status": ready}`)
	byHand(t, s, ".new-02-01-draft", `{}`)
	byHand(t, s, ".hidden", `{}`)
	byHand(t, s, "archive/2026-01/01-01-old", `{"status": "completed"}`)
	byHand(t, s, "archive/2025-12/12-01-older", `{"status": "completed"}`)
	write(t, s, "README.md", "not a task")
	write(t, s, "02-01-empty/notes.txt", "no task.json yet")
	elsewhere := t.TempDir()
	if err := os.WriteFile(filepath.Join(elsewhere, "task.json"), []byte(`{"status": "ready"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(s.Tasks(), "02-01-link")); err != nil {
		t.Fatal(err)
	}
	entries, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		note := ""
		var p *trellis.Problem
		if errors.As(e.Err, &p) {
			note = " " + p.Message
		}
		if e.Planning {
			note += " planning"
		}
		if (e.Err == nil) == (e.Task == nil) {
			t.Errorf("%s: got task %v and error %v, want one of them", e.ID, e.Task, e.Err)
		}
		got = append(got, e.ID+note)
	}
	want := []string{
		".new-02-01-draft planning",
		`02-01-broken not valid JSON: the value of "status" is not quoted`,
		"02-01-empty there is no task.json",
		"02-01-good",
		"02-01-link is a symbolic link; a task is a real directory in .trellis/tasks",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	old, err := s.ListArchived()
	if err != nil || len(old) != 2 || old[0].ID != "12-01-older" || old[1].Task.Status != trellis.Completed {
		t.Errorf("archived: got %+v %v, want the older and the old one", old, err)
	}
}

func TestFind(t *testing.T) {
	s := newStore(t)
	auth := byHand(t, s, "02-01-auth", `{}`)
	named := byHand(t, s, "odd-directory", `{"name": "odd"}`)
	twice := byHand(t, s, "02-01-twice", `{}`)
	byHand(t, s, "02-02-twice", `{}`)
	old := byHand(t, s, "archive/2026-01/01-01-old", `{}`)
	byHand(t, s, "archive/2026-01/02-01-auth", `{}`)
	draft := byHand(t, s, ".new-02-01-draft", `{}`)
	dated := byHand(t, s, "03-03-02-01-auth", `{}`) // a name that looks like a directory name
	t.Chdir(filepath.Join(s.Root, ".trellis"))
	tests := []struct{ ref, want string }{
		{"02-01-auth", auth},
		{"02-01-auth/", auth},
		{"auth", auth},
		{"odd", named},
		{"odd-directory", named},
		{"02-01-twice", twice},
		{"old", old},
		{"01-01-old", old},
		{"draft", draft},
		{"02-01-draft", draft},
		{".new-02-01-draft", draft},
		{".new-02-01-auth", auth}, // the name that it had while it was planned
		{".trellis/tasks/.new-02-01-auth", auth},
		{filepath.Join(s.Tasks(), ".new-02-01-auth") + "/", auth},
		{dated, dated},
		{".trellis/tasks/02-01-auth", auth},
		{".trellis/tasks/02-01-auth/", auth},
		{"tasks/02-01-auth", auth},
		{"./tasks/../tasks/02-01-auth", auth},
		{".trellis/tasks/archive/2026-01/01-01-old", old},
		{auth, auth},
	}
	for _, test := range tests {
		if got, err := s.Find(test.ref); err != nil || got != test.want {
			t.Errorf("%q: got %q %v, want %q", test.ref, got, err, test.want)
		}
	}
	t.Chdir(auth)
	if got, err := s.Find("."); err != nil || got != auth {
		t.Errorf("the current folder: got %q %v, want %q", got, err, auth)
	}
	_, err := s.Find("twice")
	var several *taskdir.AmbiguousError
	if !errors.As(err, &several) || len(several.Candidates) != 2 || !strings.Contains(err.Error(), "02-01-twice, 02-02-twice") {
		t.Errorf("got %v, want both candidates", err)
	}
}

func TestFindStaysInside(t *testing.T) {
	s := newStore(t)
	auth := byHand(t, s, "02-01-auth", `{}`)
	outside := byHand(t, taskdir.Store{Root: s.Root + "/other"}, "02-01-outside", `{}`)
	write(t, s, "02-01-auth/run/x", "")
	write(t, s, "file", "")
	for link, to := range map[string]string{"02-01-link": outside, "up": "..", "inner": auth} {
		if err := os.Symlink(to, filepath.Join(s.Tasks(), link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, ref := range []string{
		"", "/", ".", "..", "nothing", "archive", ".trellis/tasks", ".trellis/tasks/archive", ".trellis/tasks/nothing", "file", ".trellis/tasks/file",
		"../../etc", "02-01-auth/../../..", ".trellis/tasks/02-01-auth/run", outside, s.Root, "/etc",
		"02-01-link", ".trellis/tasks/02-01-link", ".trellis/tasks/up", "up", ".hidden", "a\x00b", "link",
	} {
		got, err := s.Find(ref)
		var p *trellis.Problem
		if err == nil || !errors.Is(err, taskdir.ErrNotFound) && !errors.As(err, &p) {
			t.Errorf("%q: got %q %v, want ErrNotFound or a problem", ref, got, err)
		}
	}
	if got, err := s.Find(".trellis/tasks/inner"); err != nil || got != auth {
		t.Errorf("a link that stays inside: got %q %v, want %q", got, err, auth)
	}
}

// Find works if the store is given by a symbolic link, such as /tmp on macOS.
func TestFindThroughALinkedRoot(t *testing.T) {
	s := newStore(t)
	byHand(t, s, "02-01-auth", `{}`)
	linked := taskdir.Store{Root: filepath.Join(t.TempDir(), "repo")}
	if err := os.Symlink(s.Root, linked.Root); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(linked.Tasks(), "02-01-auth")
	for _, ref := range []string{"auth", want, filepath.Join(s.Tasks(), "02-01-auth"), ".trellis/tasks/02-01-auth"} {
		if got, err := linked.Find(ref); err != nil || got != want {
			t.Errorf("%q: got %q %v, want %q", ref, got, err, want)
		}
	}
}

func TestIDs(t *testing.T) {
	s := newStore(t)
	if ids, err := s.IDs(); len(ids) != 0 || err != nil {
		t.Errorf("no folder: got %v, %v", ids, err)
	}
	byHand(t, s, "02-01-auth", "{}")
	byHand(t, s, ".new-02-01-draft", "{}")
	byHand(t, s, "archive/2026-01/01-01-old", "{}")
	byHand(t, s, "empty", "")
	if err := os.WriteFile(filepath.Join(s.Tasks(), "notes.md"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	ids, err := s.IDs()
	slices.Sort(ids)
	if want := []string{"02-01-auth", "empty"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("got %v, %v, want %v", ids, err, want)
	}
}

// If the tasks folder is a file, or a link that leads out of the repository, everything that reads or creates it reports an error;
// a link that stays inside is followed.
func TestFolderOfTasks(t *testing.T) {
	outside := t.TempDir()
	for name, test := range map[string]struct {
		link, want string
	}{
		"a file":                {"", "is not a folder, or is below a file"},
		"an absolute link":      {outside, "leads elsewhere: out of the folder that Trellis reads here, or into .git"},
		"a link out":            {"../../..", "leads elsewhere: out of the folder that Trellis reads here, or into .git"},
		"a link that is inside": {"../work", ""},
	} {
		s := newStore(t)
		if err := os.Rename(s.Tasks(), filepath.Join(s.Root, "work")); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{filepath.Join(outside, "02-01-auth"), filepath.Join(s.Root, "work", "02-01-auth")} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if test.link == "" {
			err = os.WriteFile(s.Tasks(), nil, 0o644)
		} else {
			err = os.Symlink(test.link, s.Tasks())
		}
		if err != nil {
			t.Fatal(err)
		}
		for doing, do := range map[string]func() error{
			"listing":  func() error { _, err := s.List(); return err },
			"finding":  func() error { _, err := s.Find("02-01-auth"); return err },
			"making":   s.MakeFolder,
			"creating": func() error { _, err := s.Create(taskdir.New{Name: "new", Title: "New"}); return err },
		} {
			err := do()
			var got *trellis.Problem
			switch {
			case test.want == "" && err != nil:
				t.Errorf("%s, %s: got %v", name, doing, err)
			case test.want != "" && (!errors.As(err, &got) || got.File != ".trellis/tasks" || got.Message != test.want || got.Hint == ""):
				t.Errorf("%s, %s: got %v, want %s", name, doing, err, test.want)
			}
		}
	}
}
