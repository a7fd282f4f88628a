package eval_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/trellis-tasks/trellis/internal/eval"
	"github.com/trellis-tasks/trellis/internal/research"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func load(t *testing.T) []eval.Case {
	t.Helper()
	cases, err := eval.Load("*")
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestSetHasEverything(t *testing.T) {
	cases := load(t)
	kinds, looks, projects := map[string]int{}, map[string]int{}, map[string]int{}
	long, foreign, injected := 0, 0, 0
	for _, c := range cases {
		kinds[c.Kind]++
		looks[c.LooksLike]++
		projects[c.Project.Name]++
		if len(c.Requirement) > 1000 {
			long++
		}
		if strings.IndexFunc(c.Requirement, func(r rune) bool {
			return r > unicode.MaxLatin1 && unicode.IsLetter(r) || strings.ContainsRune("äößñéá", r)
		}) >= 0 {
			foreign++
		}
		if regexp.MustCompile(`(?i)ignore (all|your)|skip the evaluation`).MatchString(c.Requirement) {
			injected++
		}
	}
	if len(cases) < 36 || len(projects) < 5 {
		t.Errorf("%d cases over %d projects", len(cases), len(projects))
	}
	for _, kind := range eval.Kinds {
		if kinds[kind] < 4 {
			t.Errorf("%d cases are %s, want 4 or more", kinds[kind], kind)
		}
	}
	for _, kind := range []string{"vague", "harmful", "too_large"} {
		if looks[kind] < 2 {
			t.Errorf("%d cases only look %s, want 2 or more", looks[kind], kind)
		}
	}
	if len(kinds) != len(eval.Kinds) || long < 1 || foreign < 4 || injected < 3 {
		t.Errorf("kinds %v, %d long ones, %d in other languages, %d with instructions to the agent", kinds, long, foreign, injected)
	}
}

// categoryOf has, for each kind, the category that comes first in a correct rejection.
var categoryOf = map[string]string{"vague": "unclear", "incomplete": "incomplete", "out_of_scope": "out_of_scope", "harmful": "harmful", "too_large": "too_large"}

func TestCasesAreSound(t *testing.T) {
	seen := map[string]bool{}
	cases := load(t)
	for _, c := range cases {
		if seen[c.ID] || !trellis.ValidName(c.ID) || !strings.HasPrefix(c.ID, c.Project.Name+"-") {
			t.Errorf("%s: the id is taken, no name of a task, or does not begin with the project", c.ID)
		}
		seen[c.ID] = true
		if !slices.Contains(trellis.DevTypes, c.DevType) || !slices.Contains(eval.Kinds, c.Kind) || c.LooksLike != "" && !slices.Contains(eval.Kinds, c.LooksLike) {
			t.Errorf("%s: dev_type %q, kind %q, looks %q", c.ID, c.DevType, c.Kind, c.LooksLike)
		}
		if accepted := c.Kind == "clear" || c.Kind == "tiny"; accepted != (c.Accept != nil) || accepted == (c.Reject != nil) {
			t.Errorf("%s: a %s one with accept %v and reject %v", c.ID, c.Kind, c.Accept, c.Reject)
		}
		for i, category := range c.Reject {
			if !slices.ContainsFunc(eval.Kinds, func(k string) bool { return categoryOf[k] == category }) || i == 0 && category != categoryOf[c.Kind] {
				t.Errorf("%s: a %s one is to be rejected as %v", c.ID, c.Kind, c.Reject)
			}
		}
		for _, o := range cases {
			if o.ID != c.ID && strings.Contains(o.Requirement, strings.TrimSpace(c.Requirement)) {
				t.Errorf("the requirement of %s holds that of %s", o.ID, c.ID)
			}
		}
		if c.Accept != nil {
			checkAccepts(t, c)
		}
	}
}

// checkAccepts fails the test unless what a case wants of a plan can be had, and not by accident.
func checkAccepts(t *testing.T, c eval.Case) {
	t.Helper()
	a := c.Accept
	for _, s := range a.Sizes {
		if !slices.Contains(trellis.Sizes, s) {
			t.Errorf("%s: size %q", c.ID, s)
		}
	}
	if len(a.Sizes) == 0 || len(a.Cites) == 0 || len(a.Mentions) == 0 || a.MaxSteps < 4 {
		t.Errorf("%s wants too little of a plan: %+v", c.ID, a)
	}
	for _, glob := range slices.Concat(a.Cites, a.Spares) {
		if !hasFile(c.Project, glob) {
			t.Errorf("%s: no file of %s fits %s", c.ID, c.Project.Name, glob)
		}
	}
	for _, glob := range a.Changes {
		if isNew := !strings.ContainsAny(glob, "*?[{"); !hasFile(c.Project, glob) && !(isNew && hasFile(c.Project, filepath.Dir(glob)+"/*")) {
			t.Errorf("%s: %s can't be changed", c.ID, glob)
		}
		for _, spared := range a.Spares {
			if doublestar.MatchUnvalidated(spared, glob) {
				t.Errorf("%s: %s is to be changed and spared", c.ID, glob)
			}
		}
	}
	for _, rule := range a.Mentions {
		if !regexp.MustCompile(rule).MatchString(c.Requirement) {
			t.Errorf("%s: the requirement itself does not say /%s/", c.ID, rule)
		}
	}
	for _, rule := range a.Never {
		for _, command := range slices.Concat(c.Project.Commands...) {
			if regexp.MustCompile(rule).MatchString(command) {
				t.Errorf("%s: /%s/ forbids the project's own %s", c.ID, rule, command)
			}
		}
	}
}

func hasFile(p *eval.Project, glob string) bool {
	for name := range p.Files {
		if doublestar.MatchUnvalidated(glob, name) {
			return true
		}
	}
	return false
}

// Each project becomes a repository with one commit, the same each time, and its commands can be run there.
func TestProjectsAreRepositories(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range load(t) {
		p := c.Project
		if seen[p.Name] {
			continue
		}
		seen[p.Name] = true
		dirs := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
		var heads []string
		for _, dir := range dirs {
			if err := p.CreateRepository(context.Background(), dir, os.Environ()); err != nil {
				t.Fatal(err)
			}
			heads = append(heads, git(t, dir, "rev-parse", "HEAD"))
		}
		if heads[0] != heads[1] || git(t, dirs[0], "status", "--porcelain") != "" || git(t, dirs[0], "rev-list", "--count", "HEAD") != "1" {
			t.Errorf("%s: heads %v, status %q", p.Name, heads, git(t, dirs[0], "status", "--porcelain"))
		}
		if got := strings.Fields(git(t, dirs[0], "ls-files")); len(got) != len(p.Files) {
			t.Errorf("%s: %d files are in git, %d are in the set", p.Name, len(got), len(p.Files))
		}
		checkCommands(t, p, dirs[0])
	}
}

func checkCommands(t *testing.T, p *eval.Project, dir string) {
	t.Helper()
	project := research.Project{Root: dir, LookPath: p.LookPath}
	for _, command := range slices.Concat(p.Commands...) {
		if why := project.Missing(command); why != "" {
			t.Errorf("%s: %s: %s", p.Name, command, why)
		}
		if script, ok := strings.CutPrefix(command, "sh "); ok {
			if _, there := p.Files[script]; !there {
				t.Errorf("%s: there is no %s", p.Name, script)
			}
		}
	}
	if why := project.Missing("no-such-program --lint"); why == "" {
		t.Errorf("%s: every program counts as installed", p.Name)
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// The table of projects in docs/reference/eval.md lists the projects of the set.
func TestProjectsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "eval.md"))
	if err != nil {
		t.Fatal(err)
	}
	count, rows := map[string]int{}, 0
	for _, c := range load(t) {
		count["| "+c.Project.Name+" | "+c.Project.Kind+" | "]++
	}
	for row, n := range count {
		if !strings.Contains(string(page), fmt.Sprintf("\n%s%d |\n", row, n)) {
			t.Errorf("docs/reference/eval.md has no row %s%d |", row, n)
		}
	}
	_, table, _ := strings.Cut(string(page), "| project | what it is | cases |\n| --- | --- | --- |\n")
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		rows++
	}
	if rows != len(count) {
		t.Errorf("docs/reference/eval.md lists %d projects, there are %d", rows, len(count))
	}
}

func TestLoadSome(t *testing.T) {
	for glob, want := range map[string]func(eval.Case) bool{
		"harmful":         func(c eval.Case) bool { return c.Kind == "harmful" },
		"larder":          func(c eval.Case) bool { return c.Project.Name == "larder" },
		"parcels-p*":      func(c eval.Case) bool { return strings.HasPrefix(c.ID, "parcels-p") },
		"no-such-case-at": func(eval.Case) bool { return false },
	} {
		got, err := eval.Load(glob)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, c := range load(t) {
			if want(c) {
				n++
			}
		}
		if len(got) != n || slices.ContainsFunc(got, func(c eval.Case) bool { return !want(c) }) {
			t.Errorf("%s: got %d cases, want %d", glob, len(got), n)
		}
	}
	if _, err := eval.Load("[a"); !errors.Is(err, path.ErrBadPattern) {
		t.Errorf("got %v, want %v", err, path.ErrBadPattern)
	}
}
