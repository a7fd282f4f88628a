package criteria

import (
	"strings"
	"unicode"
)

// kind is the kind of a line of a prd.md.
type kind int

const (
	text    kind = iota
	blank        // only white space
	comment      // only an HTML comment
	fence        // opens or closes a code block
	code         // inside of a code block
	rule         // a thematic break, or the fence of a block that is read as text
)

// line is a line of a prd.md, without quote marks around it and without comments.
type line struct {
	number int
	kind   kind
	indent int    // columns; tab stops are at every fourth
	bare   string // text without white space around it
	raw    string // the original line
}

// scanner splits a text into lines. Comments and code blocks span several of them.
type scanner struct {
	comment        bool
	openFence      string // marks that opened the code block, "" outside of one
	gherkin        bool   // the code block is a list of scenarios, read as text
	fenceLine      int    // line on which the code block was opened
	lastCommentEnd int    // offset of the last end of a comment
}

// scan splits a text into lines. unclosed is the line of a code fence that is never closed, or 0.
func scan(src string) (lines []line, unclosed int) {
	src = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "\ufffd").Replace(strings.TrimPrefix(src, "\ufeff"))
	s := scanner{lastCommentEnd: strings.LastIndex(src, "-->")}
	front, offset := frontMatter(src), 0
	for raw := range strings.Lines(src) {
		l := line{number: len(lines) + 1, raw: strings.TrimRight(raw, "\n")}
		if l.number <= front {
			l.kind = rule
		} else {
			s.classify(&l, l.raw, offset)
		}
		lines, offset = append(lines, l), offset+len(raw)
	}
	if s.openFence != "" {
		unclosed = s.fenceLine
	}
	return lines, unclosed
}

// frontMatter returns the number of lines of a block between two lines of dashes at the top.
func frontMatter(src string) int {
	n := 0
	for raw := range strings.Lines(src) {
		raw = strings.TrimRight(raw, " \t\n")
		if n++; n == 1 && raw != "---" {
			return 0
		} else if n > 1 && raw == "---" {
			return n
		}
	}
	return 0
}

func (s *scanner) classify(l *line, raw string, offset int) {
	bare := false
	if s.openFence == "" {
		cut := s.uncomment(raw, offset)
		bare, raw = cut != raw, cut
	}
	l.indent, l.bare = measure(raw)
	switch mark, info := fenceOf(l.bare); {
	case s.openFence != "":
		s.classifyInBlock(l, mark, info)
	case l.bare == "" && (bare || s.comment):
		l.kind = comment
	case l.bare == "":
		l.kind = blank
	case mark != "":
		l.kind, s.openFence, s.fenceLine = fence, mark, l.number
		if s.gherkin = info == "gherkin" || info == "cucumber" || info == "feature"; s.gherkin {
			l.kind = rule
		}
	case isRule(l.bare):
		l.kind = rule
	}
}

func (s *scanner) classifyInBlock(l *line, mark, info string) {
	closes := info == "" && mark != "" && strings.HasPrefix(mark, s.openFence)
	switch {
	case closes && s.gherkin:
		l.kind, s.openFence = rule, ""
	case closes:
		l.kind, s.openFence = fence, ""
	case s.gherkin && l.bare == "":
		l.kind = blank
	case !s.gherkin:
		l.kind = code
	}
}

// uncomment removes the comments from a line that begins at offset, but not from code spans. A comment that is never closed is not
// read as one.
func (s *scanner) uncomment(raw string, offset int) string {
	if !s.comment && !strings.Contains(raw, "<!--") {
		return raw
	}
	var b strings.Builder
	for at := 0; at < len(raw); {
		if s.comment {
			n := strings.Index(raw[at:], "-->")
			if n < 0 {
				break
			}
			s.comment, at = false, at+n+3
			continue
		}
		n := strings.IndexAny(raw[at:], "`<")
		if n < 0 {
			b.WriteString(raw[at:])
			break
		}
		b.WriteString(raw[at : at+n])
		at += n
		switch size, _ := spanAt(raw[at:]); {
		case size > 0:
			b.WriteString(raw[at : at+size])
			at += size
		case strings.HasPrefix(raw[at:], "<!--") && offset+at < s.lastCommentEnd:
			s.comment, at = true, at+4
		default:
			ticks := max(1, countLeading(raw[at:], '`'))
			b.WriteString(raw[at : at+ticks])
			at += ticks
		}
	}
	return b.String()
}

// measure returns how far a line is indented, and its text. Quote marks are ignored.
func measure(raw string) (indent int, bare string) {
	for i, r := range raw {
		switch {
		case r == '\t':
			indent += 4 - indent%4
		case r == '>':
			indent = 0
			if strings.HasPrefix(raw[i+1:], " ") {
				indent = -1
			}
		case unicode.IsSpace(r):
			indent++
		default:
			return indent, strings.TrimRightFunc(raw[i:], unicode.IsSpace)
		}
	}
	return 0, ""
}

// countLeading returns how many times c is repeated at the start of s.
func countLeading(s string, c byte) int {
	n := 0
	for n < len(s) && s[n] == c {
		n++
	}
	return n
}

// fenceOf returns the marks with which a line opens or closes a code block, and the text after them.
func fenceOf(bare string) (mark, info string) {
	for _, c := range []byte("`~") {
		n := countLeading(bare, c)
		info = strings.ToLower(strings.TrimSpace(bare[n:]))
		if n >= 3 && (c == '~' || !strings.Contains(info, "`")) {
			return bare[:n], info
		}
	}
	return "", ""
}

func isRule(bare string) bool {
	if bare[0] != '-' && bare[0] != '*' && bare[0] != '_' {
		return false
	}
	marks := 0
	for i := range len(bare) {
		switch bare[i] {
		case bare[0]:
			marks++
		case ' ', '\t':
		default:
			return false
		}
	}
	return marks >= 3
}
