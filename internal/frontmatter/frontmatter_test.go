package frontmatter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/frontmatter"
)

func TestCut(t *testing.T) {
	for _, tt := range []struct{ page, yaml, rest, fault string }{
		{"---\na: 1\n---\nrest", "---\na: 1\n", "rest", ""},
		{"\ufeff---\r\na: 1\r\n--- \r\nrest", "---\r\na: 1\r\n", "rest", ""},
		{"---\na: 1\n---", "---\na: 1\n", "", ""},
		{"---\n---\n", "---\n", "", ""},
		{"", "", "", ""},
		{"---", "", "---", ""},
		{"\ufefftext", "", "text", ""},
		// Text that begins as it likes.
		{"---\ntext\n# Title\n", "", "---\ntext\n# Title\n", ""},
		{"---\nother: 1\n\na: 1\n", "", "---\nother: 1\n\na: 1\n", ""},
		{"text\na: 1\n", "", "text\na: 1\n", ""},
		{"# Title\n\ntext\n---\na: 1\n---\n", "", "# Title\n\ntext\n---\na: 1\n---\n", ""},
		{"---\ntext\n...\n---\nrest", "---\ntext\n...\n", "rest", ""},
		// Keys that nobody would read.
		{"---\na: 1\ntext\n", "", "*", "1: the front matter has no end"},
		{"---\nother: 1\n# remark\n'a' : 1\n\ntext\n", "", "*", "1: the front matter has no end"},
		{"---\nother: 1\na: 1\n...\ntext\n---\n", "", "*", "4: the front matter is not ended by ..."},
		{"\n\n---\na: 1\n---\n", "", "*", "3: this is not read as front matter"},
		{"# Title\n<!-- x -->\n---\na: 1\n---\n", "", "*", "3: this is not read as front matter"},
		{" ---\na: 1\n---\n", "", "*", "1: this is not read as front matter"},
		{"—-\na: 1\n", "", "*", "1: this is not read as front matter"},
		{"\na: 1\n\ntext\n", "", "*", "2: a is not read, since there is no line of three dashes above it"},
	} {
		yaml, at, problem := frontmatter.Cut([]byte(tt.page), []string{"a", "b"})
		rest, fault := tt.page[at:], ""
		if problem != nil {
			fault, rest = fmt.Sprintf("%d: %s", problem.Line, problem.Message), "*"
		}
		if string(yaml) != tt.yaml || rest != tt.rest || fault != tt.fault || problem != nil && problem.Hint == "" {
			t.Errorf("%q: got %q, %q, %q\nwant %q, %q, %q", tt.page, yaml, rest, fault, tt.yaml, tt.rest, tt.fault)
		}
	}
}

func FuzzCut(f *testing.F) {
	for _, s := range []string{"---\na: 1\n---\nx", "\ufeff\n---\na: 1", "---\n...\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, page string) {
		yaml, rest, fault := frontmatter.Cut([]byte(page), []string{"a"})
		if rest < 0 || rest > len(page) || !strings.Contains(page[:rest], string(yaml)) {
			t.Errorf("%q: %q, %d", page, yaml, rest)
		}
		if fault != nil && (yaml != nil || fault.Line < 1 || fault.Line > strings.Count(page, "\n")+1) {
			t.Errorf("%q: %q, %v", page, yaml, fault)
		}
	})
}
