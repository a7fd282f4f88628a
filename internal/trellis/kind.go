package trellis

import (
	"path"
	"slices"
	"strings"
)

// frontends are the endings of files that a browser shows or runs.
var frontends = []string{".tsx", ".jsx", ".vue", ".svelte", ".astro", ".css", ".scss", ".sass", ".less", ".html", ".htm"}

// texts are the endings of files that are read by people.
var texts = []string{".md", ".mdx", ".rst", ".adoc", ".txt"}

// KindOfFiles is the kind of work that changes some files: docs of texts alone, test of tests alone, frontend or backend, and
// fullstack of both, or where there is no file that tells. Texts and tests beside code tell nothing.
func KindOfFiles(paths []string) string {
	count := map[string]int{}
	for _, p := range paths {
		count[kindOfFile(strings.ToLower(p))]++
	}
	if count["frontend"] > 0 && count["backend"] > 0 {
		return "fullstack"
	}
	for _, kind := range []string{"frontend", "backend", "test", "docs"} {
		if count[kind] > 0 {
			return kind
		}
	}
	return "fullstack"
}

func kindOfFile(p string) string {
	name, end := path.Base(p), path.Ext(p)
	folders := strings.Split(path.Dir(p), "/")
	switch {
	case strings.HasSuffix(p, "/"):
		return "" // a folder has all kinds of files
	case slices.Contains(texts, end):
		return "docs"
	case strings.Contains(name, "_test.") || strings.Contains(name, ".test.") || strings.Contains(name, ".spec.") || strings.HasPrefix(name, "test_") ||
		slices.Contains(folders, "test") || slices.Contains(folders, "tests") || slices.Contains(folders, "__tests__"):
		return "test"
	case slices.Contains(frontends, end) || slices.Contains(folders, "frontend") || slices.Contains(folders, "components"):
		return "frontend"
	case strings.HasPrefix(p, "docs/"):
		return "docs"
	}
	return "backend"
}
