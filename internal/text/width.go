package text

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Width is how many columns of a terminal s takes: wide letters and emoji take two, marks on a letter none.
func Width(s string) (n int) {
	before := 0
	for _, r := range s {
		before = runeWidth(r, before)
		n += before
	}
	return n
}

// Clip is s in one line of at most n columns, without anything that a terminal would obey.
func Clip(s string, n int) string {
	s = trellis.Visible(strings.NewReplacer("\n", " ", "\t", " ").Replace(s))
	if Width(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	return s[:fitting(s, n-1)] + "…"
}

// Pad is s with blanks behind it, n columns in all. What is longer stays as it is.
func Pad(s string, n int) string { return s + strings.Repeat(" ", max(n-Width(s), 0)) }

// Wrap is s, which has one line, in lines of at most n columns, broken between words where there are any; but two
// columns are the least.
func Wrap(s string, n int) (lines []string) {
	for n = max(n, 2); Width(s) > n; { // the widest letter takes two
		end := fitting(s, n)
		if at := strings.LastIndexByte(s[:min(end+1, len(s))], ' '); strings.TrimSpace(s[:max(at, 0)]) != "" {
			end = at
		}
		lines, s = append(lines, strings.TrimRight(s[:end], " ")), strings.TrimLeft(s[end:], " ")
	}
	return append(lines, s)
}

// fitting is how many bytes of s fit into n columns.
func fitting(s string, n int) int {
	before := 0
	for i, r := range s {
		before = runeWidth(r, before)
		if n -= before; n < 0 {
			return i
		}
	}
	return len(s)
}

// runeWidth is how many columns r takes behind one that took so many.
func runeWidth(r rune, before int) int {
	switch {
	case r < 0x300, r >= 0x1f1e6 && r <= 0x1f1ff: // two of these letters are a flag
		return 1
	case r == 0xfe0f && before == 1: // asks for the sign before it as a picture: most terminals give that a column more
		return 1
	case r == 0x200d || unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1f000 && r < 0x20000: // pictures, which terminals don't agree about: rather too much than too little
		return 2
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}
