package criteria

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// marker is the beginning of a list item.
type marker struct {
	mark string
	box  bool   // it has a checkbox, ticked or not
	text string // the text after it
}

func (m marker) found() bool { return m.mark != "" }

var markers = trellis.Pattern(`^(?:[-*+•◦‣▪▫●○■□–—·→➤☐☑☒✅✔✓❌⬜](?:\x{fe0f})?(?:\s+|$)|[0-9]{1,9}[.)](?:\s+|$)|[0-9]{1,9}、\s*|[（(](?:[0-9]{1,9}|[a-z]|[ivx]{1,5})[)）]\s*|[a-z][.)](?:\s+|$)|[①-⑳]\s*)`)

// boxes may lack the space on either side of them, and their content does not matter.
var boxes = trellis.Pattern(`^([-*+•]|[0-9]{1,9}[.)])?\s*\[\s*[xX✓✔✅✗✘~/-]?\x{fe0f}?\s*\](?:\s+|$|([^\s(\[:]))`)

func markerOf(bare string) marker {
	if !mayBeMarker(bare) {
		return marker{}
	}
	if m := boxes().FindStringSubmatchIndex(bare); m != nil {
		end := boxEnd(m)
		return marker{bare[:end], true, strings.TrimSpace(bare[end:])}
	}
	mark := markers().FindString(bare)
	if mark == "" {
		return marker{}
	}
	rest := strings.TrimLeftFunc(bare[len(mark):], unicode.IsSpace)
	if m := boxes().FindStringSubmatchIndex(rest); m != nil && m[2] < 0 {
		return marker{mark, true, strings.TrimSpace(rest[boxEnd(m):])}
	}
	return marker{mark, false, rest}
}

// boxEnd returns the end of a match of boxes, without the first letter of the text after it.
func boxEnd(m []int) int {
	if m[4] >= 0 {
		return m[4]
	}
	return m[1]
}

// mayBeMarker reports whether a line can begin with a marker. This quick check rules most lines out.
func mayBeMarker(bare string) bool {
	if bare == "" {
		return false
	}
	c := bare[0]
	return c >= utf8.RuneSelf || strings.IndexByte("-*+[(0123456789", c) >= 0 || c >= 'a' && c <= 'z' && len(bare) > 1 && (bare[1] == '.' || bare[1] == ')')
}

var labelPattern = trellis.Pattern("^[*_`\\[(]{0,3}(?:[A-Z]{1,6}(?:[-_. ]?[A-Z]{1,6})?[-_. ]?)?[0-9]{1,6}(?:[-_.][0-9]{1,6})*[*_`\\])]{0,3}\\s*[:：.)—–-]")

// hasLabel reports whether a line begins with a label, as in **AC-1**: text.
func hasLabel(bare string) bool {
	r := firstRune(bare)
	return (unicode.IsUpper(r) || strings.ContainsRune("*_`[(", r)) && labelPattern().MatchString(bare)
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// placeholders are the placeholders for a criterion that is still to be written.
var placeholders = []string{"", "tbd", "todo", "fixme", "tba", "wip", "n/a", "na", "none", "later", "...", "…", "?", "xxx", "待定", "待补充", "無", "无", "未定", "미정"}
