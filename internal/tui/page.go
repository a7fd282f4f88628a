package tui

import "strings"

// page is the right side: what a tab says of the selected task, and how far down it is read.
type page struct {
	id    string // of the task
	tab   Tab
	lines []line
	top   int  // the first line that is shown
	ends  bool // the end is shown, and stays so when lines come: a log that is followed
	read  bool // there was an answer
}

// show has the page show another task or tab, from its beginning; a log from its end.
func (p *page) show(id string, tab Tab) {
	if p.id == id && p.tab == tab {
		return
	}
	*p = page{id: id, tab: tab, ends: tab == Log}
}

// scroll goes on by that many lines, up when it is negative, in a room of this size.
func (p *page) scroll(n, width, height int) {
	last := p.last(width, height)
	p.top = min(max(p.from(width, height)+n, 0), last)
	p.ends = p.tab == Log && p.top == last
}

// from is the first line that is shown.
func (p *page) from(width, height int) int {
	last := p.last(width, height)
	if p.ends {
		return last
	}
	return min(p.top, last)
}

// last is the line that stands first when the end is shown.
func (p *page) last(width, height int) int {
	n := 0
	for i := len(p.lines) - 1; i >= 0; i-- {
		if n += len(p.lines[i].wrapped(width)); n > height {
			return i + 1
		}
	}
	return 0
}

// jump goes to the next file of a diff, or the one before.
func (p *page) jump(direction, width, height int) {
	for i := p.from(width, height) + direction; i >= 0 && i < len(p.lines); i += direction {
		if strings.HasPrefix(p.lines[i].text, "diff --git ") {
			p.top, p.ends = min(i, p.last(width, height)), false
			return
		}
	}
}

// view are the lines in this much room.
func (p *page) view(paint painter, width, height int) []string {
	var out []string
	for i := p.from(width, height); i < len(p.lines) && len(out) < height; i++ {
		for _, l := range p.lines[i].wrapped(width) {
			if len(out) < height {
				out = append(out, paint.paint(fit(l.text, width), l.paint))
			}
		}
	}
	for len(out) < height {
		out = append(out, fit("", width))
	}
	return out
}
