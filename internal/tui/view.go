package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/trellis-tasks/trellis/internal/text"
)

// minSplitWidth is how wide a screen must be to show list and page side by side.
const minSplitWidth = 76

// screen draws a Model.
type screen struct{ m *Model }

// isSplit reports whether list and page are side by side.
func (s screen) isSplit() bool { return s.m.width >= minSplitWidth }

// listWidth returns how many columns the list gets.
func (s screen) listWidth() int {
	switch {
	case !s.isSplit():
		return s.m.width
	case s.m.width >= 140:
		return s.m.width / 2
	}
	return max(32, s.m.width*2/5)
}

// room returns how many rows list and page have.
func (s screen) room() int { return max(1, s.m.height-1-len(s.footer())) }

// pageRoom returns the size of a page's text, below its tabs.
func (s screen) pageRoom() (width, height int) {
	width = s.m.width
	if s.isSplit() {
		width -= s.listWidth() + 3
	}
	return max(width, 2), max(s.room()-2, 1)
}

// View returns the screen.
func (m *Model) View() tea.View {
	v := tea.NewView(strings.Join(screen{m}.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "trellis: " + m.name
	m.onDraw()
	return v
}

// lines returns the lines of the screen, as many as it has rows.
func (s screen) lines() []string {
	if s.m.width < 20 || s.m.height < 5 {
		return []string{fit("too small", s.m.width)}
	}
	if s.m.mode == readingSheet {
		return s.sheetScreen()
	}
	out := []string{s.header()}
	room := s.room()
	switch {
	case s.isSplit():
		left, right := s.m.list.view(s.m.paint, s.listWidth(), room, s.m.now()), s.pageView(room)
		for i := range room {
			out = append(out, left[i]+" │ "+right[i])
		}
	case s.m.pageFocused:
		out = append(out, s.pageView(room)...)
	default:
		out = append(out, s.m.list.view(s.m.paint, s.m.width, room, s.m.now())...)
	}
	return append(out, s.footer()...)
}

// header returns the first line: where the person is, and how many tasks are shown.
func (s screen) header() string {
	parts := []string{s.m.name}
	switch n := len(s.m.list.all); {
	case !s.m.loaded && n > 0:
		parts = append(parts, fmt.Sprintf("reading tasks … %d of %d", n, max(n, s.m.listing.total)))
	case !s.m.loaded:
		parts = append(parts, "reading tasks …")
	case s.m.list.statusFilter != "":
		parts = append(parts, fmt.Sprintf("%d of %s: %s", s.m.list.counts[s.m.list.statusFilter], text.Count(n, "task"), s.m.list.statusFilter))
	default:
		parts = append(parts, text.Count(n, "task"))
	}
	if s.m.list.search != "" && s.m.mode != searching {
		parts = append(parts, "search: "+s.m.list.search)
	}
	if s.m.watcher != "" {
		parts = append(parts, s.m.watcher)
	}
	return s.m.paint.paint(fit(" "+strings.Join(parts, " · "), s.m.width), reverse)
}

// pageView returns the right side: the tabs, and the page.
func (s screen) pageView(height int) []string {
	w, _ := s.pageRoom()
	out := []string{s.tabs(w), strings.Repeat("─", w)}
	p := &s.m.page
	switch {
	case s.m.list.selected == "" && s.m.loaded && len(s.m.list.all) == 0:
		p = &page{lines: []line{{"no tasks yet: n plans one", plain}}}
	case s.m.list.selected == "" && s.m.loaded:
		p = &page{lines: []line{{"no task is shown: esc shows all", plain}}}
	case !p.read && p.id != "":
		p = &page{lines: []line{{"reading …", plain}}}
	}
	out = append(out, p.view(s.m.paint, w, max(height-2, 0))...)
	return out[:max(height, 0)]
}

// tabs returns the names of the pages, with the one that is shown in brackets.
func (s screen) tabs(width int) string {
	names := make([]string, len(Tabs))
	for i, tab := range Tabs {
		names[i] = " " + string(tab) + " "
		if tab == s.m.tab {
			names[i] = "[" + string(tab) + "]"
		}
	}
	line := fit(strings.Join(names, ""), width)
	if s.m.pageFocused {
		return s.m.paint.paint(line, reverse)
	}
	return s.m.paint.paint(line, bold)
}

// footer returns the last lines: a question, what is typed, or a message, at most three of them.
func (s screen) footer() []string {
	text, how := s.m.message.Said, plain
	switch {
	case s.m.mode == searching:
		text = "/" + s.m.typed + "▏"
	case s.m.mode == enteringReason:
		text = "reject " + s.m.rejectedTask + ", since: " + s.m.typed + "▏  (enter, or esc)"
	case s.m.mode == confirming:
		text, how = s.m.question+" (y/n)", yellow
	case s.m.runningOrder != "" && text == "":
		text = s.m.runningOrder + " …"
	case text == "" && s.m.pageFocused:
		text = "? keys · esc back · j k scroll · tab next page · q end"
	case text == "":
		text = "? keys · enter read · / search · f status · n plan · s start · q end"
	case s.m.isError:
		how = red
	}
	text = visibleLine(text)
	if s.m.message.Next != "" && s.m.mode == browsing {
		text += " · next: " + visibleLine(s.m.message.Next)
	}
	parts := strings.Split(ansi.WrapWc(text, s.m.width, " "), "\n")
	if len(parts) > 3 {
		parts = append(parts[:2], ansi.TruncateWc(parts[2], s.m.width-2, "")+" …")
	}
	var out []string
	for _, part := range parts {
		out = append(out, s.m.paint.paint(fit(part, s.m.width), how))
	}
	return out
}

// visibleLine is oneLine, but keeps the blanks that are typed.
func visibleLine(s string) string {
	list := lines(strings.ReplaceAll(s, "\n", " "), plain)
	if len(list) == 0 {
		return ""
	}
	return list[0].text
}

func (s screen) sheetScreen() []string {
	all := sheetLines(s.m.width)
	top := min(s.m.sheetTop, max(0, len(all)-(s.m.height-1)))
	s.m.sheetTop = top
	var out []string
	for i := top; i < len(all) && len(out) < s.m.height-1; i++ {
		out = append(out, s.m.paint.paint(fit(all[i].text, s.m.width), all[i].paint))
	}
	for len(out) < s.m.height-1 {
		out = append(out, fit("", s.m.width))
	}
	return append(out, s.m.paint.paint(fit(" any key goes back · j k scroll", s.m.width), reverse))
}
