package trellis_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

func TestKindOfFiles(t *testing.T) {
	for files, want := range map[string]string{
		"": "fullstack", "api/": "fullstack", "api/list.go": "backend", "api/list.go README.md api/list_test.go": "backend", "web/App.tsx": "frontend",
		"web/app.css api/list.go": "fullstack", "README.md docs/a.png": "docs", "api/list_test.go README.md": "test", "src/a.test.ts": "test", "tests/a.py": "test",
		"src/components/a.ts": "frontend", "Makefile": "backend",
	} {
		if got := trellis.KindOfFiles(strings.Fields(files)); got != want {
			t.Errorf("%q: got %s, want %s", files, got, want)
		}
	}
}

// A name that Trellis makes is short, of whole words, and legal.
func TestShortName(t *testing.T) {
	for text, want := range map[string]string{
		"The list endpoint takes limit & offset, please": "the-list-endpoint-takes-limit", "Übersicht für Жанна": "ubersicht-fur-zhanna", "日本語": "", "": "",
		strings.Repeat("a", 99): strings.Repeat("a", 30), strings.Repeat("a", 30) + " b": strings.Repeat("a", 30), "a b": "a-b",
	} {
		if got := trellis.ShortName(text); got != want || got != "" && !trellis.ValidName(got) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
