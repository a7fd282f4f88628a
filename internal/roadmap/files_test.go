package roadmap_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func TestCheckName(t *testing.T) {
	for name, want := range map[string]bool{
		"gateway": true, "Q3_plan.v2": true, "größe-2": true, "目标": true, "": false, ".": false, "..": false, "../x": false, "a/b": false,
		`a\b`: false, ".hidden": false, "-x": false, "a b": false, "a\x00": false, "a\n": false, strings.Repeat("a", 101): false,
	} {
		if err := roadmap.CheckName(name); (err == nil) != want {
			t.Errorf("%q: got %v, want %t", name, err, want)
		}
	}
}

func TestFiles(t *testing.T) {
	root := t.TempDir()
	if names, err := roadmap.Names(root); err != nil || names != nil {
		t.Errorf("got %v, %v", names, err)
	}
	if _, err := roadmap.Load(root, "x"); !errors.Is(err, roadmap.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	dir := filepath.Join(root, ".trellis", "objectives")
	if err := os.MkdirAll(filepath.Join(dir, "folder.md"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"b.md": whole, "a.md": "| Step | PR |\n", ".hidden.md": whole, "x.txt": whole, "a b.md": whole, "../outside.md": whole} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../outside.md", filepath.Join(dir, "link.md")); err != nil {
		t.Fatal(err)
	}
	if names, err := roadmap.Names(root); err != nil || !slices.Equal(names, []string{"a", "b", "link"}) {
		t.Errorf("got %v, %v", names, err)
	}
	if r, err := roadmap.Load(root, "b"); err != nil || len(r.Steps) != 5 {
		t.Errorf("got %v, %v", r, err)
	}
	var problem *trellis.Problem
	for _, name := range []string{"a", "link", "folder"} {
		if _, err := roadmap.Load(root, name); !errors.As(err, &problem) || problem.File != ".trellis/objectives/"+name+".md" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, name := range []string{"none", "../outside", ".hidden", "a b"} {
		if _, err := roadmap.Load(root, name); !errors.Is(err, roadmap.ErrNotFound) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A link that is not an objective is reported with its target, and hides no other objective.
func TestLinks(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, ".trellis", "objectives")
	if err := os.MkdirAll(filepath.Join(dir, "old"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.md", "old/x.md", "../outside.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(whole), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ to, want string }{
		"below":   {"old/x.md", ""},
		"outside": {"../outside.md", "is a link to ../outside.md, which is not in .trellis/objectives"},
		"rooted":  {filepath.Join(dir, "a.md"), "which is an objective of its own"},
		"none":    {"nothing.md", "is a link to nothing.md, which is not there"},
		"round":   {"round.md", "is a link to round.md, which leads nowhere"},
		"twice":   {"a.md", "is a link to a.md, which is an objective of its own"},
		"folder":  {"old", "is a folder"},
	} {
		if err := os.Symlink(c.to, filepath.Join(dir, name+".md")); err != nil {
			t.Fatal(err)
		}
		var problem *trellis.Problem
		switch _, err := roadmap.Load(root, name); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want == "":
		case !errors.As(err, &problem) || problem.File != roadmap.File(name) || !strings.Contains(problem.Message, c.want):
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestNew(t *testing.T) {
	src, err := roadmap.New(" Gateway | `tests` ")
	if err != nil {
		t.Fatal(err)
	}
	r, err := roadmap.Parse("x", src)
	if err != nil || len(r.Check()) > 0 || r.Title != "Gateway | `tests`" || len(r.Steps) != 3 || r.Auto || r.Next(nil).Step.ID != "1.1" {
		t.Errorf("got %+v, %v", r, err)
	}
	for _, s := range r.Steps { // edge C8
		if s.HasTemplateText() == (s.Description == "") {
			t.Errorf("step %s: %q counts as written", s.ID, s.Description)
		}
	}
	for _, title := range []string{"", "a\nb"} {
		if _, err := roadmap.New(title); err == nil {
			t.Errorf("%q is a title", title)
		}
	}
}
