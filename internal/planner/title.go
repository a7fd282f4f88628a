package planner

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/trellis-tasks/trellis/internal/text"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// maxTitle is the longest title, in characters.
const maxTitle = 100

// title is a title as task.json and commits take it: one line, without the marks and labels that models put on it.
func title(s string) string {
	s = trellis.Visible(text.OneLine(unmarked(s)))
	s = strings.TrimSpace(strings.TrimLeft(s, "# "))
	if !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
		return "" // marks alone
	}
	for _, label := range []string{"title:", "task:", "plan:"} {
		if len(s) >= len(label) && strings.EqualFold(s[:len(label)], label) {
			s = strings.TrimSpace(s[len(label):])
		}
	}
	if r := []rune(s); len(r) > maxTitle {
		s = strings.TrimSpace(string(r[:maxTitle-1])) + "…"
	}
	return s
}

// strong matches code and bold text.
const strong = "`+[^`]*`+" + `|\*\*[^*\s](?:[^*]*[^*\s])?\*\*|\b__[^_\s](?:.*?[^_\s])?__\b`

// unmarked is s without the marks of code and of bold text. Names keep what belongs to them: __init__, snake__case, **kwargs
// and all that stands in code.
func unmarked(s string) string {
	s = regexp.MustCompile(strong).ReplaceAllStringFunc(s, func(m string) string {
		switch {
		case m[0] == '`':
			return strings.Trim(m, "`")
		case m[0] == '_' && !strings.ContainsFunc(m, unicode.IsSpace):
			return m
		}
		return m[2 : len(m)-2]
	})
	return strings.ReplaceAll(s, "`", "")
}
