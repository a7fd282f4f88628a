package research

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// notes are the sections called Technical Notes, with what stands in them under headings of a lower level.
func notes(doc ast.Node, src []byte) string {
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
		if normal(string(inline(h, src))) == "technical notes" {
			open, from = h, after
		}
	}
	end(len(src))
	return strings.Join(all, "\n\n")
}

// WithoutHeadings is markdown whose headings have become lines of bold text, so that it can stand in a section of
// another page and begins none there.
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
		if title := strings.TrimSpace(string(inline(h, src))); title != "" {
			b.WriteString("**" + strings.Trim(title, "*") + "**\n")
		}
		from = after
	}
	b.Write(src[from:])
	return b.String()
}

// Closed reports whether a heading behind a piece of markdown would be one: no block of code and no comment is open
// at its end.
func Closed(md string) bool {
	doc := goldmark.DefaultParser().Parse(text.NewReader([]byte(md + "\n\n## end\n")))
	h, ok := doc.LastChild().(*ast.Heading)
	return ok && h.Level == 2
}

// headingSpan is where the lines of a heading begin, and where what follows them does.
func headingSpan(h *ast.Heading, src []byte) (begin, after int) {
	lines := h.Lines()
	if lines.Len() == 0 { // marks alone
		begin = h.Pos()
		return begin, nextLine(src, begin)
	}
	first, last := lines.At(0).Start, lines.At(lines.Len()-1).Stop
	begin = bytes.LastIndexByte(src[:first], '\n') + 1
	after = nextLine(src, max(last-1, first))
	if !bytes.HasPrefix(bytes.TrimLeft(src[begin:first+1], " "), []byte("#")) { // it has a line of = or - below
		after = nextLine(src, after)
	}
	return begin, after
}

// nextLine is where the line after that of a place begins.
func nextLine(src []byte, at int) int {
	if i := bytes.IndexByte(src[min(at, len(src)):], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(src)
}
