// Package roff writes pages of the manual as man(7) has them.
package roff

import (
	"fmt"
	"strings"
)

// width is how many letters of a line that is not filled fit on a terminal of 80 columns, behind man's margins.
const width = 71

// Page is a page of section 1 of the manual.
type Page struct {
	b      strings.Builder
	begins bool // a section whose first paragraph is not written yet
}

// NewPage begins a page: its name, such as trellis-plan, the day it is of, such as 2026-02-01, and what it belongs to.
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

// Text adds paragraphs, between which text has an empty line. Their lines are filled anew.
func (p *Page) Text(text string) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		p.paragraph()
		for line := range strings.Lines(part) {
			p.line(begin(escape(strings.TrimSpace(line))))
		}
	}
}

// Bold adds a line in bold, such as a name with what it is called with.
func (p *Page) Bold(words string) {
	p.paragraph()
	p.line(begin(`\fB` + escape(words) + `\fR`))
}

// Name adds the line that apropos reads.
func (p *Page) Name(name, what string) {
	p.Section("Name")
	p.line(escape(name) + ` \- ` + escape(what))
}

// Item adds a term, and what is to say about it below it.
func (p *Page) Item(term, text string) {
	p.line(".TP")
	p.line(begin(`\fB` + escape(term) + `\fR`))
	p.line(begin(escape(text)))
}

// Commands adds command lines as they are. One that is too long goes on in the next line, as a shell takes it.
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

// String is the page as man reads it.
func (p *Page) String() string { return p.b.String() }

func (p *Page) line(s string) {
	p.b.WriteString(s + "\n")
	p.begins = false
}

// paragraph begins a paragraph, as a section does by itself.
func (p *Page) paragraph() {
	if !p.begins {
		p.line(".PP")
	}
}

// special are letters that roff would make others of; a minus is one that can be copied into a shell.
var special = map[rune]string{'\\': `\e`, '-': `\-`, '`': `\(ga`, '\'': `\(aq`, '"': `\(dq`, '^': `\(ha`, '~': `\(ti`}

// escape writes text so that it comes out as it is.
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

// begin keeps a line from being taken for a request.
func begin(line string) string {
	if strings.HasPrefix(line, ".") {
		return `\&` + line
	}
	return line
}

// fold cuts a command line between its words, outside quotes, into lines that fit. A remark at its end gets a line above it.
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

// cut is the last blank outside quotes of the first letters of a line, or else the first one behind them, or -1.
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
