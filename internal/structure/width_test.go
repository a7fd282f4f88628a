package structure

import (
	"go/types"
	"slices"
	"strings"
	"testing"
)

// maxMethods is the largest number of methods that a type of the product may have: a type with more is several things.
const maxMethods = 40

func TestTypesAreNarrow(t *testing.T) {
	for _, p := range sourcesOf(t, "internal/...", "taskdir", "contextfiles", "specs", "templates", "agents") {
		if slices.Contains(testingPackages, strings.TrimPrefix(p.PkgPath, module)) {
			continue
		}
		for _, name := range p.Types.Scope().Names() {
			named, ok := p.Types.Scope().Lookup(name).Type().(*types.Named)
			if !ok || named.Obj().Pkg() != p.Types {
				continue
			}
			name, n := strings.TrimPrefix(p.PkgPath, module)+"."+name, named.NumMethods()
			if n > maxMethods {
				t.Errorf("%s has %d methods, more than %d", name, n, maxMethods)
			}
		}
	}
}
