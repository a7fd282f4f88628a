package roadmap

import (
	"bytes"
	"slices"
	"strings"

	"github.com/yuin/goldmark/text"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// row is a line of a table. Offsets are into the file.
type row struct {
	start, end int // without surrounding space
	cells      []span
	closed     bool // the row ends with a bar
}

// span is the text between two bars.
type span struct{ from, to int }

// splitRow splits a line at its bars, as GitHub does: a bar after a backslash is text, even in code.
func splitRow(src []byte, from, to int) row {
	for from < to && isSpace(src[from]) {
		from++
	}
	for from < to && isSpace(src[to-1]) {
		to--
	}
	r := row{start: from, end: to, cells: make([]span, 0, bytes.Count(src[from:to], []byte("|"))+1)}
	at := from
	if at < to && src[at] == '|' {
		at++
	}
	for i := at; i < to; i++ {
		if src[i] == '|' && (i == 0 || src[i-1] != '\\') {
			r.cells = append(r.cells, span{at, i})
			at, r.closed = i+1, i+1 == to
		}
	}
	if at < to {
		r.cells = append(r.cells, span{at, to})
	}
	return r
}

func isSpace(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' }

// hasBar reports whether the row contains a bar.
func (r row) hasBar(src []byte) bool {
	return len(r.cells) > 1 || r.closed || r.start < r.end && src[r.start] == '|'
}

// raw returns the text of the nth cell without the space around it; "" also if there is no such cell.
func (r row) raw(src []byte, n int) string {
	if n < 0 || n >= len(r.cells) {
		return ""
	}
	return string(bytes.Trim(src[r.cells[n].from:r.cells[n].to], " \t\r\n\v\f"))
}

// isDelimiter reports whether the row is the second one of a table: dashes in every cell.
func (r row) isDelimiter(src []byte) bool {
	for n := range r.cells {
		cell := r.raw(src, n)
		cell = strings.TrimSuffix(strings.TrimPrefix(cell, ":"), ":")
		if cell == "" || strings.Trim(cell, "-") != "" {
			return false
		}
	}
	return len(r.cells) > 0
}

// table is the column indexes of a roadmap table, -1 for missing ones.
type table struct {
	width                             int
	id, description, status, pr, plan int
	depends                           int
}

func columnName(title string) string {
	return strings.Join(strings.Fields(strings.ToLower(strings.NewReplacer("_", " ", "-", " ").Replace(plainText(title)))), " ")
}

// maxColumns is the maximum width of a roadmap table: wider ones hold data.
const maxColumns = 64

// fieldsByName returns the fields of t by the possible names of their columns.
func (t *table) fieldsByName() map[string]*int {
	return map[string]*int{
		"step": &t.id, "node": &t.id, "description": &t.description, "status": &t.status, "pr": &t.pr, "prs": &t.pr, "plan": &t.plan,
		"depends on": &t.depends, "dependencies": &t.depends,
	}
}

// isRoadmap reports whether a table with these columns is a roadmap.
func (t *table) isRoadmap() bool {
	return t.id >= 0 && (t.pr >= 0 || t.plan >= 0 || t.status >= 0) && t.width <= maxColumns
}

// newTable reads the first row of a table. It returns nil unless the table is a roadmap; twice is the name of a repeated
// column.
func newTable(src []byte, head row) (t *table, twice string) {
	t, twice, _ = readColumns(src, head)
	if !t.isRoadmap() {
		return nil, ""
	}
	return t, twice
}

// readColumns reads the first row of any table; others are the cells that name no column of a roadmap.
func readColumns(src []byte, head row) (t *table, twice string, others []int) {
	t = &table{len(head.cells), -1, -1, -1, -1, -1, -1}
	columns := t.fieldsByName()
	for n := range head.cells {
		name := cellText(head.raw(src, n))
		switch at, known := columns[columnName(name)]; {
		case !known:
			others = append(others, n)
		case *at >= 0:
			twice = name
		default:
			*at = n
		}
	}
	return t, twice, others
}

// columnFor returns the column of a cell to write to, or -1.
func (t *table) columnFor(c Cell) int {
	switch {
	case c == Status:
		return t.status
	case c == Plan && t.pr < 0:
		return -1
	case c == PR && t.pr >= 0:
		return t.pr
	}
	return t.plan
}

// readTables reads roadmap tables in a block of lines, and reports whether there was any table.
func (rd *reader) readTables(lines *text.Segments) (found bool) {
	rows := make([]row, lines.Len())
	for i := range rows {
		rows[i] = rd.splitLine(lines.At(i))
	}
	src := rd.Roadmap.src
	for i := range rows {
		if i+1 < len(rows) && rows[i].hasBar(src) && rows[i+1].isDelimiter(src) && len(rows[i].cells) == len(rows[i+1].cells) {
			rd.readTable(rows[i], rows[i+2:])
			return true
		}
		rd.checkStrayRow(rows[i], rows[i+1:])
	}
	return false
}

// checkStrayRow reports a row of a roadmap outside of a table.
func (rd *reader) checkStrayRow(r row, below []row) {
	src := rd.Roadmap.src
	if !r.hasBar(src) || rd.yaml != nil {
		return
	}
	if t, _ := newTable(src, r); t != nil && t.columnFor(PR) >= 0 && len(below) > 0 && below[0].hasBar(src) && below[0].isDelimiter(src) {
		rd.errorf(rd.line(r.start), "as many cells of dashes as the row above has: | --- | --- |", "these are %d columns of a roadmap, and the line of dashes below them has %d cells", t.width, len(below[0].cells))
	} else if t != nil && t.columnFor(PR) >= 0 {
		rd.errorf(rd.line(r.start), "as many cells of dashes as the row above has: | --- | --- |", "these columns of a roadmap have no line of dashes below them")
	} else if rd.afterTable && src[r.start] == '|' {
		rd.errorf(rd.line(r.start), "take away the blank line, the comment or the text between it and the table", "this row belongs to no table")
	}
}

// readTable reads a table whose first row is head.
func (rd *reader) readTable(head row, rows []row) {
	src := rd.Roadmap.src
	t, twice := newTable(src, head)
	line := rd.line(head.start)
	switch {
	case t == nil:
		rd.warnOfMisspelledColumns(head)
		rd.notRoadmap(head)
		return
	case rd.yaml != nil:
		rd.warnf(line, "", "this table is not read: the steps are those of the YAML block in line %d", rd.yaml.line)
		return
	case twice != "":
		rd.errorf(line, "", "the column %s appears twice", twice)
		return
	case t.columnFor(PR) < 0:
		rd.warnf(line, "add a column PR", "there is no PR column, so that no plan can be written to these steps")
	}
	rd.warnOfMisspelledColumns(head)
	rd.tableCount++
	rd.afterTable = true
	phase := rd.phaseIndex()
	rd.Steps = slices.Grow(rd.Steps, len(rows))
	cut := false // the previous row is incomplete
	for _, r := range rows {
		if barred := r.start < r.end && src[r.start] == '|'; cut && !barred && src[head.start] == '|' && r.hasBar(src) {
			rd.errorf(rd.line(r.start), "put both on one line", "this line continues the row above it, and is read as a row of its own")
		} else {
			rd.readStep(t, phase, r)
		}
		cut = !r.closed && len(r.cells) < t.width
	}
}

// notRoadmap keeps a problem for a table that may be meant as a roadmap, in case there is no other.
func (rd *reader) notRoadmap(head row) {
	for n := range head.cells {
		if c := columnName(cellText(head.raw(rd.Roadmap.src, n))); c == "step" || c == "node" {
			rd.nearMisses = append(rd.nearMisses, trellis.Problem{Line: rd.line(head.start), Message: "this table has no column PR, so it is not a roadmap", Hint: "add a column PR"})
		}
	}
}

func (rd *reader) readStep(t *table, phase int, r row) {
	src, line := rd.Roadmap.src, rd.line(r.start)
	if !r.hasBar(src) {
		rd.warnf(line, "put a blank line above it", "this line has no bar and is not read as a step")
		return
	}
	if !rd.checkRow(t, r, line) {
		return
	}
	cell := func(n int) string { return cellText(r.raw(src, n)) }
	s := Step{ID: stepID(cell(t.id)), Description: cell(t.description), Line: line, source: &tableRow{t, r}}
	if s.ID == "" {
		for n := range r.cells {
			if cell(n) != "" {
				rd.errorf(line, "write an id into its first cell", "this row has no step id")
				return
			}
		}
		return
	}
	s.status, s.pr = cell(t.status), cell(t.columnFor(PR))
	s.DependsOn, s.Stated = dependencies(cell(t.depends))
	s.plan = cell(t.columnFor(Plan))
	rd.setState(&s)
	if s.State == Pending && isStruckOut(cell(t.id)) {
		rd.errorf(line, "write skipped into its Status", "step %s is struck out, and still to be done", s.ID)
	}
	rd.addStep(s, phase)
}

// checkRow reports whether every cell of a row is complete, and that there are not too many.
func (rd *reader) checkRow(t *table, r row, line int) bool {
	src := rd.Roadmap.src
	const hint = `write \| for a bar in the text of a cell`
	for n := range min(t.width, len(r.cells)) {
		if what := brokenConstruct(r, src, n, t.width); what != "" {
			rd.errorf(line, hint, "a bar ends a cell inside of %s", what)
			return false
		}
	}
	if len(r.cells) <= t.width {
		return true
	}
	tail, _ := cutComments("|" + string(src[r.cells[t.width-1].from:r.end]))
	for n, extra := range splitRow([]byte(tail), 0, len(tail)).cells {
		if n > 0 && strings.TrimSpace(tail[extra.from:extra.to]) != "" {
			rd.errorf(line, hint+", and <!-- --> around a remark", "the row has %d cells, and the table %d columns", len(r.cells), t.width)
			return false
		}
	}
	return true
}

// brokenConstruct names the construct that begins in the nth cell of a row and ends in a later one, "" if there is none.
func brokenConstruct(r row, src []byte, n, width int) string {
	raw := r.raw(src, n)
	later := string(src[r.cells[n].to:r.end])
	if at := strings.LastIndex(raw, "<!--"); at >= 0 && !strings.Contains(raw[at:], "-->") && strings.Contains(later, "-->") && n < width-1 {
		return "a comment"
	}
	if run := openBackquotes(raw); run != "" && closingOffset(later, run) >= 0 {
		return "code"
	}
	return ""
}

// openBackquotes returns the backquotes that open code in s without closing it, or "".
func openBackquotes(s string) string {
	for {
		from := strings.IndexByte(s, '`')
		if from < 0 {
			return ""
		}
		run := backquotes(s[from:])
		rest := s[from+len(run):]
		end := closingOffset(rest, run)
		if end < 0 {
			return run
		}
		s = rest[end:]
	}
}

// closingOffset returns the offset after the next run of exactly that many backquotes, or -1.
func closingOffset(s, run string) int {
	for at := 0; ; {
		next := strings.IndexByte(s[at:], '`')
		if next < 0 {
			return -1
		}
		at += next
		n := len(backquotes(s[at:]))
		if at += n; n == len(run) {
			return at
		}
	}
}

// backquotes returns the backquotes that s begins with.
func backquotes(s string) string { return s[:len(s)-len(strings.TrimLeft(s, "`"))] }
