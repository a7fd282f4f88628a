package planner

import (
	"strings"
	"unicode/utf8"
)

// maxTitle is the longest title, in characters.
const maxTitle = 100

// title is a title as task.json and commits take it: one line, without the marks and labels that models put on it.
func title(s string) string {
	s = oneLine(strings.NewReplacer("`", "", "**", "", "__", "").Replace(s))
	s = strings.TrimSpace(strings.TrimLeft(s, "# "))
	for _, label := range []string{"title:", "task:", "plan:"} {
		if len(s) > len(label) && strings.EqualFold(s[:len(label)], label) {
			s = strings.TrimSpace(s[len(label):])
		}
	}
	if r := []rune(s); len(r) > maxTitle {
		s = strings.TrimSpace(string(r[:maxTitle-1])) + "…"
	}
	return s
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// within is the beginning of s that takes about n bytes in a record.
func within(s string, n int) string {
	used := 0
	for i, r := range s {
		if used += size(r); used > n {
			return s[:i] + "…"
		}
	}
	return s
}

// size is how many bytes r takes in a record, where JSON writes some as \u003c.
func size(r rune) int {
	if r < ' ' || strings.ContainsRune("<>&\u2028\u2029\ufffd", r) {
		return 6
	}
	if r == '"' || r == '\\' {
		return 2
	}
	return utf8.RuneLen(r)
}
