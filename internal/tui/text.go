package tui

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// How lines are painted: parameters of the escape sequence for it, of the sixteen colours of a
// terminal. Bold and reverse are not colours, and are used without colours too.
const (
	plain   = ""
	bold    = "1"
	reverse = "7"
	red     = "31"
	green   = "32"
	yellow  = "33"
	cyan    = "36"
)

// line is a line of a page. Its text is safe for a terminal: see lines.
type line struct{ text, paint string }

// maxLine is how many bytes a line of a page may have: nobody reads longer ones.
const maxLine = 64 << 10

// lines returns the lines of a text that somebody else wrote, with control characters made visible.
func lines(s, paint string) (list []line) {
	if s = strings.TrimRight(s, "\n"); s == "" {
		return nil
	}
	for one := range strings.SplitSeq(trellis.Visible(s), "\n") {
		list = append(list, line{expandTabs(one), paint})
	}
	return list
}

// oneLine returns a text that somebody else wrote, on one line of a screen.
func oneLine(s string) string { return expandTabs(trellis.VisibleLine(s)) }

// joiners removes characters that join others into one, about whose width terminals disagree.
var joiners = strings.NewReplacer("\u200c", "", "\u200d", "", "\ufe0e", "", "\ufe0f", "")

// expandTabs returns a line with its tabs as spaces and without joiners, cut if it is too long.
func expandTabs(s string) string {
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

// wrapped returns a line as the lines that it takes in this width, none of them wider.
func (l line) wrapped(width int) (list []line) {
	if ansi.StringWidthWc(l.text) <= width {
		return []line{l}
	}
	for part := range strings.SplitSeq(ansi.WrapWc(l.text, max(width, 2), " "), "\n") {
		list = append(list, line{part, l.paint})
	}
	return list
}

// fit returns a text in exactly that many columns.
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
