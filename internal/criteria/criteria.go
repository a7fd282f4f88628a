// Package criteria reads the acceptance criteria of a prd.md, however people write them down. Every line below a heading of
// criteria is part of an item, or there is a problem with its line number: nothing is dropped silently. docs/reference/formats.md,
// "prd.md", is its contract.
package criteria

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Item is one criterion.
type Item struct {
	Line       int    // line of its text, from 1
	First, End int    // lines that belong to it, with the headings and introductions before it
	Text       string // on one line, with its Markdown
	Verify     string // command that exits with 0 if it is met, "" if there is none
	Level      string // must or should, "" if not stated
}

// MaxBytes is the maximum size of all criteria of a run together, as JSON.
const MaxBytes = 16 << 10

// Parse reads all sections of criteria of a prd.md, in order. Problems name file, and are sorted by line.
func Parse(file string, prd []byte) ([]Item, []trellis.Problem) {
	d := &document{file: file}
	d.lines, d.unclosed = scan(string(prd))
	d.readSections()
	d.problems = append(d.problems, conflicts(file, d.lines)...)
	slices.SortStableFunc(d.problems, func(a, b trellis.Problem) int { return a.Line - b.Line })
	return d.items, d.problems
}

// Conflicts returns the merge conflicts that git left in another document. One in code may be an example, and is a warning.
func Conflicts(file string, document []byte) []trellis.Problem {
	lines, _ := scan(string(document))
	return conflicts(file, lines)
}

// Conflict returns the first merge conflict that git left in the text of a document, nil if there is none.
func Conflict(file string, document []byte) *trellis.Problem {
	wrong := trellis.Errors(Conflicts(file, document))
	if len(wrong) == 0 {
		return nil
	}
	return &wrong[0]
}

// document is a prd.md that is being read.
type document struct {
	file     string
	lines    []line
	unclosed int // line of the code fence that is never closed, or 0
	items    []Item
	problems []trellis.Problem
}

func (d *document) errorf(at int, hint, format string, args ...any) *trellis.Problem {
	d.problems = append(d.problems, trellis.Problem{File: d.file, Line: at, Message: fmt.Sprintf(format, args...), Hint: hint})
	return &d.problems[len(d.problems)-1]
}

func (d *document) warnf(at int, hint, format string, args ...any) {
	d.errorf(at, hint, format, args...).Warning = true
}

// readSections walks the headings and reads the sections below those of criteria.
func (d *document) readSections() {
	first, hidden := true, 0
	for i := 0; i < len(d.lines); {
		l := d.lines[i]
		if hidden == 0 && d.unclosed > 0 && l.number > d.unclosed && hiddenHeading(l) {
			hidden = l.number
		}
		h, ok := d.heading(i)
		if !ok {
			i++
			continue
		}
		title := first && h.level == 1
		first = first && h.level > lowestLevel
		switch kind := relationOf(h.text, title); {
		case kind == namesCriteria && !h.isSentence():
			i = d.readSection(i, h)
			continue
		case kind == mentionsCriteria && h.level <= lowestLevel:
			d.warnf(l.number, "begin the heading with Acceptance Criteria if they are there", "%q is not read as a heading of acceptance criteria", h.text)
		}
		i += h.size
	}
	if hidden > 0 {
		d.errorf(d.unclosed, "close it with the same characters", "this code fence is never closed, it hides the heading of line %d", hidden)
	}
}

// conflicts returns the merge conflicts that git left, up to the first one that is outside of code: both of its sides would count.
// A conflict in code, partly or entirely, may be an example.
func conflicts(file string, lines []line) (list []trellis.Problem) {
	marks, met, begin := []string{"<<<<<<< ", "=======", ">>>>>>> "}, 0, line{}
	for _, l := range lines {
		switch {
		case l.kind == comment:
			continue
		case strings.HasPrefix(l.raw, marks[0]):
			met, begin = 1, l
			continue
		case begin.kind == code && l.kind != code: // the example has ended
			met = 0
		case met > 0 && strings.HasPrefix(l.raw, marks[met]):
			met++
		}
		if met < len(marks) {
			continue
		}
		if begin.kind != code && l.kind != code {
			return append(list, trellis.Problem{File: file, Line: begin.number, Message: trellis.MergeConflict, Hint: trellis.MendMergeConflict})
		}
		list = append(list, trellis.Problem{File: file, Line: begin.number, Message: "there is a merge conflict here, in code", Hint: "if git left it, " + trellis.MendMergeConflict, Warning: true})
		met = 0
	}
	return list
}

// hiddenHeading reports whether a line of code would be a heading of criteria.
func hiddenHeading(l line) bool {
	text, level := atx(l.bare)
	return level > 0 && relationOf(text, false) == namesCriteria
}

// readSection reads the section whose heading is at index i, and returns the index after it.
func (d *document) readSection(i int, h heading) int {
	end, before := d.sectionEnd(i, h), len(d.items)+len(d.problems)
	r := &reader{document: d}
	if h.rest != "" {
		r.readText(line{number: d.lines[i].number, indent: d.lines[i].indent + 1, bare: h.rest})
	}
	for at := i + h.size; at < end; {
		at = r.read(at, end)
	}
	r.finish()
	if d.unclosed > d.lines[i].number && d.unclosed <= d.lines[end-1].number {
		d.errorf(d.unclosed, "close it with the same characters", "this code fence is never closed: what follows is not read as acceptance criteria")
	}
	if before == len(d.items)+len(d.problems) {
		d.warnf(d.lines[i].number, "write a list below it", "there is no acceptance criterion under this heading")
	}
	return end
}

// sectionEnd returns the index of the line that ends the section of the heading at index i.
func (d *document) sectionEnd(i int, h heading) int {
	for at := i + h.size; at < len(d.lines); at++ {
		l := d.lines[at]
		switch {
		case l.kind == blank && h.rest != "" && d.lines[at-1].kind != blank && !d.isContinued(at, h):
			return at
		case l.kind == blank || l.kind == comment:
		case h.bullet:
			if l.indent <= h.indent {
				return at
			}
		default:
			if next, ok := d.heading(at); ok && next.level <= h.level && !(h.level > lowestLevel && next.namesPart()) {
				return at
			}
		}
	}
	return len(d.lines)
}

// isContinued reports whether the blank line at index i is followed by a list, or by a line that is indented more than the heading.
func (d *document) isContinued(i int, h heading) bool {
	for ; i < len(d.lines); i++ {
		if l := d.lines[i]; l.kind != blank && l.kind != comment {
			return l.indent > h.indent || !h.bullet && markerOf(l.bare).found()
		}
	}
	return false
}
