package research

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// technicalNotes returns the sections called Technical Notes, including what is below headings of a lower level.
func technicalNotes(doc ast.Node, src []byte) string {
	var all []string
	var open *ast.Heading
	from := 0
	end := func(to int) {
		if open != nil {
			all = append(all, strings.TrimSpace(WithoutHeadings(string(src[from:to]))))
		}
		open = nil
	}
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok || open != nil && h.Level > open.Level {
			continue
		}
		begin, after := headingSpan(h, src)
		end(begin)
		if normalizeHeading(string(blockText(h, src))) == "technical notes" {
			open, from = h, after
		}
	}
	end(len(src))
	return strings.Join(all, "\n\n")
}

// WithoutHeadings turns the headings of a Markdown text into lines of bold text, so that the text can be part of a section of
// another page without beginning a new one.
func WithoutHeadings(md string) string {
	src := []byte(md)
	doc := goldmark.DefaultParser().Parse(text.NewReader(src))
	var b strings.Builder
	from := 0
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			continue
		}
		begin, after := headingSpan(h, src)
		b.Write(src[from:begin])
		if title := strings.TrimSpace(string(blockText(h, src))); title != "" {
			b.WriteString("**" + strings.Trim(title, "*") + "**\n")
		}
		from = after
	}
	b.Write(src[from:])
	return b.String()
}

// Closed reports whether a heading after a piece of Markdown would be read as one: no code block and no comment is open at its
// end.
func Closed(md string) bool {
	doc := goldmark.DefaultParser().Parse(text.NewReader([]byte(md + "\n\n## end\n")))
	h, ok := doc.LastChild().(*ast.Heading)
	return ok && h.Level == 2
}

// headingSpan returns where the lines of a heading begin, and where the text after them does.
func headingSpan(h *ast.Heading, src []byte) (begin, after int) {
	lines := h.Lines()
	if lines.Len() == 0 { // there are only marks
		begin = h.Pos()
		return begin, nextLine(src, begin)
	}
	first, last := lines.At(0).Start, lines.At(lines.Len()-1).Stop
	begin = bytes.LastIndexByte(src[:first], '\n') + 1
	after = nextLine(src, max(last-1, first))
	if !bytes.HasPrefix(bytes.TrimLeft(src[begin:first+1], " "), []byte("#")) { // it is underlined with = or -
		after = nextLine(src, after)
	}
	return begin, after
}

// nextLine returns the start of the line after the one at this position.
func nextLine(src []byte, at int) int {
	if i := bytes.IndexByte(src[min(at, len(src)):], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(src)
}
