package diffview

import "fmt"

// Row is a line as it is displayed, or the header of a hunk.
type Row struct {
	Mark     Mark // 0: the other side has no corresponding line
	Old, New int
	Parts    []Part
	NoEnd    bool
}

// Head reports whether the row is the header of a hunk.
func (r Row) Head() bool { return r.Mark == header }

// Text returns the text of the line.
func (r Row) Text() (s string) {
	for _, p := range r.Parts {
		s += p.Text
	}
	return s
}

// Pair is a row in a side-by-side view.
type Pair struct{ Left, Right Row }

// Part is a piece of a line.
type Part struct {
	Text    string
	Class   Class
	Changed bool // differs from the corresponding line on the other side
}

// Unified returns at most most rows of the file's unified view, starting with row from, and the number of rows after them.
func (f *File) Unified(from, most int) (rows []Row, more int) {
	more = f.window(from, most, unifiedRows, func(h *Hunk) int { return len(h.Lines) + 1 }, func(s *rowBuilder, p rowContent) {
		switch {
		case p.isHeader:
			rows = append(rows, s.hunk.headerRow())
		case p.left >= 0:
			rows = append(rows, s.row(p.left, p.other))
		default:
			rows = append(rows, s.row(p.right, p.other))
		}
	})
	return rows, more
}

// Split returns rows of the file's side-by-side view, with from, most and more as in Unified.
func (f *File) Split(from, most int) (pairs []Pair, more int) {
	more = f.window(from, most, splitRows, splitRowCount, func(s *rowBuilder, p rowContent) {
		var pair Pair
		switch {
		case p.isHeader:
			pair = Pair{s.hunk.headerRow(), s.hunk.headerRow()}
		case p.left == p.right:
			pair.Left = s.row(p.left, -1)
			pair.Right = pair.Left
		default:
			if p.left >= 0 {
				pair.Left = s.row(p.left, p.right)
			}
			if p.right >= 0 {
				pair.Right = s.row(p.right, p.left)
			}
		}
		pairs = append(pairs, pair)
	})
	return pairs, more
}

// window calls show for the requested rows of the file, and returns the number of rows after them. A hunk that has none of the
// rows is only counted.
func (f *File) window(from, most int, places func(*Hunk) []rowContent, count func(*Hunk) int, show func(*rowBuilder, rowContent)) (more int) {
	from = max(from, 0)
	end, at, lang := from+max(most, 0), 0, languageOf(f.Name())
	for i := range f.Hunks {
		h := &f.Hunks[i]
		n := count(h)
		if at < end && at+n > from {
			s := &rowBuilder{hunk: h, lang: lang}
			for _, p := range places(h)[max(from-at, 0):min(end-at, n)] {
				show(s, p)
			}
		}
		at += n
		more += min(max(at-end, 0), n)
	}
	return more
}

// headerRow returns the header of a hunk.
func (h *Hunk) headerRow() Row {
	text := fmt.Sprintf("@@ -%d +%d @@", h.Old, h.New)
	if h.Section != "" {
		text += " " + h.Section
	}
	return Row{Mark: header, Parts: []Part{{Text: visible(text)}}}
}

// rowContent is the content of a row: indices of lines in a hunk, -1 for none.
type rowContent struct {
	isHeader    bool
	left, right int
	other       int // unified view: the corresponding line on the other side, -1 for none
}

// unifiedRows returns the rows of a hunk in the unified view.
func unifiedRows(h *Hunk) []rowContent {
	list := append(make([]rowContent, 0, len(h.Lines)+1), rowContent{isHeader: true, left: -1, right: -1, other: -1})
	h.blocks(func(i int) {
		list = append(list, rowContent{left: i, right: i, other: -1})
	}, func(olds, news, end int) {
		for i := olds; i < news; i++ {
			list = append(list, rowContent{left: i, right: -1, other: counterpart(i, olds, news, end)})
		}
		for i := news; i < end; i++ {
			list = append(list, rowContent{left: -1, right: i, other: counterpart(i, olds, news, end)})
		}
	})
	return list
}

// splitRows returns the rows of a hunk in the side-by-side view.
func splitRows(h *Hunk) []rowContent {
	list := append(make([]rowContent, 0, len(h.Lines)+1), rowContent{isHeader: true, left: -1, right: -1, other: -1})
	h.blocks(func(i int) {
		list = append(list, rowContent{left: i, right: i, other: -1})
	}, func(olds, news, end int) {
		for k := range max(news-olds, end-news) {
			p := rowContent{left: -1, right: -1, other: -1}
			if olds+k < news {
				p.left = olds + k
			}
			if news+k < end {
				p.right = news + k
			}
			list = append(list, p)
		}
	})
	return list
}

// splitRowCount returns the number of rows of a hunk in the side-by-side view.
func splitRowCount(h *Hunk) (n int) {
	n = 1
	h.blocks(func(int) { n++ }, func(olds, news, end int) { n += max(news-olds, end-news) })
	return n
}

// counterpart returns the line at the same position on the other side of a block of changes, -1 if there is none.
func counterpart(i, olds, news, end int) int {
	if i < news {
		if other := news + i - olds; other < end {
			return other
		}
		return -1
	}
	if other := olds + i - news; other < news {
		return other
	}
	return -1
}

// blocks iterates over the lines. It calls same for each unchanged line, and changed for each block of changes: its old lines
// begin at the first index, its new ones at the second, and it ends before the third.
func (h *Hunk) blocks(same func(int), changed func(olds, news, end int)) {
	for i := 0; i < len(h.Lines); {
		if h.Lines[i].Mark == Same {
			same(i)
			i++
			continue
		}
		news := i
		for news < len(h.Lines) && h.Lines[news].Mark == Minus {
			news++
		}
		end := news
		for end < len(h.Lines) && h.Lines[end].Mark == Plus {
			end++
		}
		changed(i, news, end)
		i = end
	}
}

// rowBuilder turns lines of a hunk into rows. It caches the lexer states of the lines up to the last one it has reached.
type rowBuilder struct {
	hunk   *Hunk
	lang   *language
	states []sideStates
}

// sideStates are the lexer states, on both sides, with which a line begins.
type sideStates struct{ old, now lexState }

// row returns the row of line i; other is the corresponding line on the other side, -1 for none.
func (s *rowBuilder) row(i, other int) Row {
	l := s.hunk.Lines[i]
	text := l.Text
	if l.Cut > 0 {
		text += "…"
	}
	var changed []bool
	if other >= 0 {
		changed = changedBytes(l.Text, s.hunk.Lines[other].Text)
	}
	return Row{Mark: l.Mark, Old: l.Old, New: l.New, NoEnd: l.NoEnd, Parts: splitParts(text, s.classes(i), changed)}
}

// classes returns the class of each byte of a line.
func (s *rowBuilder) classes(i int) []Class {
	if s.lang == nil {
		return nil
	}
	for at := len(s.states); at <= i; at++ { // a hunk begins in the zero state
		now := sideStates{}
		if at > 0 {
			now = s.nextStates(at - 1)
		}
		s.states = append(s.states, now)
	}
	l := s.hunk.Lines[i]
	begins := s.states[i].now
	if l.Mark == Minus {
		begins = s.states[i].old
	}
	classes := make([]Class, len(l.Text))
	s.lang.lex(begins, l.Text, classes)
	return classes
}

// nextStates returns the states with which the line after i begins.
func (s *rowBuilder) nextStates(i int) sideStates {
	l, was := s.hunk.Lines[i], s.states[i]
	if l.Mark != Plus {
		was.old = s.lang.lex(was.old, l.Text, nil)
	}
	if l.Mark != Minus {
		was.now = s.lang.lex(was.now, l.Text, nil)
	}
	return was
}
