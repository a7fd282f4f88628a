package structure

import (
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/packages"
)

// sourceCode loads the packages that tests of the source inspect, with types, once for all tests.
var sourceCode = sync.OnceValues(func() ([]*packages.Package, error) {
	// imports are compiled with the same settings as for the program that other tests build, and so only once
	return packages.Load(&packages.Config{Mode: packages.LoadSyntax, BuildFlags: []string{"-tags=urfave_cli_no_docs"}, Env: append(os.Environ(), "CGO_ENABLED=0")},
		"./testdata/impure", "../../internal/...", "../../taskdir", "../../contextfiles", "../../specs", "../../templates", "../../agents")
})

// sourcesOf returns the packages of the module with these paths; a path that ends with "/..." stands for those below it.
func sourcesOf(t *testing.T, paths ...string) (list []*packages.Package) {
	t.Helper()
	all, err := sourceCode()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		before := len(list)
		for _, p := range all {
			name := strings.TrimPrefix(p.PkgPath, module)
			if below, ok := strings.CutSuffix(path, "..."); name != path && !(ok && strings.HasPrefix(name, below) && !strings.Contains(name, "/testdata/")) {
				continue
			}
			if len(p.Errors) > 0 {
				t.Fatalf("loading %s: %v", p.PkgPath, p.Errors)
			}
			list = append(list, p)
		}
		if len(list) == before {
			t.Fatalf("there is no package %s", path)
		}
	}
	return list
}
