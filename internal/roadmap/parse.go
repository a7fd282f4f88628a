package roadmap

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/criteria"
	letters "github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

const (
	// maxBytes is the maximum size of an objective.
	maxBytes = 8 << 20
	// maxNested is the maximum number of quotations and lists that a line may begin. Parsing takes quadratic time in it.
	maxNested = 200
)

// textProblem returns the problem that prevents reading src as text, or nil.
func textProblem(src []byte) *trellis.Problem {
	switch {
	case len(src) > maxBytes:
		return &trellis.Problem{Line: 1, Message: fmt.Sprintf("is larger than the %d MB that Trellis reads", maxBytes>>20)}
	case !utf8.Valid(src):
		return &trellis.Problem{Line: 1 + bytes.Count(src[:letters.InvalidUTF8(string(src))], []byte("\n")), Message: "is not UTF-8 text", Hint: "save the file as UTF-8"}
	}
	if p := criteria.Conflict("", src); p != nil {
		return p
	}
	at := 0
	for line := range bytes.Lines(src) {
		if at++; nestingDepth(line) > maxNested {
			return &trellis.Problem{Line: at, Message: fmt.Sprintf("begins more than %d quotations and lists", maxNested)}
		}
	}
	return nil
}

// nestingDepth returns how many quotations and lists a line begins, or would begin if it were not a horizontal rule.
func nestingDepth(line []byte) (n int) {
	for i, b := range line {
		switch {
		case b == '>' || strings.IndexByte("-*+.)", b) >= 0 && i+1 < len(line) && isSpace(line[i+1]):
			n++
		case !isSpace(b) && (b < '0' || b > '9'):
			return n
		}
	}
	return n
}

// blockParser returns a parser for the blocks of Markdown. It does not parse the text inside of lines.
var blockParser = sync.OnceValue(func() parser.Parser {
	return parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...))
})

// reader parses a file.
type reader struct {
	*Roadmap
	src        []byte // the file without front matter
	base       int    // offset of src in the file
	lines      []int  // offsets in the file at which lines begin
	headings   []heading
	phases     map[string]heading // headings that say "Phase", by id
	hasTitle   bool
	tableCount int  // roadmap tables so far
	afterTable bool // there is a roadmap table below the last heading
	nearMisses []trellis.Problem
}

// heading is a heading that applies to the text below it.
type heading struct {
	level, line int
	text        string
}

func (r *Roadmap) read() {
	rd := &reader{Roadmap: r, phases: map[string]heading{}, lines: lineStarts(r.src)}
	rd.base = rd.readFrontMatter()
	rd.src = r.src[rd.base:]
	doc := blockParser().Parse(text.NewReader(rd.src))
	rd.findYAML(doc)
	_ = ast.Walk(doc, rd.readBlock) // never fails: readBlock returns no error
	rd.yamlSteps()
	rd.reportMissing()
}

// reportMissing reports a missing roadmap. An objective whose steps are not planned automatically may be prose only.
func (rd *reader) reportMissing() {
	if rd.tableCount > 0 || rd.yaml != nil || len(rd.Steps) > 0 {
		return
	}
	if len(rd.problems) == 0 && len(rd.nearMisses) > 0 {
		rd.problems = append(rd.problems, rd.nearMisses...)
		return
	}
	say := rd.warnf
	if rd.Auto || len(rd.problems) > 0 {
		say = rd.errorf
	}
	say(1, "add a table: | Step | Description | Status | PR |", "there is no roadmap: no table with the columns Step and PR")
}

func lineStarts(src []byte) []int {
	starts := []int{0}
	for i, b := range src {
		if b == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// line returns the line, from 1, of an offset in the file.
func (rd *reader) line(at int) int { return sort.SearchInts(rd.lines, at+1) }

// readBlock reads the relevant parts of a block, and keeps track of the headings that apply to what follows.
func (rd *reader) readBlock(n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	switch n := n.(type) {
	case *ast.Blockquote: // a quotation
		return ast.WalkSkipChildren, nil
	case *ast.Heading:
		if !rd.readTables(n.Lines()) { // a line of dashes below a table turns it into a heading
			rd.readHeading(n)
		}
		return ast.WalkSkipChildren, nil
	case *ast.HTMLBlock:
		rd.checkHTML(n)
		return ast.WalkSkipChildren, nil
	case *ast.Paragraph, *ast.TextBlock:
		rd.readTables(n.Lines())
		return ast.WalkSkipChildren, nil
	}
	if n.Type() == ast.TypeInline {
		return ast.WalkSkipChildren, nil
	}
	return ast.WalkContinue, nil
}

// checkHTML reports a roadmap inside HTML, where it is not parsed as a table.
func (rd *reader) checkHTML(n *ast.HTMLBlock) {
	if n.HTMLBlockType != ast.HTMLBlockType6 && n.HTMLBlockType != ast.HTMLBlockType7 || rd.yaml != nil {
		return // a comment, or preformatted text
	}
	src := rd.Roadmap.src
	for i := 1; i < n.Lines().Len(); i++ {
		head, dashes := rd.splitLine(n.Lines().At(i-1)), rd.splitLine(n.Lines().At(i))
		if !head.hasBar(src) || !dashes.isDelimiter(src) {
			continue
		}
		if t, _ := newTable(src, head); t != nil {
			rd.errorf(rd.line(head.start), "put a blank line above it", "this roadmap is in HTML, and is not a table there")
		}
	}
}

// splitLine returns a line of a block, split at its bars.
func (rd *reader) splitLine(s text.Segment) row {
	return splitRow(rd.Roadmap.src, rd.base+s.Start, rd.base+s.Stop)
}

func (rd *reader) readHeading(n *ast.Heading) {
	if n.Lines().Len() == 0 {
		return
	}
	first := n.Lines().At(0)
	title := plainText(strings.Join(strings.Fields(string(n.Lines().Value(rd.src))), " "))
	if n.Level == 1 && !rd.hasTitle {
		rd.hasTitle = true
		if t := withoutPrefix(title, "objective:"); t != "" {
			rd.Title = t
		}
	}
	for len(rd.headings) > 0 && rd.headings[len(rd.headings)-1].level >= n.Level {
		rd.headings = rd.headings[:len(rd.headings)-1]
	}
	h := heading{n.Level, rd.line(rd.base + first.Start), title}
	rd.headings = append(rd.headings, h)
	if id, ok := phaseID(title); ok {
		rd.phases[id] = h
	}
	rd.afterTable = false
}

// withoutPrefix returns s without a prefix, ignoring case.
func withoutPrefix(s, prefix string) string {
	if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		s = s[len(prefix):]
	}
	return strings.TrimSpace(s)
}

// phaseIndex returns the index of the phase for a table below the current headings: the innermost heading that says "Phase",
// otherwise the innermost one below the title that is not the roadmap's own.
func (rd *reader) phaseIndex() int {
	var at heading
	said := false
	for _, h := range rd.headings {
		_, says := phaseID(h.text)
		if says || !said && h.level > 1 && !strings.EqualFold(h.text, "roadmap") {
			at, said = h, says
		}
	}
	if last := len(rd.Phases) - 1; last >= 0 && rd.Phases[last].Line == at.line && rd.Phases[last].Title == at.text {
		return last
	}
	id, _ := phaseID(at.text)
	rd.Phases = append(rd.Phases, Phase{ID: id, Title: at.text, Line: at.line})
	return len(rd.Phases) - 1
}

var phasePattern = trellis.Pattern(`(?i)^phase\s+([\pL\pN.]+)`)

// phaseID returns 1A for "Phase 1A: Infrastructure (1 PR)", and whether the heading is that of a phase.
func phaseID(title string) (string, bool) {
	m := phasePattern().FindStringSubmatch(title)
	if m == nil {
		return "", false
	}
	return strings.TrimRight(m[1], "."), true
}
