package taskref_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/text"
)

func sum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// journal writes the journal of a run that ended, made by the engine, to the file name of the task.
func (m *machine) journal(name string, in any) {
	m.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		m.Fatal(err)
	}
	dir := filepath.Join(m.TempDir(), "run")
	act := flow.Activity{Name: "note", Run: func(context.Context, flow.Call, json.RawMessage) (any, error) { return in, nil }}
	r, err := journal.Open(journal.Options{Dir: dir, Clone: m.remote.Places.Clone, Build: "v1", Activities: []flow.Activity{act}})
	if err != nil {
		m.Fatal(err)
	}
	defer r.Close()
	if err := r.Begin(journal.Spec{Run: task + "/1", Flow: "task", Code: 1, Input: raw}); err != nil {
		m.Fatal(err)
	}
	_, err = journal.Execute(m.Context(), r, func(f flow.Flow, in json.RawMessage) (json.RawMessage, error) {
		return in, errors.Join(f.Do("note", in, nil), f.Do("note", in, nil))
	})
	if err != nil {
		m.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
	if err != nil {
		m.Fatal(err)
	}
	m.file(name, string(data))
}

// inJSON returns s as it is written within a JSON string.
func inJSON(t testing.TB, s string) string {
	t.Helper()
	raw, err := text.JSON(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw[1 : len(raw)-1])
}

// What one machine saved another gets, with its own paths, and the first machine gets back what the second made of it.
func TestThereAndBack(t *testing.T) {
	t.Run("sha1", func(t *testing.T) { t.Parallel(); thereAndBack(t, newNet(t)) })
	t.Run("sha256", func(t *testing.T) { t.Parallel(); thereAndBack(t, newNet(t, "--object-format=sha256")) })
}

func thereAndBack(t *testing.T, n *net) {
	a, b := n.machine("a"), n.machine("else where/<&> [\\] ü \"b\"")
	a.create()
	saved := a.save("")
	got := b.fetch()
	if !reflect.DeepEqual(got, saved) {
		t.Fatalf("fetched\n%+v, saved\n%+v", got, saved)
	}
	if kept := b.bring(got); kept != "" {
		t.Errorf("something was kept: %s", kept)
	}
	if b.differs(got) || a.differs(got) {
		t.Error("a directory differs from the state that it has")
	}
	for name, want := range map[string]string{
		"task.json":                       strings.ReplaceAll(a.read("task.json"), a.root, inJSON(t, b.root)),
		"prd.md":                          a.read("prd.md"),
		"run/1/implement#1/1/answer.md":   a.answer(),
		"run/1/implement#1/1/prompt.md":   "Work in " + b.tree() + ".\n",
		"run/1/implement#1/1/result.json": strings.ReplaceAll(a.read("run/1/implement#1/1/result.json"), a.root, inJSON(t, b.root)),
		"run/1/plan#1/made.json":          a.made(),
		"run/.gitignore":                  "*\n",
	} {
		if got := b.read(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	h, err := journal.Read(filepath.Join(b.taskDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	if h.Clone != b.remote.Places.Clone {
		t.Errorf("the journal is of %s, not of this clone", h.Clone)
	}
	var in struct{ Dir, Text string }
	if err := json.Unmarshal(h.Input, &in); err != nil || in.Dir != b.tree() || in.Text != "<"+b.Dir+"/a.txt>" {
		t.Errorf("the journal has not the paths of this machine: %s", h.Input)
	}
	b.file("report.md", "Done in "+b.tree()+".\n")
	if !b.differs(got) {
		t.Error("a report makes no difference")
	}
	back := b.save(got.Commit)
	if kept := a.bring(a.fetch()); kept != "" {
		t.Errorf("what is in a known state was kept: %s", kept)
	}
	if got, want := a.read("report.md"), "Done in "+a.tree()+".\n"; got != want {
		t.Errorf("report.md: got %q, want %q", got, want)
	}
	if _, err := journal.Read(filepath.Join(a.taskDir(), "run")); err != nil {
		t.Error(err)
	}
	if known, err := a.remote.Known(t.Context(), task); err != nil || known != back.Commit {
		t.Errorf("known is %s (%v), want %s", known, err, back.Commit)
	}
}

// A file that a person writes while a state is brought is kept, too.
func TestEditWhileBringing(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a, b := n.machine("a"), n.machine("b")
	a.file("task.json", "{}")
	first := a.save("")
	b.fetch()
	b.bring(first)
	a.file("prd.md", "of the other machine\n")
	a.save(first.Commit)
	second := b.fetch()
	disk := &durable.Disk{Fault: func(step, path string) error {
		if step == "rename" && path == b.taskDir() {
			b.file("prd.md", "mine\n")
		}
		return nil
	}}
	kept, err := b.with(disk).Import(t.Context(), second)
	if err != nil || kept == "" || b.Git("show", kept+":.trellis/tasks/"+task+"/prd.md") != "mine" || b.read("prd.md") != "of the other machine\n" {
		t.Errorf("kept %q (%v), prd.md is %q", kept, err, b.read("prd.md"))
	}
}
