package structure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Limits of a walk in docs/internals/architecture.md: how many files it names, and how often it returns to a file that it has left.
const (
	walkFiles   = 30
	walkReturns = 3
)

var (
	codeFile  = regexp.MustCompile("^`((?:[a-z]+/)+[a-z_0-9]+\\.go)`$")
	codeName  = regexp.MustCompile("^`([A-Za-z][A-Za-z0-9]*(?:\\.[A-Za-z][A-Za-z0-9]*)?)`$")
	numbered  = regexp.MustCompile(`^\d+\.`)
	walkStep  = regexp.MustCompile(`^(\d+)\. (.*?): .{5,}`)
	tickedRun = regexp.MustCompile("`[^`]+`")
)

// docs/internals/architecture.md is true of the code: each file that it names exists and declares the names that follow it up to
// the end of the sentence part, and each walk is short and hardly goes back and forth.
func TestArchitectureIsTheCode(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository(t), "docs/internals/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n >= 200 {
		t.Errorf("the page has %d lines, want under 200", n)
	}
	walks := 0
	for _, part := range strings.Split(string(text), "\n## ") {
		head, _, _ := strings.Cut(part, "\n")
		var files []string
		for line := range strings.Lines(part) {
			if strings.HasPrefix(line, "| ") {
				for _, cell := range strings.Split(line, " | ") {
					declared(t, cell)
				}
				continue
			}
			if step := walkStep.FindStringSubmatch(line); step != nil {
				files = append(files, declared(t, step[2])...)
			} else if numbered.MatchString(line) {
				t.Errorf("this is not a step of a walk: %s", line)
			}
		}
		if len(files) > 0 {
			walks++
			walk(t, head, files)
		}
	}
	if walks != 3 {
		t.Errorf("%d walks were found, want 3", walks)
	}
}

// walk counts the files of a walk, and how often it returns to one.
func walk(t *testing.T, head string, files []string) {
	t.Helper()
	files = slices.Compact(files)
	var seen, again []string
	for _, f := range files {
		if slices.Contains(seen, f) {
			again = append(again, f)
		} else {
			seen = append(seen, f)
		}
	}
	if len(seen) > walkFiles || len(seen) < 8 {
		t.Errorf("%s: one reads %d files, want at most %d", head, len(seen), walkFiles)
	}
	if len(again) > walkReturns {
		t.Errorf("%s: one comes back to %q, want at most %d times", head, again, walkReturns)
	}
}

// declared returns the files that a text names, and fails for a name behind one that the file does not declare.
func declared(t *testing.T, text string) (files []string) {
	t.Helper()
	file := ""
	for _, word := range tickedRun.FindAllString(text, -1) {
		if m := codeFile.FindStringSubmatch(word); m != nil {
			file = m[1]
			files = append(files, file)
			if _, err := os.Stat(filepath.Join(repository(t), file)); err != nil {
				t.Errorf("docs/internals/architecture.md: there is no %s", file)
			}
			continue
		}
		if m := codeName.FindStringSubmatch(word); m != nil && file != "" && !slices.Contains(declarations(t, file), m[1]) {
			t.Errorf("docs/internals/architecture.md: %s does not declare %s", file, m[1])
		}
	}
	return files
}

// declarations returns what a file declares at its top level: Name, and Type.Method.
func declarations(t *testing.T, file string) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repository(t), file), nil, parser.SkipObjectResolution)
	if err != nil {
		return nil // the file was reported already
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			names = append(names, name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
