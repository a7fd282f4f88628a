// Package roff writes manual pages in the man(7) format.
package roff

import (
	"fmt"
	"strings"
)

// width is how many characters of an unfilled line fit on a terminal of 80 columns, given man's margins.
const width = 71

// Page is a manual page of section 1.
type Page struct {
	b      strings.Builder
	begins bool // the first paragraph of a section is still to be written
}

// NewPage begins a page with its name, such as trellis-plan, its date, such as 2026-02-01, and the name of its source.
func NewPage(name, day, source string) *Page {
	p := new(Page)
	fmt.Fprintf(&p.b, ".TH %s 1 %s \"%s\" \"Trellis Manual\"\n.nh\n.ad l\n", escape(strings.ToUpper(name)), day, escape(source))
	return p
}

// Section begins a section.
func (p *Page) Section(title string) {
	p.line(".SH " + escape(strings.ToUpper(title)))
	p.begins = true
}

// Text adds paragraphs, which are separated by empty lines in text. Their lines are refilled.
func (p *Page) Text(text string) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		p.paragraph()
		for line := range strings.Lines(part) {
			p.line(begin(escape(strings.TrimSpace(line))))
		}
	}
}

// Bold adds a line in bold, such as a name with its arguments.
func (p *Page) Bold(words string) {
	p.paragraph()
	p.line(begin(`\fB` + escape(words) + `\fR`))
}

// Name adds the line that apropos reads.
func (p *Page) Name(name, what string) {
	p.Section("Name")
	p.line(escape(name) + ` \- ` + escape(what))
}

// Item adds a term with its description.
func (p *Page) Item(term, text string) {
	p.line(".TP")
	p.line(begin(`\fB` + escape(term) + `\fR`))
	p.line(begin(escape(text)))
}

// Commands adds command lines verbatim. A long one is continued on the next line in shell syntax.
func (p *Page) Commands(lines []string) {
	p.paragraph()
	p.line(".nf")
	for _, line := range lines {
		for _, part := range fold(line) {
			p.line(begin(escape(part)))
		}
	}
	p.line(".fi")
}

// String returns the page in man's format.
func (p *Page) String() string { return p.b.String() }

func (p *Page) line(s string) {
	p.b.WriteString(s + "\n")
	p.begins = false
}

// paragraph begins a paragraph, unless a section has just begun, which implies one.
func (p *Page) paragraph() {
	if !p.begins {
		p.line(".PP")
	}
}

// special are characters that roff would replace; \- is a minus that can be copied into a shell.
var special = map[rune]string{'\\': `\e`, '-': `\-`, '`': `\(ga`, '\'': `\(aq`, '"': `\(dq`, '^': `\(ha`, '~': `\(ti`}

// escape escapes text so that it is printed literally.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch own := special[r]; {
		case own != "":
			b.WriteString(own)
		case r > 126:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// begin keeps a line from being read as a request.
func begin(line string) string {
	if strings.HasPrefix(line, ".") {
		return `\&` + line
	}
	return line
}

// fold breaks a command line at spaces outside quotes into lines that fit. A comment at its end is put on a line before it.
func fold(line string) (lines []string) {
	if len(line) <= width {
		return []string{line}
	}
	if command, remark, found := strings.Cut(line, "   # "); found {
		return append([]string{"# " + remark}, fold(command)...)
	}
	for indent := ""; ; indent = "    " {
		at := cut(line, width-len(indent)-2)
		if len(indent+line) <= width || at < 0 {
			return append(lines, indent+line)
		}
		lines = append(lines, indent+line[:at]+` \`)
		line = line[at+1:]
	}
}

// cut returns the index of the last space outside quotes up to letters, else of the first one after that, or -1.
func cut(line string, letters int) int {
	at, quote := -1, rune(0)
	for i, r := range line {
		switch {
		case i > letters && at >= 0:
			return at
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
		case r == ' ' && quote == 0:
			at = i
		}
	}
	return at
}
