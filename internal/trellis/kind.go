package trellis

import (
	"path"
	"slices"
	"strings"
)

// frontendExtensions are the extensions of files that a browser shows or runs.
var frontendExtensions = []string{".tsx", ".jsx", ".vue", ".svelte", ".astro", ".css", ".scss", ".sass", ".less", ".html", ".htm"}

// textExtensions are the extensions of files that people read.
var textExtensions = []string{".md", ".mdx", ".rst", ".adoc", ".txt"}

// KindOfFiles returns the kind of work that changes these files: docs for texts only, test for tests only, frontend, backend,
// or fullstack for both, or if no file tells. Texts and tests next to code are ignored.
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
		return "" // a folder may contain any kind of file
	case slices.Contains(textExtensions, end):
		return "docs"
	case strings.Contains(name, "_test.") || strings.Contains(name, ".test.") || strings.Contains(name, ".spec.") || strings.HasPrefix(name, "test_") ||
		slices.Contains(folders, "test") || slices.Contains(folders, "tests") || slices.Contains(folders, "__tests__"):
		return "test"
	case slices.Contains(frontendExtensions, end) || slices.Contains(folders, "frontend") || slices.Contains(folders, "components"):
		return "frontend"
	case strings.HasPrefix(p, "docs/"):
		return "docs"
	}
	return "backend"
}
