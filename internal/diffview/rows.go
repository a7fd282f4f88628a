package diffview

import "fmt"

// Row is a line as it is shown. One without a number on either side is the head of a hunk.
type Row struct {
	Mark     Mark // 0: there is none on this side
	Old, New int
	Parts    []Part
	NoEnd    bool
}

// Head reports whether the row is the head of a hunk.
func (r Row) Head() bool { return r.Mark == header }

// Text is the line.
func (r Row) Text() (s string) {
	for _, p := range r.Parts {
		s += p.Text
	}
	return s
}

// Pair is a line as it was beside what it is now.
type Pair struct{ Left, Right Row }

// Part is a piece of a line.
type Part struct {
	Text    string
	Class   Class
	Changed bool // it is what is another in a line that was changed
}

// Unified are the rows of the file below each other from one on, at most so many, and how many more there are.
func (f *File) Unified(from, most int) (rows []Row, more int) {
	more = f.window(from, most, unified, func(h *Hunk) int { return len(h.Lines) + 1 }, func(s *shower, p place) {
		switch {
		case p.head:
			rows = append(rows, s.hunk.head())
		case p.left >= 0:
			rows = append(rows, s.row(p.left, p.with))
		default:
			rows = append(rows, s.row(p.right, p.with))
		}
	})
	return rows, more
}

// Split are the rows of the file side by side, as Unified counts them.
func (f *File) Split(from, most int) (pairs []Pair, more int) {
	more = f.window(from, most, split, beside, func(s *shower, p place) {
		var pair Pair
		switch {
		case p.head:
			pair = Pair{s.hunk.head(), s.hunk.head()}
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

// window shows the rows of the file that were asked for, and tells how many come after them. A hunk that is not among them
// is only counted.
func (f *File) window(from, most int, places func(*Hunk) []place, count func(*Hunk) int, show func(*shower, place)) (more int) {
	from = max(from, 0)
	end, at, lang := from+max(most, 0), 0, languageOf(f.Name())
	for i := range f.Hunks {
		h := &f.Hunks[i]
		n := count(h)
		if at < end && at+n > from {
			s := &shower{hunk: h, lang: lang}
			for _, p := range places(h)[max(from-at, 0):min(end-at, n)] {
				show(s, p)
			}
		}
		at += n
		more += min(max(at-end, 0), n)
	}
	return more
}

// head is the row above the lines of a hunk.
func (h *Hunk) head() Row {
	text := fmt.Sprintf("@@ -%d +%d @@", h.Old, h.New)
	if h.Section != "" {
		text += " " + h.Section
	}
	return Row{Mark: header, Parts: []Part{{Text: visible(text)}}}
}

// place is what stands in a row: lines of a hunk by their indices, -1 for none.
type place struct {
	head        bool
	left, right int
	with        int // unified: the line that it was, or became
}

// unified are the places of a hunk's lines below each other.
func unified(h *Hunk) []place {
	list := append(make([]place, 0, len(h.Lines)+1), place{head: true, left: -1, right: -1, with: -1})
	h.blocks(func(i int) {
		list = append(list, place{left: i, right: i, with: -1})
	}, func(olds, news, end int) {
		for i := olds; i < news; i++ {
			list = append(list, place{left: i, right: -1, with: partner(i, olds, news, end)})
		}
		for i := news; i < end; i++ {
			list = append(list, place{left: -1, right: i, with: partner(i, olds, news, end)})
		}
	})
	return list
}

// split are the places of a hunk's lines side by side.
func split(h *Hunk) []place {
	list := append(make([]place, 0, len(h.Lines)+1), place{head: true, left: -1, right: -1, with: -1})
	h.blocks(func(i int) {
		list = append(list, place{left: i, right: i, with: -1})
	}, func(olds, news, end int) {
		for k := range max(news-olds, end-news) {
			p := place{left: -1, right: -1, with: -1}
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

// beside is how many rows split makes of a hunk.
func beside(h *Hunk) (n int) {
	n = 1
	h.blocks(func(int) { n++ }, func(olds, news, end int) { n += max(news-olds, end-news) })
	return n
}

// partner is the line that one became, or was: that in the same place of a block, -1 for none.
func partner(i, olds, news, end int) int {
	if i < news {
		if with := news + i - olds; with < end {
			return with
		}
		return -1
	}
	if with := olds + i - news; with < news {
		return with
	}
	return -1
}

// blocks goes through the lines: those that are the same one by one, and those that were changed as blocks of old ones,
// from the first index on, and new ones, from the second on.
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

// shower makes rows of a hunk's lines. It knows how the language stands at each line that it has come to.
type shower struct {
	hunk   *Hunk
	lang   *language
	states []states
}

// states are what a line begins within, on both sides.
type states struct{ old, now state }

// row is a line, beside the one that it became or was, -1 for none.
func (s *shower) row(i, with int) Row {
	l := s.hunk.Lines[i]
	text := l.Text
	if l.Cut > 0 {
		text += "…"
	}
	var changed []bool
	if with >= 0 {
		changed = differing(l.Text, s.hunk.Lines[with].Text)
	}
	return Row{Mark: l.Mark, Old: l.Old, New: l.New, NoEnd: l.NoEnd, Parts: parts(text, s.classes(i), changed)}
}

// classes are those of the bytes of a line.
func (s *shower) classes(i int) []Class {
	if s.lang == nil {
		return nil
	}
	for at := len(s.states); at <= i; at++ { // where none is known begins the hunk
		now := states{}
		if at > 0 {
			now = s.after(at - 1)
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

// after is what the line behind one begins within.
func (s *shower) after(i int) states {
	l, was := s.hunk.Lines[i], s.states[i]
	if l.Mark != Plus {
		was.old = s.lang.lex(was.old, l.Text, nil)
	}
	if l.Mark != Minus {
		was.now = s.lang.lex(was.now, l.Text, nil)
	}
	return was
}
