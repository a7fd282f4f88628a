package tui

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// listing is the state of the list while it is read.
type listing struct {
	on    bool
	again bool            // read it again after that
	tasks []status.Task   // so far
	of    int             // how many there are
	fresh map[string]bool // tasks that were read on their own meanwhile, maybe later than by the list
}

// readTasks reads the list, or has it read again if it is being read.
func (m *Model) readTasks() tea.Cmd {
	if m.listing.on {
		m.listing.again = true
		return nil
	}
	m.listing = listing{on: true, fresh: map[string]bool{}}
	return func() tea.Msg {
		from, err := m.world.Tasks()
		if err != nil {
			return tasksRead{err: err}
		}
		return m.readOn(from)
	}
}

// readOn reads the next tasks of a list.
func (m *Model) readOn(from *Reading) tea.Msg {
	tasks, more := from.Next(m.hand.yield)
	return tasksRead{from: from, tasks: tasks, more: more}
}

// takeTasks handles the next tasks of the list. The first ones of all are shown at once. Then the
// feed is opened, and all tasks are read again, as the feed has nothing of what happened before.
func (m *Model) takeTasks(msg tasksRead) tea.Cmd {
	var cmds []tea.Cmd
	switch {
	case msg.err != nil:
		m.fail(msg.err)
	case m.takeSome(msg):
		if m.opened {
			return tea.Batch(m.look(), m.clock(), func() tea.Msg { return m.readOn(msg.from) })
		}
	default:
		cmds = append(cmds, m.takeAll()...)
	}
	again := m.listing.again
	m.listing.on = false
	cmds = append(cmds, m.look(), m.clock())
	if !m.opened {
		m.opened = true
		cmds = append(cmds, m.open)
	} else if again {
		cmds = append(cmds, m.readTasks())
	}
	return tea.Batch(cmds...)
}

// takeSome adds tasks to the list, and shows them if none were shown before. It reports whether there are more.
func (m *Model) takeSome(msg tasksRead) bool {
	m.watcher = msg.from.Watcher
	m.listing.tasks, m.listing.of = append(m.listing.tasks, msg.tasks...), msg.from.Of
	if !m.loaded && msg.more {
		m.list.add(msg.tasks)
	}
	return msg.more
}

// takeAll shows the list that was read to its end, and reads again the tasks that may be older in it than what was shown.
func (m *Model) takeAll() (cmds []tea.Cmd) {
	m.list.set(m.listing.tasks)
	if m.loaded = true; !m.pressed {
		m.list.move(-far)
	}
	for _, id := range slices.Sorted(maps.Keys(m.listing.fresh)) {
		cmds = append(cmds, m.readTask(id))
	}
	return cmds
}

// readTask reads one task, or has it read again if it is being read.
func (m *Model) readTask(id string) tea.Cmd {
	id = strings.TrimPrefix(id, taskdir.DraftPrefix)
	if _, reads := m.reads[id]; reads {
		m.reads[id] = true
		return nil
	}
	m.reads[id] = false
	return func() tea.Msg {
		t, err := m.world.Task(id)
		return taskRead{id, t, err}
	}
}

func (m *Model) takeTask(msg taskRead) tea.Cmd {
	again := m.reads[msg.id]
	delete(m.reads, msg.id)
	if m.listing.on {
		m.listing.fresh[msg.id] = true
	}
	switch {
	case errors.Is(msg.err, taskdir.ErrNotFound):
		m.list.drop(msg.id)
		m.list.drop(taskdir.DraftPrefix + msg.id)
	case msg.err != nil:
		m.fail(msg.err)
	default:
		m.list.put(msg.task)
		m.list.renamed(taskdir.DraftPrefix+msg.task.ID, msg.task.ID) // if the task was a draft
	}
	cmds := []tea.Cmd{m.look(), m.clock()}
	if again {
		cmds = append(cmds, m.readTask(msg.id))
	}
	return tea.Batch(cmds...)
}

// look switches the page to the selected task and tab.
func (m *Model) look() tea.Cmd {
	if m.page.id == m.list.selected && m.page.tab == m.tab {
		return nil
	}
	m.page.show(m.list.selected, m.tab)
	if m.list.selected == "" {
		m.reading = false
	}
	return m.readPage()
}

// readPage reads the page, or has it read again if it is being read.
func (m *Model) readPage() tea.Cmd {
	if m.page.id == "" {
		return nil
	}
	if m.paging {
		m.pageAgain = true
		return nil
	}
	m.paging = true
	id, tab := m.page.id, m.page.tab
	return func() tea.Msg {
		lines, about, err := m.world.Page(m.ctx, id, tab)
		return pageRead{id, tab, lines, about, err}
	}
}

func (m *Model) takePage(msg pageRead) tea.Cmd {
	m.paging = false
	again := m.pageAgain
	m.pageAgain = false
	if msg.id == m.page.id && msg.tab == m.page.tab {
		m.page.fill(msg.lines)
		t, _ := m.list.task()
		if m.page.about = msg.about; m.page.seen == (Subject{}) || t == nil || t.Status != trellis.Waiting {
			m.page.seen = msg.about
		} else if m.page.seen != msg.about {
			m.said, m.wrong = Answer{Said: "it was changed since it was shown; this is what it is now"}, true
		}
		if msg.err != nil && !errors.Is(msg.err, context.Canceled) {
			wrong := lines(msg.err.Error(), red)
			for _, hint := range app.HintsOf(msg.err) {
				wrong = append(wrong, lines("next: "+hint, plain)...)
			}
			m.page.fill(wrong)
		} else {
			m.offer()
		}
	}
	if again {
		return m.readPage()
	}
	return nil
}

// offer says what a key does to the plan that it opened, once the plan is on the screen.
func (m *Model) offer() {
	if does := m.page.does; does != "" {
		m.page.does = ""
		m.said, m.wrong = Answer{Said: "this is the plan of " + m.page.id + ": " + does + " it"}, false
	}
}
