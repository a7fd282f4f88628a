package specs

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Entry is a file that a task's agents should read, and why.
type Entry struct{ Path, Reason string }

// Base returns the entries that every task of a kind begins with: workflow.md, the indexes of the guidelines for devType (those
// of pkg, a package of the project, before the common ones), the index of the guides, and each page with a glob that matches
// one of paths. Missing files are left out; if nothing is left, Base returns the README, or else a file that says how the
// project is built.
func Base(root, devType, pkg string, paths []string) ([]Entry, error) {
	list, err := List(root)
	if err != nil {
		return nil, err
	}
	b := entryList{root: root}
	b.addFirst("how work is done in this project", ".trellis/workflow.md")
	for _, layer := range layers(devType) {
		candidates := []string{path.Join(Dir, layer, "index.md")}
		if fs.ValidPath(pkg) && pkg != "." {
			candidates = append([]string{path.Join(Dir, pkg, layer, "index.md")}, candidates...)
		}
		b.addFirst(layer+" guidelines", candidates...)
	}
	b.addFirst("questions to ask before, while and after", Dir+"/guides/index.md")
	for _, s := range list {
		if slices.ContainsFunc(paths, s.Matches) {
			b.addFirst("guideline: "+s.Description, s.Path)
		}
	}
	if len(b.entries) == 0 {
		b.addFallback()
	}
	return b.entries, nil
}

func layers(devType string) []string {
	switch devType {
	case "backend", "test":
		return []string{"backend"}
	case "frontend":
		return []string{"frontend"}
	case "docs":
		return nil
	}
	return []string{"backend", "frontend"}
}

type entryList struct {
	root    string
	entries []Entry
}

// addFirst adds the first of the candidates that exists, unless it was added before. A reason has several words: a single one would
// be taken for the name of a check (docs/internals/pipeline.md).
func (b *entryList) addFirst(reason string, candidates ...string) {
	for _, p := range candidates {
		if !isFile(b.root, p) {
			continue
		}
		if !slices.ContainsFunc(b.entries, func(e Entry) bool { return e.Path == p }) {
			b.entries = append(b.entries, Entry{p, strings.TrimSpace(reason)})
		}
		return
	}
}

// The most informative files of a project without guidelines, best first, and build files.
var (
	readmes    = []string{"readme.md", "readme", "readme.rst", "readme.adoc", "readme.txt"}
	buildFiles = []string{"go.mod", "package.json", "cargo.toml", "pyproject.toml", "setup.py", "pom.xml", "build.gradle", "build.gradle.kts",
		"gemfile", "composer.json", "mix.exs", "package.swift", "cmakelists.txt", "makefile", "justfile"}
)

func (b *entryList) addFallback() {
	entries, err := durable.ReadDirBelow(b.root, ".")
	if err != nil {
		return
	}
	for _, kind := range []struct {
		reason string
		names  []string
	}{{"what the project is", readmes}, {"how the project is built", buildFiles}} {
		for _, want := range kind.names {
			for _, e := range entries {
				if strings.EqualFold(e.Name(), want) && len(b.entries) == 0 {
					b.addFirst(kind.reason, e.Name())
				}
			}
		}
	}
}
