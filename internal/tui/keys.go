package tui

import (
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// key is something that a person can press while nothing is asked. The sheet consists of keys.
type key struct {
	bindings []string // names of the keys in bubbletea
	name     string   // name in the sheet
	help     string
	do       func(*Model) tea.Cmd
}

// section is a part of the sheet.
type section struct {
	title string
	keys  []key
}

// sheet returns all keys. Keys that destroy something ask first; see Model.ask.
func sheet() []section {
	return []section{
		{"move", []key{
			{[]string{"j", "down"}, "j ↓", "next task, or one line down in a page", func(m *Model) tea.Cmd { return m.move(1) }},
			{[]string{"k", "up"}, "k ↑", "previous task, or one line up", func(m *Model) tea.Cmd { return m.move(-1) }},
			{[]string{"pgdown", "ctrl+d", "space"}, "space", "one screen down", func(m *Model) tea.Cmd { return m.move(m.screenful()) }},
			{[]string{"pgup", "ctrl+u"}, "ctrl+u", "one screen up", func(m *Model) tea.Cmd { return m.move(-m.screenful()) }},
			{[]string{"g", "home"}, "g", "go to the top", func(m *Model) tea.Cmd { return m.move(-beyondEnd) }},
			{[]string{"G", "end"}, "G", "go to the end", func(m *Model) tea.Cmd { return m.move(beyondEnd) }},
			{[]string{"enter"}, "enter", "read the page", func(m *Model) tea.Cmd { m.pageFocused = m.list.selected != ""; return nil }},
			{[]string{"esc"}, "esc", "back to the list, then to all tasks", (*Model).back},
			{[]string{"tab", "l", "right"}, "tab →", "next page", func(m *Model) tea.Cmd { return m.switchTab(1) }},
			{[]string{"shift+tab", "h", "left"}, "h ←", "previous page", func(m *Model) tea.Cmd { return m.switchTab(-1) }},
			{[]string{"]"}, "]", "next file of a diff", func(m *Model) tea.Cmd { return m.jump(1) }},
			{[]string{"["}, "[", "previous file", func(m *Model) tea.Cmd { return m.jump(-1) }},
			{[]string{"/"}, "/", "search names and titles", func(m *Model) tea.Cmd { m.mode, m.typed = searching, m.list.search; return nil }},
			{[]string{"f"}, "f", "show only one status, then the next", func(m *Model) tea.Cmd { m.list.filterByNextStatus(); return m.showSelected() }},
		}},
		{"control the task", []key{
			{[]string{"s"}, "s", "start or resume", order(Start, "")},
			{[]string{"S"}, "S", "stop", order(Stop, "stop %s? Its agents are ended; its work stays, and s resumes it")},
			{[]string{"a"}, "a", "approve what [plan] shows", func(m *Model) tea.Cmd { return m.forTask(string(Approve), m.approve) }},
			{[]string{"x"}, "x", "reject what [plan] shows, with a reason", (*Model).startReject},
			{[]string{"R"}, "R", "retry", order(Retry, "")},
			{[]string{"c"}, "c", "cancel", order(Cancel, "cancel %s? Its worktree and branch stay; undo: R, or trellis undo")},
			{[]string{"d"}, "d", "deliver", order(Deliver, "push the branch of %s and open its pull request, as delivery says? Undo: close the pull request and delete the remote branch")},
		}},
		{"open", []key{
			{[]string{"n"}, "n", "plan a new task", func(m *Model) tea.Cmd { return m.runProgram(NewPlan) }},
			{[]string{"r"}, "r", "review the plan", func(m *Model) tea.Cmd { return m.runProgram(Review) }},
			{[]string{"e"}, "e", "edit the requirement", func(m *Model) tea.Cmd { return m.runProgram(Edit) }},
			{[]string{"o"}, "o", "open a shell in the worktree", func(m *Model) tea.Cmd { return m.runProgram(Shell) }},
			{[]string{"O"}, "O", "open the worktree in $EDITOR", func(m *Model) tea.Cmd { return m.runProgram(Editor) }},
		}},
		{"trellis ui", []key{
			{[]string{"?"}, "?", "show this help", func(m *Model) tea.Cmd { m.mode, m.typed = readingSheet, ""; m.sheetTop = 0; return nil }},
			{[]string{"ctrl+z"}, "ctrl+z", "suspend to the shell; fg returns", func(*Model) tea.Cmd { return tea.Suspend }},
			{[]string{"q", "ctrl+c"}, "q", "quit; running tasks continue", (*Model).quit},
		}},
	}
}

// beyondEnd is more lines than there are.
const beyondEnd = 1 << 30

func keysByName() map[string]*key {
	known := map[string]*key{}
	for _, s := range sheet() {
		for _, k := range s.keys {
			for _, name := range k.bindings {
				known[name] = &k
			}
		}
	}
	return known
}

// order returns the action of a key that gives the selected task an order, after a yes if ask is not "".
func order(o Order, ask string) func(*Model) tea.Cmd {
	return func(m *Model) tea.Cmd {
		return m.forTask(string(o), func(t *status.Task) tea.Cmd {
			if o == Stop && t.HeldBy == nil && !slices.Contains([]trellis.Status{trellis.InProgress, trellis.Paused}, t.Status) {
				m.refuseKey(t, "nothing runs that could be stopped")
				return nil
			}
			if o == Start && t.Status == trellis.Rejected {
				m.refuseKey(t, "[report] says why, and how to plan it again")
				return nil
			}
			if ask == "" {
				return m.giveOrder(o, t.ID, Subject{}, "")
			}
			m.ask(fmt.Sprintf(ask, t.ID), func() tea.Cmd { return m.giveOrder(o, t.ID, Subject{}, "") })
			return nil
		})
	}
}

// sheetLines returns the lines of the sheet in this width. The text of a key is wrapped below its first line.
func sheetLines(width int) (list []line) {
	const names = 11 // columns
	for i, s := range sheet() {
		if i > 0 {
			list = append(list, line{})
		}
		list = append(list, line{s.title, bold})
		for _, k := range s.keys {
			name := k.name
			for _, does := range (line{k.help, plain}).wrapped(width - names) {
				list = append(list, line{fit("  "+name, names) + does.text, plain})
				name = ""
			}
		}
	}
	list = append(list, line{})
	return append(list, line{"The mouse belongs to the terminal: text can be selected and copied.", plain}.wrapped(width)...)
}
