package structure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every promise names at least one test, and each of these tests exists.
func TestGuaranteesAreTested(t *testing.T) {
	if rows := testedRows(t, "docs/internals/guarantees.md", "| you can rely on | how | shown by |"); rows < 20 {
		t.Errorf("only %d promises were found", rows)
	}
}

// The same for every flaw of the multi-agent pipeline of 0.4.
func TestFlawsAreTested(t *testing.T) {
	if rows := testedRows(t, "docs/reference/migrating.md", "| in 0.4 | here | shown by |"); rows != 18 {
		t.Errorf("%d flaws were found, want 18", rows)
	}
}

// The same for every edge.
func TestEdgesAreTested(t *testing.T) {
	if rows := testedRows(t, "docs/internals/edges.md", "| edge | what holds now | shown by |"); rows < 50 {
		t.Errorf("only %d edges were found", rows)
	}
}

// testedRows counts the rows of a table of three columns, the last of which names tests. Each test has to exist.
func testedRows(t *testing.T, page, head string) (rows int) {
	t.Helper()
	named := regexp.MustCompile("`go test (\\./[a-z0-9/]+) -run ((?:Test|Fuzz)[A-Za-z0-9]+)(?:/([a-z_]+))?`")
	text, err := os.ReadFile(filepath.Join(repository(t), page))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), head+"\n| --- | --- | --- |\n")
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		rows++
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 {
			t.Errorf("%d cells in %s", len(cells), line)
			continue
		}
		tests := named.FindAllStringSubmatch(cells[2], -1)
		if len(tests) == 0 || len(tests) != strings.Count(cells[2], "`")/2 {
			t.Errorf("%d tests can be read in %s", len(tests), cells[2])
		}
		for _, m := range tests {
			if test := testsOf(t, m[1])[m[2]]; test == nil {
				t.Errorf("there is no %s in %s", m[2], m[1])
			} else if likeOf(test) != "" {
				t.Errorf("%s of %s shows what is promised in a soak alone", m[2], m[1])
			}
			if script := filepath.Join(repository(t), m[1], "testdata", m[3]+".txtar"); m[3] != "" {
				if _, err := os.Stat(script); err != nil {
					t.Error(err)
				}
			}
		}
	}
	return rows
}

// Each test that is left to a soak has a counterpart that runs with `make test`.
func TestSoaksHaveTheirLike(t *testing.T) {
	left := 0
	for dir, in := range readImports(t, repository(t)) {
		if !in.tests["internal/soak"] {
			continue
		}
		tests := testsOf(t, dir)
		for name, test := range tests {
			like := likeOf(test)
			if like == "" {
				continue
			}
			left++
			if of := tests[like]; of == nil || likeOf(of) != "" || !strings.HasPrefix(like, "Test") {
				t.Errorf("%s of %s has its like in %s, which does not run with make test", name, dir, like)
			}
		}
	}
	if left == 0 {
		t.Error("no test was found that is left to a soak")
	}
}

// likeOf returns the name of the counterpart of a test that is left to a soak, or "" for any other test.
func likeOf(test *ast.FuncDecl) (like string) {
	ast.Inspect(test.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || types.ExprString(call.Fun) != "soak.Only" {
			return true
		}
		if like = "what is not written there"; len(call.Args) == 2 {
			if name, ok := call.Args[1].(*ast.BasicLit); ok {
				like = strings.Trim(name.Value, `"`)
			}
		}
		return false
	})
	return like
}

// tested caches the tests of packages, by folder.
var tested = map[string]map[string]*ast.FuncDecl{}

// testsOf returns the tests of a package, for all operating systems.
func testsOf(t *testing.T, dir string) map[string]*ast.FuncDecl {
	t.Helper()
	if found := tested[dir]; found != nil {
		return found
	}
	found := map[string]*ast.FuncDecl{}
	tested[dir] = found
	files, err := filepath.Glob(filepath.Join(repository(t), dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				found[f.Name.Name] = f
			}
		}
	}
	return found
}
