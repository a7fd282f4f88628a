package trellis

import (
	"fmt"
	"strings"
	"unicode"
)

// Visible returns a text from elsewhere in a form that is safe to show: terminal control characters, characters that change the
// direction of writing, and invisible ones are replaced by symbols or their code. Line ends and tabs stay.
func Visible(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if !strings.ContainsFunc(s, isUnsafe) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !isUnsafe(r):
			b.WriteRune(r)
		case r < ' ':
			b.WriteRune('␀' + r)
		case r == 0x7f:
			b.WriteRune('␡')
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// VisibleLine is Visible for a text in one line.
func VisibleLine(s string) string { return Visible(strings.Join(strings.Fields(s), " ")) }

// isUnsafe reports whether r is a control character, a line end on some systems only, changes the direction of writing, or is
// invisible. The joiners that emoji and some scripts use may stay.
func isUnsafe(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == 0x200c || r == 0x200d:
		return false
	case r == 0x2028 || r == 0x2029:
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r >= 0x200b && r <= 0x200f || r >= 0x2060 && r <= 0x206f || r == 0xfeff || r >= 0xe0000 && r <= 0xe007f
}
