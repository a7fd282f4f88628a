package ready_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// repository returns a repository with one commit of main.go and docs/guide.md. Its guidelines are not committed.
func repository(t *testing.T) (taskdir.Store, *git.Repo) {
	t.Helper()
	root := t.TempDir()
	write(t, root, "main.go", "package main\n")
	write(t, root, "docs/guide.md", "# Guide\n")
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "first"}} {
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write(t, root, ".trellis/spec/style.md", "# Style\n")
	write(t, root, ".trellis/spec/torn/a.md", "# Torn\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n")
	repo, err := git.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return taskdir.Store{Root: repo.Main}, repo
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// task writes the files of a ready task. files replaces some of them; "" leaves a file out.
func task(t *testing.T, s taskdir.Store, id string, files map[string]string) string {
	t.Helper()
	all := map[string]string{
		"task.json":       `{"status": "ready"}`,
		"prd.md":          "# Log in\n\n## Acceptance Criteria\n\n- [ ] it does\n",
		"implement.jsonl": `{"file": "main.go", "reason": "to change"}` + "\n",
		"check.jsonl":     `{"file": ".trellis/spec/style.md", "reason": "to follow"}` + "\n",
		"debug.jsonl":     `{"file": "docs/", "type": "directory", "reason": "to know"}` + "\n",
	}
	for name, text := range files {
		all[name] = text
	}
	dir := filepath.Join(s.Tasks(), id)
	for name, text := range all {
		if text != "" {
			write(t, dir, name, text)
		}
	}
	return dir
}

func TestCheck(t *testing.T) {
	s, repo := repository(t)
	task(t, s, "01-01-old", map[string]string{"task.json": `{"status": "review", "branch": "feature/taken"}`})
	task(t, s, "01-02-broken", map[string]string{"task.json": `{`})
	task(t, s, "archive/2026-01/01-03-archived", nil)
	task(t, s, "01-04-circle", map[string]string{"task.json": `{"pipeline": {"depends_on": ["02-01-auth"]}}`})
	const conflict = "<<<<<<< HEAD\n=======\n>>>>>>> x\n"
	packages := &config.Config{Packages: map[string]config.Package{"web": {Path: "web"}}}
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string // the problems, one per line; warnings begin with ~
	}{
		{"all is well", nil, ""},
		{"only what must be", map[string]string{"debug.jsonl": ""}, "~debug.jsonl: there is no debug.jsonl"},
		{"no prd", map[string]string{"prd.md": ""}, "prd.md: there is no prd.md"},
		{"blank prd", map[string]string{"prd.md": "\ufeff \n\t\n"}, "prd.md: is blank"},
		{"criteria that can't be read (edge C1)", map[string]string{"prd.md": "# T\n\n### Acceptance (evolving)\n\n- a\n  verify: `x` says 3\n- TBD\n"},
			"prd.md:6: this verify line names no clear command: it is read as one command, or as several in code with nothing but \"and\" between them\nprd.md:7: an acceptance criterion that says nothing yet: \"TBD\""},
		{"too many criteria (edge C1)", map[string]string{"prd.md": "# T\n\n## Acceptance\n" + strings.Repeat("- it is so\n", 1000)}, "prd.md: the 1000 acceptance criteria are 30000 bytes long, at most 16384 are taken"},
		{"no criteria (edge C1)", map[string]string{"prd.md": "# T\n\nIt works.\n"}, "~prd.md: names no acceptance criteria: the work is judged by one, that prd.md is met"},
		{"an empty section (edge C1)", map[string]string{"prd.md": "# T\n\n## Done when\n"}, "~prd.md:3: there is no acceptance criterion under this heading"},
		{"criteria in plan.json (edge C1)", map[string]string{"prd.md": "# T\n\nIt works.\n", "plan.json": `{"schema_version": 1, "title": "T", "steps": [{"id": "a", "title": "A", "prompt": "Do it."}], "acceptance": [{"criterion": "it works"}]}`}, "~plan.json:1: /steps/0: step a: nothing tells whether it was done"},
		{"taskspec.json is not valid JSON (edge C6)", map[string]string{"taskspec.json": "{\n  \"user_intent\": \"x\",\n}"}, "taskspec.json:3:1: not valid JSON: there is a comma before the '}'"},
		{"taskspec.json against its schema (edge C6)", map[string]string{"taskspec.json": "{\n  \"user_intent\": \"x\",\n  \"goals\": \"y\",\n  \"gaols\": []\n}"}, "taskspec.json:3: \ntaskspec.json:4: "},
		{"taskspec.json of a task in progress (edge C6)", map[string]string{"taskspec.json": "{", "task.json": `{"status": "in_progress"}`}, "~taskspec.json:1:2: "},
		{"a depends_on beside pipeline", map[string]string{"task.json": "{\"status\": \"ready\",\n \"depends_on\": [\"02-02-other\"]}"},
			`task.json:2:2: "depends_on" belongs in "pipeline": nothing reads it here`},
		{"a depends_on in other words", map[string]string{"task.json": "{\"status\": \"ready\",\n \"pipeline\": {\"dependsOn\": [\"02-02-other\"]}}"},
			`task.json:2:15: "dependsOn" is not a field: did you mean: depends_on`},
		{"a good taskspec.json", map[string]string{"taskspec.json": `{"user_intent": "x"}`}, ""},
		{"prd in another encoding", map[string]string{"prd.md": "caf\xe9"}, "prd.md:1: is not UTF-8 text"},
		{"prd with NUL bytes", map[string]string{"prd.md": "# Say\nh\x00i\x00"}, "prd.md:2: is not UTF-8 text"},
		{"design in another encoding", map[string]string{"design.md": "\xff\xfea\x00", "info.md": "# How\n\ncaf\xe9"}, "info.md:3: is not UTF-8 text\ndesign.md:1: is not UTF-8 text"},
		{"merge conflicts in what agents are shown", map[string]string{"info.md": "# How\n" + conflict, "design.md": "```\n" + conflict + "```\n", "check.jsonl": "<<<<<<< HEAD\n{\"file\": \"main.go\"}\n||||||| 1\n=======\n>>>>>>> x\n"},
			"info.md:2: git left a merge conflict here\n~design.md:2: there is a merge conflict here, in code\n" +
				"check.jsonl:1: git left a merge conflict here\ncheck.jsonl:3: git left a merge conflict here\ncheck.jsonl:4: git left a merge conflict here\ncheck.jsonl:5: git left a merge conflict here"},
		{"merge conflicts in guidelines", map[string]string{"check.jsonl": `{"file": ".trellis/spec/torn/", "type": "directory"}`, "implement.jsonl": `{"file": ".trellis/spec/torn/a.md"}`},
			"~.trellis/spec/torn/a.md:2: git left a merge conflict here"},
		{"a merge conflict of what people said", map[string]string{"approvals.jsonl": conflict},
			"approvals.jsonl:1: git left a merge conflict here\napprovals.jsonl:2: git left a merge conflict here\napprovals.jsonl:3: git left a merge conflict here"},
		{"no context", map[string]string{"implement.jsonl": "", "check.jsonl": ""}, "implement.jsonl: there is no implement.jsonl\ncheck.jsonl: there is no check.jsonl"},
		{"only the seed", map[string]string{"check.jsonl": `{"_example": "put a file here"}`}, "check.jsonl: names no file yet"},
		{"an empty debug file", map[string]string{"debug.jsonl": "\n"}, ""},
		{"a path that is gone", map[string]string{"implement.jsonl": `{"file": "main.go"}` + "\n" + `{"file": "gone.go"}`}, "implement.jsonl:2: gone.go does not exist"},
		{"a torn line", map[string]string{"check.jsonl": `{"file": "main.go"}` + "\n" + `{"file": `}, "check.jsonl:2:9: not one whole JSON object: unexpected end of JSON input"},
		{"folders in the place of context files", map[string]string{"implement.jsonl": "", "implement.jsonl/x": "y", "debug.jsonl": "", "debug.jsonl/x": "y"},
			"implement.jsonl: is a folder, not a file\ndebug.jsonl: is a folder, not a file"},
		{"another context file", map[string]string{"extra.jsonl": `{"file": "../x"}`}, "extra.jsonl:1: ../x: has .. in it: write it from the top of the repository"},
		{"not committed", map[string]string{"implement.jsonl": `{"file": "new.go"}`}, "~implement.jsonl:1: new.go is not in the base commit: commit it, the worktree won't have it"},
		{"a no that nobody could read", map[string]string{"approvals.jsonl": `{"decision": "approve", "by": "ann"}` + "\n" + `{"decision": "rejected", "by": "bob"}` + "\n" + `{"decision": "reject", "by": "bob",}`},
			`approvals.jsonl:2: the decision is "rejected", it must be "approve" or "reject"` + "\napprovals.jsonl:3: not a decision: "},
		{"a decision about nothing", map[string]string{"approvals.jsonl": `{"step": "plan", "decision": "reject", "by": "bob"}`}, "~approvals.jsonl:1: is about a step plan, which plan.json does not have"},
		{"decisions about what was", map[string]string{"approvals.jsonl": `{"step": "old.1", "decision": "reject", "by": "bob", "hash": "sha256:1"}`}, ""},
		{"an unknown status", map[string]string{"task.json": `{"status": "soon"}`}, "task.json:1:12: unknown status"},
		{"no JSON", map[string]string{"task.json": "{\n \"status\" \"ready\"}"}, "task.json:2:"},
		{"a bad branch", map[string]string{"task.json": `{"status": "ready", "branch": "-x"}`}, `task.json:1: branch name "-x" begins with -`},
		{"a bad base", map[string]string{"task.json": `{"status": "ready", "base_branch": "a..b"}`}, "~task.json:1: reading the base of the work: \n" + `task.json:1: branch name "a..b" contains ..`},
		{"a free branch", map[string]string{"task.json": `{"status": "ready", "branch": "feature/free"}`}, ""},
		{"a taken branch", map[string]string{"task.json": `{"status": "ready", "branch": "feature/taken"}`}, "task.json:1: branch feature/taken belongs to task 01-01-old"},
		{"good dependencies", map[string]string{"task.json": `{"status": "ready", "pipeline": {"depends_on": ["01-01-old", "01-02-broken", "01-03-archived"]}}`}, ""},
		{"an unknown dependency", map[string]string{"task.json": `{"status": "ready", "pipeline": {"depends_on": ["old"]}}`}, `task.json:1: depends on "old", which is not a task's directory name`},
		{"a text for dependencies", map[string]string{"task.json": "{\"status\": \"ready\",\n \"pipeline\": {\n\"depends_on\": \"old\"}}"}, `task.json:3: depends on "old", which is not a task's directory name`},
		{"a dependency that climbs", map[string]string{"task.json": `{"status": "ready", "pipeline": {"depends_on": ["../tasks/01-01-old"]}}`}, "task.json"},
		{"itself", map[string]string{"task.json": `{"status": "ready", "pipeline": {"depends_on": ["02-01-auth"]}}`}, "task.json:1: depends on itself: 02-01-auth → 02-01-auth"},
		{"a cycle", map[string]string{"task.json": `{"status": "ready", "pipeline": {"depends_on": ["01-04-circle"]}}`}, "task.json:1: depends on itself: 02-01-auth → 01-04-circle → 02-01-auth"},
		{"an unknown package", map[string]string{"task.json": "{\"status\": \"ready\",\n \"package\": \"wbe\"}"}, `task.json:2: there is no package "wbe" (did you mean web?)`},
		{"no commands", map[string]string{"task.json": "{\"status\": \"ready\", \"pipeline\": {\"verify\": [\"true\",\n \" \"]}}"}, "task.json:2: pipeline.verify[2] is empty"},
		{"no command in a text", map[string]string{"task.json": `{"status": "ready", "pipeline": {"verify": ""}}`}, "task.json:1: pipeline.verify[1] is empty"},
		{"what protects nothing", map[string]string{"task.json": `{"status": "ready", "pipeline": {"protected": ["docs/**", "[a", "", "a{b"]}}`},
			"task.json:1: pipeline.protected[2] is not a glob: \"[a\"\ntask.json:1: pipeline.protected[3] is not a glob: \"\"\ntask.json:1: pipeline.protected[4] is not a glob: \"a{b\""},
		{"what touches nothing", map[string]string{"task.json": "{\"status\": \"ready\", \"pipeline\": {\"touches\": [\"docs/**\",\n \"../x\"]}}"}, `task.json:2: pipeline.touches[2] has .. in it, which no path has: "../x"`},
		{"a file that looks like no glob is protected", map[string]string{"task.json": `{"status": "ready", "pipeline": {"protected": ["app/[id.ts"]}}`}, ""},
		{"what a run has taken over", map[string]string{"task.json": `{"status": "in_progress", "package": "wbe", "pipeline": {"verify": [""], "protected": ["[a"]}}`}, ""},
		{"planning lacks files", map[string]string{"task.json": `{"status": "planning"}`, "prd.md": "", "implement.jsonl": "", "check.jsonl": ""},
			"~prd.md: there is no prd.md\n~implement.jsonl: there is no implement.jsonl\n~check.jsonl: there is no check.jsonl"},
		{"over", map[string]string{"task.json": `{"status": "review"}`, "prd.md": "", "implement.jsonl": "", "check.jsonl": "{"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			write(t, s.Root, "new.go", "package main\n")
			write(t, s.Root, "app/[id.ts", "\n")
			dir := task(t, s, "02-01-auth", test.files)
			defer os.RemoveAll(dir)
			problems, err := ready.Check(t.Context(), ready.Input{Store: s, Dir: dir, Repo: repo, CheckPackage: packages.CheckPackage})
			if err != nil {
				t.Fatal(err)
			}
			compare(t, dir, s, problems, test.want)
		})
	}
}

// compare checks that the problems begin with the lines of want, in order, and that each error without a line has a hint.
func compare(t *testing.T, dir string, s taskdir.Store, problems []trellis.Problem, want string) {
	t.Helper()
	var got []string
	for _, p := range problems {
		p.File = strings.TrimPrefix(p.File, s.Rel(dir)+"/")
		line := p.Error()
		if p.Warning {
			line = "~" + line
		}
		if p.Hint == "" && !p.Warning && p.Line == 0 {
			t.Errorf("%s: no hint", line)
		}
		got = append(got, line)
	}
	lines := strings.Split(want, "\n")
	if want == "" {
		lines = nil
	}
	if len(got) != len(lines) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	for i := range got {
		if !strings.HasPrefix(got[i], lines[i]) {
			t.Errorf("got %s, want %s", got[i], lines[i])
		}
	}
}

// Of two tasks that name the same branch, only the later one may not run.
func TestBranchHasOneOwner(t *testing.T) {
	s, repo := repository(t)
	same := map[string]string{"task.json": `{"status": "ready", "branch": "feature/same"}`}
	first, second := task(t, s, "02-01-first", same), task(t, s, "02-02-second", same)
	for dir, want := range map[string]int{first: 0, second: 1} {
		problems, err := ready.Check(t.Context(), ready.Input{Store: s, Dir: dir, Repo: repo})
		if err != nil || len(problems) != want {
			t.Errorf("%s: got %v, %v, want %d problems", filepath.Base(dir), problems, err, want)
		}
	}
}

// A draft is checked as the ready task that it will become.
func TestCheckDraft(t *testing.T) {
	s, repo := repository(t)
	dir := task(t, s, ".new-02-01-auth", map[string]string{"task.json": `{"status": "planning", "branch": "feature/auth"}`, "check.jsonl": ""})
	for file, next := range map[string]string{"notes": "trellis task add-context 02-01-auth check PATH REASON", "README.md": "trellis task init-context 02-01-auth fullstack"} {
		if err := os.WriteFile(filepath.Join(s.Root, file), []byte("# Notes\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		problems, err := ready.Check(t.Context(), ready.Input{Store: s, Dir: dir, Repo: repo, As: "02-01-auth", Status: trellis.Ready})
		if err != nil {
			t.Fatal(err)
		}
		if len(problems) != 1 || problems[0].Warning || problems[0].Hint != next {
			t.Errorf("with %s: got %+v, want the missing check.jsonl as an error, next %s", file, problems, next)
		}
		if err := os.Remove(filepath.Join(s.Root, file)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheckNothing(t *testing.T) {
	s, repo := repository(t)
	_, err := ready.Check(t.Context(), ready.Input{Store: s, Dir: filepath.Join(s.Tasks(), "02-01-auth"), Repo: repo})
	if !errors.Is(err, taskdir.ErrNotFound) {
		t.Errorf("got %v, want %v", err, taskdir.ErrNotFound)
	}
}
