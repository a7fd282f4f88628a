package research_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/research"
)

// Edge C11: technical notes are copied into prd.md, where none of their headings may begin a section.
func TestTechnicalNotes(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"none":          {"## Risks\n\nNone.\n", ""},
		"a section":     {"## Technical Notes\n\nKeep `x`.\n\n- one\n- two\n\n## Risks\n\n- r\n", "Keep `x`.\n\n- one\n- two"},
		"at the end":    {"## **Technical Notes:**\nKeep it.", "Keep it."},
		"headings":      {"# Technical Notes\n\nA\n\n### Acceptance Criteria\n\n- [ ] all\n\nDone when\n---------\n\n- z\n###\nB\n# Next\n", "A\n\n**Acceptance Criteria**\n\n- [ ] all\n\n**Done when**\n\n- z\nB"},
		"in code":       {"## Technical Notes\n\n```\n## Risks\n```\n\n## Risks\n", "```\n## Risks\n```"},
		"two of them":   {"## Technical Notes\n\nA\n\n## Risks\n\n## Technical Notes\n\nB\n", "A\n\nB"},
		"of level 1":    {"# Technical Notes\nA\n## Suggested Scope\nx\n", "A\n**Suggested Scope**\nx"},
		"CRLF":          {"## Technical Notes\r\n\r\nA\r\n\r\n## Risks\r\n", "A"},
		"blank section": {"## Technical Notes\n\n## Risks\n", ""},
	} {
		if got := research.Parse([]byte(c.text)).Notes; got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
