package tui

import "strings"

// page is the right side: what a tab shows of the selected task, and how far down it is scrolled.
type page struct {
	id          string // of the task
	tab         Tab
	lines       []line
	rows        []line  // the wrapped lines; nil: not wrapped yet
	width       int     // the columns that rows are wrapped to
	top         int     // the first row that is shown
	atEnd       bool    // the end is shown, and stays so when lines are added: a log that is followed
	read        bool    // the page has been read
	about       Subject // what an approval of the page is about
	seenSubject Subject // about, when a person saw the page last
	keyAction   string  // what the key that opened the page does, to be said once it is read
}

// show switches the page to another task or tab, at its beginning, or at its end for a log.
func (p *page) show(id string, tab Tab) {
	if p.id == id && p.tab == tab {
		return
	}
	*p = page{id: id, tab: tab, atEnd: tab == Log}
}

// setLines sets the lines that were read.
func (p *page) setLines(list []line) { p.read, p.lines, p.rows = true, list, nil }

// wrap returns the rows that the lines take in this width.
func (p *page) wrap(width int) []line {
	if p.rows == nil || p.width != width {
		p.rows, p.width = make([]line, 0, len(p.lines)), width
		for _, l := range p.lines {
			p.rows = append(p.rows, l.wrapped(width)...)
		}
	}
	return p.rows
}

// scroll scrolls by n rows, up if n is negative, in a room of this size.
func (p *page) scroll(n, width, height int) {
	last := p.lastTop(width, height)
	p.top = min(max(p.firstRow(width, height)+n, 0), last)
	p.atEnd = p.tab == Log && p.top == last
}

// firstRow returns the first row that is shown.
func (p *page) firstRow(width, height int) int {
	last := p.lastTop(width, height)
	if p.atEnd {
		return last
	}
	return min(p.top, last)
}

// lastTop returns the row that comes first when the end is shown.
func (p *page) lastTop(width, height int) int { return max(0, len(p.wrap(width))-height) }

// jump goes to the next file of a diff, or the one before.
func (p *page) jump(direction, width, height int) {
	rows := p.wrap(width)
	for i := p.firstRow(width, height) + direction; i >= 0 && i < len(rows); i += direction {
		if strings.HasPrefix(rows[i].text, "diff --git ") {
			p.top, p.atEnd = min(i, p.lastTop(width, height)), false
			return
		}
	}
}

// view returns the rows that fit into this much room.
func (p *page) view(paint painter, width, height int) []string {
	rows := p.wrap(width)
	var out []string
	for i := p.firstRow(width, height); i < len(rows) && len(out) < height; i++ {
		out = append(out, paint.paint(fit(rows[i].text, width), rows[i].paint))
	}
	for len(out) < height {
		out = append(out, fit("", width))
	}
	return out
}
