package plan_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// disk has files by path, and records the paths that were read.
type disk struct {
	files map[string]string
	read  []string
}

func (d *disk) Read(path string) ([]byte, error) {
	d.read = append(d.read, path)
	if text, ok := d.files[path]; ok {
		return []byte(text), nil
	}
	return nil, &fs.PathError{Op: "open", Path: "somewhere/" + path, Err: fs.ErrNotExist}
}

// load loads the first of some files, given as name, text, name, text, and so on.
func load(o plan.LoadOptions, files ...string) (*plan.Bundle, []trellis.Problem) {
	d := &disk{files: map[string]string{}}
	for i := 0; i < len(files); i += 2 {
		d.files[files[i]] = files[i+1]
	}
	if o.Read = d.Read; o.File == "" {
		o.File = files[0]
	}
	return plan.Load(o)
}

// lines returns problems as text, one a line, with ~ before warnings.
func lines(problems []trellis.Problem) string {
	var list []string
	for _, p := range problems {
		list = append(list, map[bool]string{true: "~"}[p.Warning]+p.Error())
	}
	return strings.Join(list, "\n")
}

// loads loads files and compares the problems with want. It returns the bundle, or nil if a problem is an error.
func loads(t *testing.T, name string, o plan.LoadOptions, want string, files ...string) *plan.Bundle {
	t.Helper()
	b, problems := load(o, files...)
	same(t, name, lines(problems), want)
	if bad := slices.ContainsFunc(problems, func(p trellis.Problem) bool { return !p.Warning }); (b == nil) != bad {
		t.Fatalf("%s: got a bundle: %v, with\n%s", name, b != nil, lines(problems))
	}
	return b
}

const own = `schema_version: 1
title: Build it
vars:
  out: build/log.txt
  port:
steps:
  - id: build
    command: |
      set -e
      make {{port}}
    output: out
  - id: look
    prompt: Look at {{port}}.
    context: [out]
    llm_as_judge: true
`

// The same steps in YAML and in JSON are the same plan.
func TestLoadBothSpellings(t *testing.T) {
	given := map[string]string{"port": "$& {{out}} \\1"}
	a := loads(t, "YAML", plan.LoadOptions{File: "ci/a.yml", Given: given}, "", "a.yml", own)
	b := loads(t, "JSON", plan.LoadOptions{File: "a.json", Given: given}, "", "a.json", `{"schema_version": 1, "title": "Build it", "vars": {"out": "build/log.txt", "port": null}, "steps": [
		{"id": "build", "command": "set -e\nmake {{port}}\n", "output": "out"}, {"id": "look", "prompt": "Look at {{port}}.", "context": ["out"], "llm_as_judge": true}]}`)
	if got, want := marshal(t, a.Plan("")), marshal(t, b.Plan("")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if a.Main != "a.yml" || a.Hash == b.Hash || !strings.HasPrefix(a.Hash, "sha256:") || a.Given["port"] != given["port"] {
		t.Errorf("got %+v", a)
	}
	if got := *a.Plan("").Vars["port"]; got != given["port"] {
		t.Errorf("got %q, want the value that was given", got)
	}
}

// The content of a file tells its format if its name does not.
func TestLoadByContent(t *testing.T) {
	const yaml = "schema_version: 1\ntitle: T\nsteps:\n  - id: a\n    command: ls\n"
	const json = `{"schema_version": 1, "title": "T", "steps": [{"id": "a", "command": "ls"}]}`
	for name, text := range map[string]string{"a.json": json, "a.yaml": json, "a": json, "b": yaml, "a.txt": strings.ReplaceAll(yaml, "\n", "\r\n"), "b.YAML": "\ufeff" + yaml} {
		loads(t, name, plan.LoadOptions{}, "", name, text)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"a.json", "{\n title: T}", "a.json:2:2: not valid JSON: "},
		{"a", "{\n \"title\": \"T\",}", "a:2:15: not valid JSON: "},
		{"a.json", yaml, "a.json:1:1: not valid JSON: "},
		{"a.json", "", "a.json:1: the file is empty"},
		{"a.yaml", "# nothing\n", "a.yaml:1: the file is empty"},
		{"a.yaml", "I can't help with that.", "a.yaml:1: must be an object, not a string"},
		{"a.yaml", "a: caf\xe9", "a.yaml:1: is not UTF-8 text"},
		{"a.yaml", strings.Repeat("#", plan.MaxBytes+1), "a.yaml:1: is larger than the 1 MB"},
	} {
		loads(t, tt.text[:min(len(tt.text), 20)], plan.LoadOptions{}, tt.want, tt.name, tt.text)
	}
}

// A file that does not exist, or may not be read, is named.
func TestLoadUnreadable(t *testing.T) {
	_, problems := plan.Load(plan.LoadOptions{File: "ci/gone.yaml", Read: (&disk{}).Read})
	same(t, "gone", lines(problems), "ci/gone.yaml: there is no such file")
	_, problems = plan.Load(plan.LoadOptions{File: "ci/x.yaml", Read: func(string) ([]byte, error) {
		return nil, fmt.Errorf("opening: %w", &fs.PathError{Op: "open", Path: "/secret/x.yaml", Err: fs.ErrPermission})
	}})
	same(t, "forbidden", lines(problems), "ci/x.yaml: reading it: permission denied")
	_, problems = plan.Load(plan.LoadOptions{File: "ci/x.yaml", Read: func(string) ([]byte, error) { return nil, errors.New("it leads out of the repository") }})
	same(t, "outside", lines(problems), "ci/x.yaml: reading it: it leads out of the repository")
}

// A var without a value has to be given one, and only declared vars can be given: this is checked before anything else.
func TestLoadGiven(t *testing.T) {
	doc := "schema_version: 1\ntitle: T\nvars:\n  a:\n  b: x\n  c: ~\n  dir: out\nsteps:\n  - {id: s, command: 'ls {{a}} {{b}} {{c}}', output: dir}\n"
	for _, tt := range []struct {
		name  string
		given map[string]string
		want  string
	}{
		{"all", map[string]string{"a": "1", "c": ""}, ""},
		{"more", map[string]string{"a": "1", "b": "2", "c": "3", "dir": "d"}, ""},
		{"missing", nil, "f.yaml:4: /vars/a: a has no value\nf.yaml:6: /vars/c: c has no value"},
		{"undeclared first", map[string]string{"bb": "1", "zzzz": "2"}, "f.yaml:3: /vars: --var bb: the file declares no such var\nf.yaml:3: /vars: --var zzzz: the file declares no such var"},
		{"not UTF-8", map[string]string{"a": "\xff", "c": ""}, "f.yaml:3: /vars: --var a: the value is not UTF-8 text"},
		{"a path that leads out", map[string]string{"a": "", "c": "", "dir": "../x"}, "f.yaml:9: /steps/0/output: step s: output names dir, whose value ../x leads out"},
	} {
		loads(t, tt.name, plan.LoadOptions{Given: tt.given}, tt.want, "f.yaml", doc)
	}
	_, problems := load(plan.LoadOptions{Given: map[string]string{"bb": "1", "zzzz": "2"}}, "f.yaml", doc)
	if problems[0].Hint != "did you mean b?" || problems[1].Hint != "name one of its vars: a, b, c, dir" {
		t.Errorf("got hints %q and %q", problems[0].Hint, problems[1].Hint)
	}
	_, problems = load(plan.LoadOptions{Given: map[string]string{"bb": "1"}}, "f.yaml", "schema_version: 1\ntitle: T\nsteps:\n  - {id: s, command: ls}\n")
	if problems[0].Hint != "leave out --var bb, or declare it under vars" {
		t.Errorf("got hint %q", problems[0].Hint)
	}
	_, problems = load(plan.LoadOptions{}, "f.yaml", doc)
	if problems[0].Hint != "give one with --var a=…" {
		t.Errorf("got hint %q", problems[0].Hint)
	}
}

// Files of these formats from other projects are loaded, or the problems say why not.
func TestLoadCorpus(t *testing.T) {
	dir := os.Getenv("TRELLIS_CORPUS")
	if dir == "" {
		t.Skip("TRELLIS_CORPUS does not name a folder with files of other projects")
	}
	sign := regexp.MustCompile(`(?m)^goal:|^\s*"(goal|tascs)":|^tascs:`)
	err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)) {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil || !sign.Match(data) {
			return err
		}
		b, problems := plan.Load(plan.LoadOptions{File: file, Read: func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(filepath.Dir(file), name)) }})
		if t.Log(lines(problems)); b == nil && len(problems) == 0 {
			t.Errorf("%s: no bundle and no reason", file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The plan of a task must have all values and a criterion; a file that is run needs neither, and has checks of its own.
func TestLoadForATask(t *testing.T) {
	const short = `{"schema_version": 1, "title": "T", "vars": {"a": null}, "steps": [{"id": "s", "command": "ls {{a}}"}]}`
	loads(t, "task", plan.LoadOptions{Task: true}, "plan.json:1: /vars/a: a has no value: a task's plan has to set every value\nplan.json:1: /acceptance: there is no criterion", "plan.json", short)
	loads(t, "run", plan.LoadOptions{Given: map[string]string{"a": "1"}}, "", "plan.json", short)
	f := plan.Facts{MaxSteps: 1, Missing: missing}
	loads(t, "facts", plan.LoadOptions{Task: true, Facts: f}, "plan.json:2: /steps: has 2 steps\nplan.json:4: /steps/1/verify: step b: `make`: the program make",
		"plan.json", doc("", step+",\n"+`{"id": "b", "prompt": "p", "verify": "make"}`))
	b := loads(t, "filled", plan.LoadOptions{Task: true}, "~plan.json:2: /vars/v: {{w}} in the value of a var stays as it is", "plan.json", strings.Replace(doc("\"vars\": {\"v\": \"$1 {{w}}\", \"w\": \"x\"},\n", step), `"it works"`, `"it works", "verify": "go test {{v}}"`, 1))
	if got := b.Plan("").Acceptance[0].Verify; got != "go test $1 {{w}}" {
		t.Errorf("got %q", got)
	}
}
