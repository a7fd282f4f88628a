package tui

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// How lines are painted: parameters of the sequence that a terminal takes for it, of its sixteen colours. Bold and
// reverse are no colours, and stay where colours are not wanted.
const (
	plain   = ""
	bold    = "1"
	reverse = "7"
	red     = "31"
	green   = "32"
	yellow  = "33"
	cyan    = "36"
)

// line is a line of a page. Its text is fit for a terminal: see lines.
type line struct{ text, paint string }

// maxLine is how long a line of a page may be: what is longer is no text that anybody reads.
const maxLine = 64 << 10

// lines are the lines of a text that somebody else wrote, without anything that a terminal would obey.
func lines(s, paint string) (list []line) {
	if s = strings.TrimRight(s, "\n"); s == "" {
		return nil
	}
	for one := range strings.SplitSeq(trellis.Visible(s), "\n") {
		list = append(list, line{untabbed(one), paint})
	}
	return list
}

// oneLine is a text that somebody else wrote, in one line of a screen.
func oneLine(s string) string { return untabbed(trellis.VisibleLine(s)) }

// joiners make one sign of several, whose width terminals do not agree about.
var joiners = strings.NewReplacer("\u200c", "", "\u200d", "", "\ufe0e", "", "\ufe0f", "")

// untabbed is a line with its tabs as spaces and its signs apart, cut where it is too long.
func untabbed(s string) string {
	s = joiners.Replace(s)
	if len(s) > maxLine {
		s = strings.ToValidUTF8(s[:maxLine], "") + " …"
	}
	if !strings.Contains(s, "\t") {
		return s
	}
	var b strings.Builder
	for i, part := range strings.Split(s, "\t") {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", 4-ansi.StringWidthWc(b.String())%4))
		}
		b.WriteString(part)
	}
	return b.String()
}

// wrapped is a line in as many as it takes in this width, each of them no wider.
func (l line) wrapped(width int) (list []line) {
	if ansi.StringWidthWc(l.text) <= width {
		return []line{l}
	}
	for part := range strings.SplitSeq(ansi.WrapWc(l.text, max(width, 2), " "), "\n") {
		list = append(list, line{part, l.paint})
	}
	return list
}

// fit is a text in exactly that many columns.
func fit(s string, width int) string {
	if width <= 0 {
		return ""
	}
	s = ansi.TruncateWc(s, width, "…")
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidthWc(s)))
}

// painter paints texts, with colours or without.
type painter struct{ colour bool }

func (p painter) paint(s, how string) string {
	if how == plain || s == "" || !p.colour && how != bold && how != reverse {
		return s
	}
	return "\x1b[" + how + "m" + s + "\x1b[0m"
}
