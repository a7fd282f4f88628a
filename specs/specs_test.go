package specs_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/specs"
)

func write(t testing.TB, root, name, content string) {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestList(t *testing.T) {
	top := t.TempDir()
	root := filepath.Join(top, "repo")
	write(t, top, "secret.md", "# Secret\n")
	write(t, root, ".trellis/spec/backend/index.md", "---\ndescription: how the\n  server is written\nread_when: changing it\nglobs: [\"api/**\", go.mod]\n---\n# Backend\n")
	write(t, root, ".trellis/spec/backend/errors.md", "\ufeff---\r\nglobs: '*.{go,mod}, web/'\r\n--- \r\n\r\n# Errors \r\n")
	write(t, root, ".trellis/spec/plain.md", "text\n\n## Not this\n# Plain\n# Nor this\n")
	write(t, root, ".trellis/spec/rule.md", "---\nno end of it\n# Rule\n")
	write(t, root, ".trellis/spec/old.md", "---\npaths:\n  - docs/**\ntitle: x\n---\n")
	write(t, root, ".trellis/spec/notes.txt", "no page")
	write(t, root, ".trellis/spec/folder.md/x.md", "")
	if err := os.Symlink("../../../secret.md", filepath.Join(root, ".trellis/spec/out.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("plain.md", filepath.Join(root, ".trellis/spec/same.md")); err != nil {
		t.Fatal(err)
	}
	got, err := specs.List(root)
	want := []specs.Spec{
		{Path: ".trellis/spec/backend/errors.md", Description: "Errors", Globs: []string{"*.{go,mod}", "web/"}},
		{Path: ".trellis/spec/backend/index.md", Description: "how the server is written", ReadWhen: "changing it", Globs: []string{"api/**", "go.mod"}},
		{Path: ".trellis/spec/folder.md/x.md"},
		{Path: ".trellis/spec/old.md", Globs: []string{"docs/**"}},
		{Path: ".trellis/spec/plain.md", Description: "Plain"},
		{Path: ".trellis/spec/rule.md", Description: "Rule"},
		{Path: ".trellis/spec/same.md", Description: "Plain"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestListWithout(t *testing.T) {
	root := t.TempDir()
	if list, err := specs.List(root); err != nil || len(list) != 0 {
		t.Errorf("no .trellis/spec: got %v, %v", list, err)
	}
	if _, err := specs.List(filepath.Join(root, "none")); err == nil {
		t.Error("no repository: no error")
	}
}

func TestBadFrontMatter(t *testing.T) {
	for _, tt := range []struct{ front, want string }{
		{"globs: **/*.go\n", `p.md:2: front matter: did not find expected alphabetic or numeric character (a value that begins with * needs quotes)`},
		{"description: x\nread_when: a: b\n", "p.md:3: front matter: mapping values are not allowed in this context"},
		{"description: x\nread_when: [a]\n", "p.md:3: front matter: cannot unmarshal !!seq into string"},
		{"globs: {a: b}\n", "p.md:2: front matter: cannot unmarshal !!map into []string"},
		{"description: x\n\ndescription: y\n", `p.md:4: front matter: mapping key "description" already defined at line 2`},
		{"description: x\nglobs: ['a[']\n", `p.md:3: glob "a[" is not a pattern`},
		{"<<<<<<< HEAD\nglobs: [a]\n=======\nglobs: [b]\n>>>>>>> x\n", "p.md:2: git left a merge conflict here"},
		{"- a\n", "p.md:1: the front matter is not a list of keys and values"},
	} {
		root := t.TempDir()
		write(t, root, ".trellis/spec/p.md", "---\n"+tt.front+"---\n# Title\n")
		list, err := specs.List(root)
		if err != nil || len(list) != 1 || list[0].Problem == nil {
			t.Errorf("%q: got %+v, %v", tt.front, list, err)
			continue
		}
		p := list[0].Problem
		if got := strings.TrimPrefix(p.Error(), ".trellis/spec/"); got != tt.want || !p.Warning {
			t.Errorf("%q\n got %s\nwant %s", tt.front, got, tt.want)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		glob, path string
		want       bool
	}{
		{"internal/**", "internal/a/b.go", true},
		{"internal/**", "cmd/internal/b.go", false},
		{"internal/", "internal/a/b.go", true},
		{"internal/**", "internal/", true},
		{"**/*.go", "main.go", true},
		{"*.go", "a/b/main.go", true},
		{"go.mod", "tools/go.mod", true},
		{"./api/*.go", "api/x.go", true},
		{"/api/*.go", "./api/x.go", true},
		{"api/*.go", "api/v1/x.go", false},
		{"{api,web}/*.{go,ts}", "web/x.ts", true},
	} {
		if got := (specs.Spec{Globs: []string{"none", tt.glob}}).Matches(tt.path); got != tt.want {
			t.Errorf("%s about %s: got %v, want %v", tt.glob, tt.path, got, tt.want)
		}
	}
	if (specs.Spec{}).Matches("a") {
		t.Error("a page without globs matches")
	}
}

func TestParseRole(t *testing.T) {
	got, problem := specs.ParseRole("judge.md", trellis.Judge, []byte("---\nname: judge\ntools: [Read]\ndescription: strict\nagent: claude\nmodel: haiku\npermission: none\n---\n\nBe strict.\n"), nil)
	want := specs.Role{Description: "strict", Agent: "claude", Model: "haiku", Permission: trellis.PermitNone, Body: []byte("\nBe strict.\n")}
	if problem != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, problem, want)
	}
	got, problem = specs.ParseRole("judge.md", trellis.Judge, []byte("Just this."), nil)
	if problem != nil || string(got.Body) != "Just this." {
		t.Errorf("no front matter: got %+v, %v", got, problem)
	}
	got, problem = specs.ParseRole("judge.md", trellis.Judge, []byte("---\nmodel: haiku\n---\n\n"), nil)
	if problem != nil || got.Body != nil || got.Model != "haiku" {
		t.Errorf("no instructions: got %+v, %v", got, problem)
	}
}

// A role file with an error is refused, so that the role does not run with more permission than was meant.
func TestParseRoleRefuses(t *testing.T) {
	for _, tt := range []struct{ front, want string }{
		{"model: x\npermision: none\nzzz: 1", `judge.md:3: unknown key "permision" (known: description, agent, model, permission)`},
		{"tools:\n  - Read\npermision:\n  none", `judge.md:4: unknown key "permision" (known: description, agent, model, permission)`},
		{"model: x\npermission: everything", `judge.md:3: unknown permission "everything" (none, read, edit)`},
		{"permission: [none]", "judge.md:2: front matter: cannot unmarshal !!seq into trellis.Permission"},
		{"permission: none\npermission: edit", `judge.md:3: front matter: mapping key "permission" already defined at line 2`},
		{"model: x\npermission: # none", "judge.md:3: permission is empty (none, read, edit)"},
		{"permission: ''", "judge.md:2: permission is empty (none, read, edit)"},
		{"model: x\npermission: edit", "judge.md:3: permission edit is more than the role judge has (none): a role file can only narrow it"},
		{"model: x\nagent: cloude", `judge.md:3: there is no agent "cloude" (one of claude, codex)`},
		{"<<<<<<< HEAD\nmodel: x\n=======\nmodel: y\n>>>>>>> x", "judge.md:2: git left a merge conflict here"},
		{"model: x\n---\n<<<<<<< HEAD\n=======\nLook.\n>>>>>>> x\n", "judge.md:4: git left a merge conflict here"},
		{"model: x\n...", "judge.md:3: the front matter is not ended by ..."},
		{"\tpermission: none", "judge.md:2: front matter: found character that cannot start any token"},
	} {
		r, problem := specs.ParseRole("judge.md", trellis.Judge, []byte("---\n"+tt.front+"\n---\nDo it.\n"), []string{"claude", "codex"})
		if problem == nil || problem.Error() != tt.want || problem.Warning || r.Body != nil {
			t.Errorf("%q\n got %v %+v\nwant %s", tt.front, problem, r, tt.want)
		}
	}
}

// Front matter that is not recognized is an error, since the role would have every permission that it can have.
func TestParseRoleWithoutFrontMatter(t *testing.T) {
	for _, tt := range []struct{ page, want string }{
		{"---\npermission: none\nJust look.\n", "judge.md:1: the front matter has no end"},
		{"\n---\npermission: none\n---\nJust look.\n", "judge.md:2: this is not read as front matter"},
		{"permission: none\n---\nJust look.\n", "judge.md:1: permission is not read, since there is no line of three dashes above it"},
	} {
		r, problem := specs.ParseRole("judge.md", trellis.Judge, []byte(tt.page), nil)
		if problem == nil || problem.Error() != tt.want || problem.Warning || problem.Hint == "" || r.Body != nil {
			t.Errorf("%q\n got %v %+v\nwant %s", tt.page, problem, r, tt.want)
		}
	}
}

func FuzzParseRole(f *testing.F) {
	for _, s := range []string{"", "---", "---\n---", "---\na: &a [*a]\n---\n", "---\npermission: none\n---\nx", "---\n<<: {permission: full}\n---\n", "---\n? [a]\n: b\n---\n", "---\n\x00\n---"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, problem := specs.ParseRole("r.md", trellis.Implement, data, nil)
		if problem != nil && (problem.Line < 1 || problem.Message == "" || !reflect.DeepEqual(r, specs.Role{})) {
			t.Errorf("problem %+v, role %+v", problem, r)
		}
		if problem == nil && !strings.HasSuffix(string(data), string(r.Body)) {
			t.Errorf("instructions %q are not the end of %q", r.Body, data)
		}
	})
}
