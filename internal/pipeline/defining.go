package pipeline

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
)

// recipes are the names of files that define what a check does, in any folder.
var recipes = []string{"Makefile", "GNUmakefile", "makefile", "package.json", "justfile", "Justfile", ".justfile", "Taskfile.yml", "Taskfile.yaml",
	"tox.ini", "noxfile.py", "pyproject.toml", "setup.cfg", "Cargo.toml", "build.gradle", "build.gradle.kts", "pom.xml", "Rakefile", "composer.json",
	"deno.json", "CMakeLists.txt", "go.work"}

// settingsFiles are the names of settings files of test runners, and of git, that do the same.
var settingsFiles = []string{"pytest.ini", "conftest.py", ".mocharc.json", ".npmrc", ".golangci.yml", ".golangci.yaml", "phpunit.xml", ".rspec", ".gitattributes",
	"jest.config.*", "vitest.config.*", "vite.config.*", "playwright.config.*", "karma.conf.*", "babel.config.*", ".eslintrc*", "eslint.config.*"}

// definingFinder finds the changed files that affect the results of the checks.
type definingFinder struct {
	root         string
	commandWords []string // words of the deciding commands
	recipeWords  []string // words of the recipes at the top of the checkout
}

func newDefiningFinder(root string, commands []string) definingFinder {
	j := definingFinder{root: root, commandWords: pathWords(strings.Join(commands, "\n"))}
	for _, name := range recipes {
		if data, err := durable.ReadBelow(root, name, maxRecipe); err == nil {
			j.recipeWords = append(j.recipeWords, pathWords(string(data))...)
		}
	}
	return j
}

// maxRecipe is the maximum size, in bytes, of a recipe that is searched for the scripts that it calls.
const maxRecipe = 256 << 10

// pathWords returns the parts of a text that can be paths, without a leading "./".
func pathWords(text string) []string {
	list := strings.FieldsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r > 0x7f || strings.ContainsRune("._-/+@", r))
	})
	for i, w := range list {
		list[i] = path.Clean(w)
	}
	return list
}

// definingChange describes a changed file that affects the checks. It returns "" for any other.
func (j definingFinder) definingChange(ch git.Change) string {
	name := path.Base(ch.Path)
	switch {
	case ch.Kind == 'D' && isTest(ch.Path):
		return ch.Path + " (deleted)"
	case ch.Kind == 'M' && isTest(ch.Path) && j.isBlank(ch.Path):
		return ch.Path + " (emptied)"
	case ch.Mode == modeSymlink && j.linksOutside(ch.Path):
		return ch.Path + " (a link out of the repository)"
	case slices.Contains(recipes, name), slices.ContainsFunc(settingsFiles, func(glob string) bool { ok, err := path.Match(glob, name); return ok && err == nil }):
		return ch.Path
	case slices.Contains(j.commandWords, ch.Path), isScript(name) && slices.Contains(j.recipeWords, ch.Path):
		return ch.Path
	}
	return ""
}

const modeSymlink = "120000"

// isBlank reports whether a file holds nothing but white space. A file longer than maxRecipe does not count.
func (j definingFinder) isBlank(name string) bool {
	data, err := durable.ReadBelow(j.root, filepath.FromSlash(name), maxRecipe)
	return err == nil && len(bytes.TrimSpace(data)) == 0
}

// linksOutside reports whether a link leads out of the repository, so that other checkouts can't follow it.
func (j definingFinder) linksOutside(link string) bool {
	to, err := os.Readlink(filepath.Join(j.root, filepath.FromSlash(link)))
	return err == nil && (filepath.IsAbs(to) || !filepath.IsLocal(filepath.Join(filepath.Dir(filepath.FromSlash(link)), to)))
}

func isTest(p string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(p), func(r rune) bool { return strings.ContainsRune("/._-", r) }), func(w string) bool {
		return slices.Contains([]string{"test", "tests", "spec", "specs", "testdata", "e2e"}, w) || strings.HasSuffix(w, "test") || strings.HasSuffix(w, "tests")
	})
}

// isScript reports whether a file with that name can be run as it is.
func isScript(name string) bool {
	return slices.Contains([]string{"", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".py", ".rb", ".pl", ".php", ".mk"}, path.Ext(name))
}
