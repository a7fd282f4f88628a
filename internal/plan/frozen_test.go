package plan_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/plan"
)

// bundle returns a bundle with files of all kinds, and with texts that are easily corrupted.
func bundle(t *testing.T, o plan.LoadOptions) *plan.Bundle {
	t.Helper()
	o.File = "ci/m.yaml"
	return loads(t, "bundle", o, "~ci/x.json:1: keys of tascer", "m.yaml", "\ufeffschema_version: 1\r\ntitle: \"<T> & \\u2028 é \\0\"\r\nvars: {v: }\r\nsteps:\r\n- {id: a, workflow: sub/e.yaml, vars: {r: '{{v}}'}}\r\n- {id: b, workflow: x.json}\r\n",
		"sub/e.yaml", "goal: G\nvars:\n  r:\nsteps:\n- name: a b\n  command: ls {{r}}\n", "x.json", "{\"title\": \"T\", \"status\": \"x\", \"tascs\": [{\"title\": \"A\", \"command\": \"ls a\"}]}")
}

// A bundle that is opened equals the one that was saved, to the letter.
func TestSaveAndOpen(t *testing.T) {
	b := bundle(t, plan.LoadOptions{Given: map[string]string{"v": "$1\n<\u2028>"}})
	dir := filepath.Join(t.TempDir(), "inputs", "x")
	for range 2 {
		if err := b.Save(dir, nil); err != nil {
			t.Fatal(err)
		}
	}
	got, err := plan.OpenBundle(dir, b.Hash)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, b) {
		t.Errorf("got %+v, want %+v", got, b)
	}
	again := t.TempDir()
	if err := got.Save(again, &durable.Disk{}); err != nil {
		t.Fatal(err)
	}
	if _, err := plan.OpenBundle(again, b.Hash); err != nil {
		t.Error(err)
	}
}

// The hash covers every text, file name and given value, but not the folder that the files are in.
func TestHashOfABundle(t *testing.T) {
	const main, other = "schema_version: 1\ntitle: T\nvars: {v: x, w: y}\nsteps:\n- {id: a, workflow: o.yaml}\n", "schema_version: 1\ntitle: T\nsteps:\n- {id: a, command: ls}\n"
	seen := map[string]string{}
	for name, b := range map[string]*plan.Bundle{
		"the first":     loads(t, "", plan.LoadOptions{}, "", "m.yaml", main, "o.yaml", other),
		"a comment":     loads(t, "", plan.LoadOptions{}, "", "m.yaml", main, "o.yaml", other+"#\n"),
		"a value":       loads(t, "", plan.LoadOptions{Given: map[string]string{"v": "x"}}, "", "m.yaml", main, "o.yaml", other),
		"another value": loads(t, "", plan.LoadOptions{Given: map[string]string{"v": "y"}}, "", "m.yaml", main, "o.yaml", other),
		"another var":   loads(t, "", plan.LoadOptions{Given: map[string]string{"w": "x"}}, "", "m.yaml", main, "o.yaml", other),
		"another name":  loads(t, "", plan.LoadOptions{}, "", "n.yaml", main, "o.yaml", other),
		"a task":        loads(t, "", plan.LoadOptions{Task: true}, "", "m.yaml", main+"acceptance: [{criterion: c}]\n", "o.yaml", other),
	} {
		if before, there := seen[b.Hash]; there {
			t.Errorf("%s and %s have one hash", name, before)
		}
		seen[b.Hash] = name
	}
	a := loads(t, "", plan.LoadOptions{Given: map[string]string{}}, "", "m.yaml", main, "o.yaml", other)
	b := loads(t, "", plan.LoadOptions{File: "elsewhere/m.yaml"}, "", "m.yaml", main, "o.yaml", other)
	if a.Hash != b.Hash {
		t.Errorf("got %s and %s for the same files", a.Hash, b.Hash)
	}
}

// OpenBundle notices any byte of the saved copy that was changed, added or removed.
func TestOpenNoticesChanges(t *testing.T) {
	b, dir := bundle(t, plan.LoadOptions{Given: map[string]string{"v": "x"}}), t.TempDir()
	if err := b.Save(dir, nil); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "bundle.json")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := [][]byte{nil, whole[:len(whole)-1], append(bytes.Clone(whole), ' ')}
	for i := range whole {
		other := bytes.Clone(whole)
		other[i] ^= 1
		changed = append(changed, other)
	}
	for i, data := range changed {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := plan.OpenBundle(dir, b.Hash); err == nil || !strings.Contains(err.Error(), "was changed") {
			t.Fatalf("change %d: got %v", i, err)
		}
	}
	if _, err := plan.OpenBundle(t.TempDir(), b.Hash); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// A disk that fails leaves no copy that could be opened.
func TestSaveOnAFailingDisk(t *testing.T) {
	b := bundle(t, plan.LoadOptions{Given: map[string]string{"v": "x"}})
	full := errors.New("disk full")
	dir := t.TempDir()
	disk := &durable.Disk{Fault: func(step, path string) error { return full }}
	if err := b.Save(dir, disk); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if _, err := plan.OpenBundle(dir, b.Hash); err == nil {
		t.Error("got a bundle")
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Save(filepath.Join(dir, "file"), nil); err == nil {
		t.Error("saved into a file")
	}
}

// FuzzLoad loads any two files, the first of which may call the second. A bundle that loads can be saved and opened again.
func FuzzLoad(f *testing.F) {
	for _, doc := range []string{own, tascer, full, goal("- name: a", "  forEach: [x, y]", "  steps: [{name: b, workflow: b.yaml, vars: {x: '{{item}}'}}]"), "a: &a [*a]", "{\"goal\": 1, \"tascs\": 2}",
		calls("- &a {id: a, workflow: b.yaml}", "- {<<: *a, id: b, repeat: 010, command: yes}"), "schema_version: 1\ntitle: T\nvars: {v: }\nsteps: [{id: a, for_each: [a, b], workflow: '{{item}}.yaml'}]\n"} {
		f.Add(doc, own, true, "x")
		f.Add(doc, goal("- name: a", "  workflow: a.yaml"), false, "{{v}}")
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, a, b string, yaml bool, value string) {
		name := map[bool]string{true: "a.yaml", false: "a.json"}[yaml]
		o := plan.LoadOptions{Task: len(value) > 3}
		if value != "" {
			o.Given = map[string]string{"v": value}
		}
		got, problems := load(o, name, a, "b.yaml", b)
		for _, p := range problems {
			text := map[string]string{name: a, "b.yaml": b}[p.File]
			if p.Message == "" || p.Line > strings.Count(text, "\n")+strings.Count(text, "\r")+1 || p.Line < 1 {
				t.Fatalf("a problem nowhere: %+v", p)
			}
		}
		if got == nil {
			if len(problems) == 0 {
				t.Fatal("no bundle and no reason")
			}
			return
		}
		_ = got.ResolvedSteps()
		if err := got.Save(dir, nil); err != nil {
			t.Fatal(err)
		}
		again, err := plan.OpenBundle(dir, got.Hash)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, again) {
			t.Fatalf("got %+v, want %+v", again, got)
		}
	})
}
