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

// settled are the names of settings files of test runners, and of git, that do the same.
var settled = []string{"pytest.ini", "conftest.py", ".mocharc.json", ".npmrc", ".golangci.yml", ".golangci.yaml", "phpunit.xml", ".rspec", ".gitattributes",
	"jest.config.*", "vitest.config.*", "vite.config.*", "playwright.config.*", "karma.conf.*", "babel.config.*", ".eslintrc*", "eslint.config.*"}

// judges finds the changed files that affect the results of the checks.
type judges struct {
	root   string
	named  []string // words of the deciding commands
	called []string // words of the recipes at the top of the checkout
}

func judgesOf(root string, commands []string) judges {
	j := judges{root: root, named: words(strings.Join(commands, "\n"))}
	for _, name := range recipes {
		if data, err := durable.ReadBelow(root, name, maxRecipe); err == nil {
			j.called = append(j.called, words(string(data))...)
		}
	}
	return j
}

// maxRecipe is the maximum size, in bytes, of a recipe that is searched for the scripts that it calls.
const maxRecipe = 256 << 10

// words returns the parts of a text that can be paths, without a leading "./".
func words(text string) []string {
	list := strings.FieldsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r > 0x7f || strings.ContainsRune("._-/+@", r))
	})
	for i, w := range list {
		list[i] = path.Clean(w)
	}
	return list
}

// decides describes a changed file that affects the checks. It returns "" for any other.
func (j judges) decides(ch git.Change) string {
	name := path.Base(ch.Path)
	switch {
	case ch.Kind == 'D' && isTest(ch.Path):
		return ch.Path + " (deleted)"
	case ch.Kind == 'M' && isTest(ch.Path) && j.blank(ch.Path):
		return ch.Path + " (emptied)"
	case ch.Mode == modeLink && j.leadsOut(ch.Path):
		return ch.Path + " (a link out of the repository)"
	case slices.Contains(recipes, name), slices.ContainsFunc(settled, func(glob string) bool { ok, err := path.Match(glob, name); return ok && err == nil }):
		return ch.Path
	case slices.Contains(j.named, ch.Path), isScript(name) && slices.Contains(j.called, ch.Path):
		return ch.Path
	}
	return ""
}

const modeLink = "120000"

// blank reports whether a file holds nothing but white space. A file longer than maxRecipe does not count.
func (j judges) blank(name string) bool {
	data, err := durable.ReadBelow(j.root, filepath.FromSlash(name), maxRecipe)
	return err == nil && len(bytes.TrimSpace(data)) == 0
}

// leadsOut reports whether a link leads out of the repository, so that other checkouts can't follow it.
func (j judges) leadsOut(link string) bool {
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
