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
	active bool
	again  bool            // read it again after that
	tasks  []status.Task   // so far
	total  int             // how many there are
	fresh  map[string]bool // tasks that were read on their own meanwhile, maybe later than by the list
}

// readTasks reads the list, or has it read again if it is being read.
func (m *Model) readTasks() tea.Cmd {
	if m.listing.active {
		m.listing.again = true
		return nil
	}
	m.listing = listing{active: true, fresh: map[string]bool{}}
	return func() tea.Msg {
		from, err := m.world.Tasks()
		if err != nil {
			return tasksRead{err: err}
		}
		return m.readNext(from)
	}
}

// readNext reads the next tasks of a list.
func (m *Model) readNext(from *Reading) tea.Msg {
	tasks, more := from.Next(m.keyActivity.yield)
	return tasksRead{from: from, tasks: tasks, more: more}
}

// takeTasks handles the next tasks of the list. The first ones of all are shown at once. Then the
// feed is opened, and all tasks are read again, as the feed has nothing of what happened before.
func (m *Model) takeTasks(msg tasksRead) tea.Cmd {
	var cmds []tea.Cmd
	switch {
	case msg.err != nil:
		m.showError(msg.err)
	case m.addTasks(msg):
		if m.feedOpened {
			return tea.Batch(m.showSelected(), m.startTicking(), func() tea.Msg { return m.readNext(msg.from) })
		}
	default:
		cmds = append(cmds, m.finishList()...)
	}
	again := m.listing.again
	m.listing.active = false
	cmds = append(cmds, m.showSelected(), m.startTicking())
	if !m.feedOpened {
		m.feedOpened = true
		cmds = append(cmds, m.openFeed)
	} else if again {
		cmds = append(cmds, m.readTasks())
	}
	return tea.Batch(cmds...)
}

// addTasks adds tasks to the list, and shows them if none were shown before. It reports whether there are more.
func (m *Model) addTasks(msg tasksRead) bool {
	m.watcher = msg.from.Watcher
	m.listing.tasks, m.listing.total = append(m.listing.tasks, msg.tasks...), msg.from.Of
	if !m.loaded && msg.more {
		m.list.add(msg.tasks)
	}
	return msg.more
}

// finishList shows the list that was read to its end, and reads again the tasks that may be older in it than what was shown.
func (m *Model) finishList() (cmds []tea.Cmd) {
	m.list.set(m.listing.tasks)
	if m.loaded = true; !m.keyPressed {
		m.list.move(-beyondEnd)
	}
	for _, id := range slices.Sorted(maps.Keys(m.listing.fresh)) {
		cmds = append(cmds, m.readTask(id))
	}
	return cmds
}

// readTask reads one task, or has it read again if it is being read.
func (m *Model) readTask(id string) tea.Cmd {
	id = strings.TrimPrefix(id, taskdir.DraftPrefix)
	if _, reads := m.taskReads[id]; reads {
		m.taskReads[id] = true
		return nil
	}
	m.taskReads[id] = false
	return func() tea.Msg {
		t, err := m.world.Task(id)
		return taskRead{id, t, err}
	}
}

func (m *Model) takeTask(msg taskRead) tea.Cmd {
	again := m.taskReads[msg.id]
	delete(m.taskReads, msg.id)
	if m.listing.active {
		m.listing.fresh[msg.id] = true
	}
	switch {
	case errors.Is(msg.err, taskdir.ErrNotFound):
		m.list.drop(msg.id)
		m.list.drop(taskdir.DraftPrefix + msg.id)
	case msg.err != nil:
		m.showError(msg.err)
	default:
		m.list.put(msg.task)
		m.list.replaceID(taskdir.DraftPrefix+msg.task.ID, msg.task.ID) // if the task was a draft
	}
	cmds := []tea.Cmd{m.showSelected(), m.startTicking()}
	if again {
		cmds = append(cmds, m.readTask(msg.id))
	}
	return tea.Batch(cmds...)
}

// showSelected switches the page to the selected task and tab.
func (m *Model) showSelected() tea.Cmd {
	if m.page.id == m.list.selected && m.page.tab == m.tab {
		return nil
	}
	m.page.show(m.list.selected, m.tab)
	if m.list.selected == "" {
		m.pageFocused = false
	}
	return m.readPage()
}

// readPage reads the page, or has it read again if it is being read.
func (m *Model) readPage() tea.Cmd {
	if m.page.id == "" {
		return nil
	}
	if m.readingPage {
		m.rereadPage = true
		return nil
	}
	m.readingPage = true
	id, tab := m.page.id, m.page.tab
	return func() tea.Msg {
		lines, about, err := m.world.Page(m.ctx, id, tab)
		return pageRead{id, tab, lines, about, err}
	}
}

func (m *Model) takePage(msg pageRead) tea.Cmd {
	m.readingPage = false
	again := m.rereadPage
	m.rereadPage = false
	if msg.id == m.page.id && msg.tab == m.page.tab {
		m.page.setLines(msg.lines)
		t, _ := m.list.task()
		if m.page.about = msg.about; m.page.seenSubject == (Subject{}) || t == nil || t.Status != trellis.Waiting {
			m.page.seenSubject = msg.about
		} else if m.page.seenSubject != msg.about {
			m.message, m.isError = Answer{Said: "it was changed since it was shown; this is what it is now"}, true
		}
		if msg.err != nil && !errors.Is(msg.err, context.Canceled) {
			wrong := lines(msg.err.Error(), red)
			for _, hint := range app.HintsOf(msg.err) {
				wrong = append(wrong, lines("next: "+hint, plain)...)
			}
			m.page.setLines(wrong)
		} else {
			m.sayKeyAction()
		}
	}
	if again {
		return m.readPage()
	}
	return nil
}

// sayKeyAction says what a key does to the plan that it opened, once the plan is on the screen.
func (m *Model) sayKeyAction() {
	if does := m.page.keyAction; does != "" {
		m.page.keyAction = ""
		m.message, m.isError = Answer{Said: "this is the plan of " + m.page.id + ": " + does + " it"}, false
	}
}
