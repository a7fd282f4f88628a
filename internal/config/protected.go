package config

import (
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// freed are the paths below .trellis that a task may change although .trellis is protected.
var freed = []string{".trellis/spec/", ".trellis/tasks/", ".trellis/.runtime/", ".trellis/.current-task"}

// ValidGlob reports whether something can match a glob of `protected`.
func ValidGlob(glob string) bool { return glob != "" && doublestar.ValidatePattern(glob) }

// Protects reports whether a slash-separated path of the repository falls under globs of `protected`: one that
// matches it, is it, or is a folder above it. A glob begins at the top of the repository, also with a / or ./ before it.
func Protects(globs []string, path string) bool {
	for _, g := range globs {
		g = strings.TrimPrefix(strings.TrimPrefix(g, "./"), "/")
		if strings.HasPrefix(g, ".trellis/") && slices.ContainsFunc(freed, func(f string) bool { return strings.HasPrefix(path, f) }) {
			continue
		}
		if ok, err := doublestar.Match(g, path); err == nil && ok || g == path || strings.HasPrefix(path, strings.TrimSuffix(g, "/")+"/") {
			return true
		}
	}
	return false
}
