package text

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Width returns how many columns of a terminal s takes: wide letters and emoji take two, combining marks none.
func Width(s string) (n int) {
	before := 0
	for _, r := range s {
		before = runeWidth(r, before)
		n += before
	}
	return n
}

// Clip returns s in one line of at most n columns, without anything that a terminal would interpret.
func Clip(s string, n int) string {
	s = trellis.Visible(strings.NewReplacer("\n", " ", "\t", " ").Replace(s))
	if Width(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	return s[:bytesThatFit(s, n-1)] + "…"
}

// ClipMiddle returns s like Clip, but what does not fit is left out of the middle: the ends of long names differ.
func ClipMiddle(s string, n int) string {
	s = Clip(s, math.MaxInt)
	if Width(s) <= n || n < 1 {
		return Clip(s, n)
	}
	head := s[:bytesThatFit(s, n/2)]
	tail := s
	for Width(tail) > n-1-Width(head) {
		_, size := utf8.DecodeRuneInString(tail)
		tail = tail[size:]
	}
	return head + "…" + tail
}

// Pad returns s with blanks appended, n columns in all. A longer s is returned unchanged.
func Pad(s string, n int) string { return s + strings.Repeat(" ", max(n-Width(s), 0)) }

// Wrap breaks s, which has one line, into lines of at most n columns, between words where there are any. The minimum of n is 2.
func Wrap(s string, n int) (lines []string) {
	for n = max(n, 2); Width(s) > n; { // the widest letter takes two
		end := bytesThatFit(s, n)
		if at := strings.LastIndexByte(s[:min(end+1, len(s))], ' '); strings.TrimSpace(s[:max(at, 0)]) != "" {
			end = at
		}
		lines, s = append(lines, strings.TrimRight(s[:end], " ")), strings.TrimLeft(s[end:], " ")
	}
	return append(lines, s)
}

// bytesThatFit returns how many bytes of s fit into n columns.
func bytesThatFit(s string, n int) int {
	before := 0
	for i, r := range s {
		before = runeWidth(r, before)
		if n -= before; n < 0 {
			return i
		}
	}
	return len(s)
}

// runeWidth returns how many columns r takes after a rune that takes before columns.
func runeWidth(r rune, before int) int {
	switch {
	case r < 0x300, r >= 0x1f1e6 && r <= 0x1f1ff: // two of these letters are a flag
		return 1
	case r == 0xfe0f && before == 1: // shows the sign before it as a picture: most terminals give that one more column
		return 1
	case r == 0x200d || unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1f000 && r < 0x20000: // pictures, on which terminals differ: rather too wide than too narrow
		return 2
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}
