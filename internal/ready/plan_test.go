package ready_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const planned = `{"schema_version": 1, "title": "Log in",
"files": [{"path": "main.go", "change": "edit"}, {"path": "login.go", "change": "new"}],
"steps": [
{"id": "add_login", "prompt": "Add it.", "verify": "go vet ./..."}],
"acceptance": [{"criterion": "one can log in"}]}`

// lookPath finds only the program go.
func lookPath(program string) error {
	if program == "go" {
		return nil
	}
	return errors.New("not found")
}

func TestCheckPlan(t *testing.T) {
	s, repo := repository(t)
	if err := os.Symlink(os.TempDir(), filepath.Join(s.Root, "out")); err != nil {
		t.Fatal(err)
	}
	change := func(old, to string) string { return strings.Replace(planned, old, to, 1) }
	after := `{"status": "ready", "pipeline": {"depends_on": ["01-01-first"]}}`
	task(t, s, "01-01-first", nil)
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"fine", map[string]string{"plan.json": planned}, ""},
		{"no JSON", map[string]string{"plan.json": "{\n\"title\": T}"}, `plan.json:2:10: not valid JSON: the value of "title" is not quoted`},
		{"empty", map[string]string{"plan.json": " "}, "plan.json:1: the file is empty"},
		{"too large", map[string]string{"plan.json": strings.Repeat(" ", plan.MaxBytes+1)}, "plan.json: is larger than the 1 MB"},
		{"of another tool", map[string]string{"plan.json": `{"goal": "G", "steps": []}`}, "plan.json:1: /steps: has 0 items"},
		{"unknown key", map[string]string{"plan.json": change(`"verify"`, `"verfy"`)}, `plan.json:4: /steps/0/verfy: is not a known key; did you mean "verify"?`},
		{"a check by code", map[string]string{"plan.json": change(`"go vet ./..."`, `"true"`)}, "plan.json:4: /steps/0/verify: step add_login: `true` can't fail"},
		{"a warning", map[string]string{"plan.json": change(`"verify": "go vet ./..."`, `"title": "x"`)}, "~plan.json:4: /steps/0: step add_login: nothing tells whether it was done"},
		{"no version", map[string]string{"plan.json": change(`"schema_version": 1, `, "")}, "~plan.json:1: schema_version is missing"},
		{"two globs in one text", map[string]string{"plan.json": change(`"schema_version": 1, `, `"schema_version": 1, "touches": ["api/**, docs/**"], `)}, "plan.json:1: /touches/0: is several globs, which have to be in a list"},
		{"a file that is gone", map[string]string{"plan.json": change("main.go", "gone.go")}, "plan.json:2: /files/0/path: gone.go does not exist"},
		{"a file outside by a link", map[string]string{"plan.json": change("main.go", "out/x")}, "plan.json:2: /files/0/path: looking for out/x: "},
		{"a program that is missing", map[string]string{"plan.json": change("go vet", "cargo test")}, "plan.json:4: /steps/0/verify: step add_login: `cargo test ./...`: the program cargo is not installed"},
		{"what another task is to bring", map[string]string{"task.json": after, "plan.json": change("main.go", "gone.go")}, ""},
		{"too many steps", map[string]string{"plan.json": change("\n{", "\n{\"id\": \"a\", \"message\": \"m\"}, {\"id\": \"b\", \"message\": \"m\"},\n{")}, "plan.json:3: /steps: has 3 steps"},
		{"not in planning either", map[string]string{"task.json": `{"status": "planning"}`, "plan.json": "{}"}, "~plan.json:1: schema_version is missing\nplan.json:1: /title: is missing\nplan.json:1: /steps: is missing"},
		{"over", map[string]string{"task.json": `{"status": "completed"}`, "plan.json": "{}"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := task(t, s, "02-01-auth", test.files)
			defer os.RemoveAll(dir)
			problems, err := ready.Check(t.Context(), ready.Input{Store: s, Dir: dir, Repo: repo, MaxSteps: 2, LookPath: lookPath})
			if err != nil {
				t.Fatal(err)
			}
			compare(t, dir, s, problems, test.want)
			if slices.ContainsFunc(problems, func(p trellis.Problem) bool { return p.Hint == "" }) {
				t.Errorf("no hint in %+v", problems)
			}
		})
	}
}

func TestCheckPlanThatIsNoFile(t *testing.T) {
	s, repo := repository(t)
	dir := task(t, s, "02-01-auth", nil)
	if err := os.Mkdir(filepath.Join(dir, "plan.json"), 0o777); err != nil {
		t.Fatal(err)
	}
	problems, err := ready.Check(t.Context(), ready.Input{Store: s, Dir: dir, Repo: repo})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, dir, s, problems, "plan.json: is a folder")
}
