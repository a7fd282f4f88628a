package config

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// unprotected are the paths below .trellis that a task may change although .trellis is protected.
var unprotected = []string{".trellis/spec/", ".trellis/tasks/", ".trellis/.runtime/", ".trellis/.current-task"}

// GlobFault returns why no path of the repository at root matches a glob of `protected` or
// `touches`, or "" if one may. The name of an existing file is not a fault.
func GlobFault(root, glob string) string {
	fault := ""
	switch {
	case glob == "":
		fault = "is not a glob"
	case slices.Contains(strings.Split(glob, "/"), ".."):
		fault = "has .. in it, which no path has"
	case exists(root, glob):
	case !doublestar.ValidatePattern(glob):
		fault = "is not a glob"
	case glob != strings.TrimSpace(glob):
		fault = "begins or ends with a space"
	case strings.HasPrefix(glob, "!"):
		fault = "begins with !, which excepts nothing here"
	case backslash().MatchString(glob):
		fault = `has a \ where paths have /`
	case severalGlobs(glob):
		fault = "is several globs, which have to be in a list: [a, b]"
	}
	if fault == "" {
		return ""
	}
	return fmt.Sprintf("%s: %q", fault, glob)
}

// exists reports whether a file has that name.
func exists(root, name string) bool {
	_, err := os.Lstat(filepath.Join(root, name))
	return root != "" && err == nil
}

// backslash matches a backslash before a character that has no meaning of its own in globs.
var backslash = trellis.Pattern(`(?:^|[^\\])(?:\\\\)*\\[^\]\\\[{}()!,-]`)

// severalGlobs reports whether each part between the commas of a text looks like a path or a glob.
// Commas in braces and brackets belong to one glob.
func severalGlobs(text string) bool {
	parts := strings.Split(text, ",")
	if len(parts) < 2 || strings.ContainsAny(text, "{[") {
		return false
	}
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.ContainsAny(p, "/*") })
}

// Protects reports whether a slash-separated path of the repository falls under globs of
// `protected`: whether one of them matches it, equals it, or names a folder above it. A glob begins
// at the top of the repository, which / and . stand for too; a / at its end has no meaning.
func Protects(globs []string, file string) bool {
	for _, g := range globs {
		g = path.Clean(strings.TrimLeft(g, "/"))
		if (g == "." || g+"/" == ".trellis/" || strings.HasPrefix(g, ".trellis/")) && slices.ContainsFunc(unprotected, func(f string) bool { return strings.HasPrefix(file, f) }) {
			continue
		}
		if ok, err := doublestar.Match(g, file); err == nil && ok || g == file || g == "." || strings.HasPrefix(file, g+"/") {
			return true
		}
	}
	return false
}
