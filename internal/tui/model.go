package tui

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/taskdir"
)

// mode is what keys are taken for.
type mode int

const (
	browsing  mode = iota
	searching      // letters are a search
	reasoning      // letters are the reason of a rejection
	asked          // y is a yes to the question
	reference      // the sheet is shown
)

// Model is the screen. It is driven by one goroutine; what takes long is done by commands, whose messages tell it.
type Model struct {
	ctx   context.Context
	world World
	now   func() time.Time
	paint painter
	name  string // of the repository
	keys  map[string]*key

	width, height int
	list          list
	page          page
	tab           Tab
	reading       bool // keys move in the page
	loaded        bool // there was a whole list
	pressed       bool // a key was: what is selected was chosen by a person
	watcher       string
	feed          <-chan events.Event
	opened        bool // or about to be
	hand          hand

	mode     mode
	typed    string         // in searching and reasoning
	question string         // in asked
	yes      func() tea.Cmd // what a yes does
	target   string         // id of whose rejection the reason is
	about    Subject        // of that rejection
	sheetTop int

	said  Answer // the last line but for its next command
	wrong bool   // it tells of an error
	busy  string // the order that is carried out, "" for none

	listing           listing
	reads             map[string]bool // tasks that are read: true once more after that
	paging, pageAgain bool            // so too of the page
	guests            guests
	restore           func() // the terminal as it was
	drawn             func() // is told that the screen is to be drawn
	left              bool   // by a key

	ticking bool
	second  func() tea.Cmd // tells when a second is over
	ticks   int
}

// New is a screen of a world, which is read when the program begins.
func New(ctx context.Context, w World, name string, colour bool, now func() time.Time) *Model {
	return &Model{ctx: ctx, world: w, now: now, name: oneLine(name), paint: painter{colour}, keys: keysByName(), list: list{all: map[string]*status.Task{}}, tab: Now, reads: map[string]bool{}, width: 80, height: 24, restore: func() {}, drawn: func() {},
		second: func() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tick{} }) }}
}

// What commands tell the screen.
type (
	tasksRead struct {
		from  *Reading
		tasks []status.Task // the next of it
		more  bool
		err   error
	}
	taskRead struct {
		id   string
		task status.Task
		err  error
	}
	pageRead struct {
		id    string
		tab   Tab
		lines []line
		about Subject // of a yes to it
		err   error
	}
	opened struct {
		feed <-chan events.Event
		err  error
	}
	happened []events.Event // nil: there will be no more
	answered struct {
		answer Answer
		err    error
	}
	returned struct{ err error } // a program that had the terminal
	// Told is something worth knowing that no key asked for.
	Told string
	tick struct{}
)

// Init reads the tasks, which are shown before anything else is done.
func (m *Model) Init() tea.Cmd { return m.readTasks() }

// open listens to what happens from now on.
func (m *Model) open() tea.Msg {
	feed, err := m.world.Events(m.ctx)
	return opened{feed, err}
}

// Update takes a message.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.press(msg)
	case tea.PasteMsg:
		if m.mode == searching || m.mode == reasoning {
			m.typed += oneLine(msg.Content)
			m.typing()
			return m, m.look()
		}
	case tea.ResumeMsg:
		return m, tea.Batch(m.readTasks(), m.readPage())
	case tasksRead:
		return m, m.takeTasks(msg)
	case taskRead:
		return m, m.takeTask(msg)
	case pageRead:
		return m, m.takePage(msg)
	case opened:
		if m.feed = msg.feed; msg.err != nil {
			m.fail(fmt.Errorf("what happens is not told: %w", msg.err))
		}
		return m, tea.Batch(m.listen(), m.readTasks()) // what happened before was told by nobody
	case happened:
		return m, m.take(msg)
	case answered:
		m.busy = ""
		if m.said, m.wrong = msg.answer, false; msg.err != nil {
			m.fail(msg.err)
		}
		return m, tea.Batch(m.readTasks(), m.readPage())
	case returned:
		if msg.err != nil {
			m.fail(msg.err)
		}
		return m, tea.Batch(m.readTasks(), m.readPage())
	case Told:
		m.said, m.wrong = Answer{Said: string(msg)}, false
	case tick:
		return m, m.takeTick()
	}
	return m, nil
}

// fail says what went wrong, with the first thing to do about it.
func (m *Model) fail(err error) {
	m.said, m.wrong = Answer{Said: err.Error()}, true
	if hints := app.HintsOf(err); len(hints) > 0 {
		m.said.Next = hints[0]
	}
}

// listen waits for what happens, and takes all of it that is there.
func (m *Model) listen() tea.Cmd {
	feed := m.feed
	if feed == nil {
		return nil
	}
	return func() tea.Msg {
		e, ok := <-feed
		if !ok {
			return happened(nil)
		}
		list := happened{e}
		for range 1000 {
			select {
			case e, ok := <-feed:
				if !ok {
					return list
				}
				list = append(list, e)
			default:
				return list
			}
		}
		return list
	}
}

// take reads again what changed, and nothing else.
func (m *Model) take(list happened) tea.Cmd {
	if list == nil {
		if m.feed = nil; m.ctx.Err() == nil {
			m.fail(errors.New("events are unavailable: what is shown may be old"))
		}
		return nil
	}
	changed, page, all := map[string]bool{}, false, false
	for _, e := range list {
		page = page || e.Task == strings.TrimPrefix(m.page.id, taskdir.DraftPrefix)
		switch {
		case e.Task == "":
			all = true
		case e.Kind != events.Tool && e.Kind != events.Text && e.Kind != events.Usage && e.Kind != events.Notice: // they change no list
			changed[e.Task] = true
		}
	}
	cmds := []tea.Cmd{m.listen()}
	if all || len(changed) > 50 {
		cmds, changed = append(cmds, m.readTasks()), nil
	}
	for _, id := range slices.Sorted(maps.Keys(changed)) {
		cmds = append(cmds, m.readTask(id))
	}
	if page {
		cmds = append(cmds, m.readPage())
	}
	return tea.Batch(cmds...)
}

// clock ticks once a second as long as somebody is at work, and not at all when nobody is.
func (m *Model) clock() tea.Cmd {
	if m.ticking || !m.list.working() {
		return nil
	}
	m.ticking = true
	return m.second()
}

// reread is after how many ticks tasks at work are read again: who was killed tells nobody.
const reread = 10

func (m *Model) takeTick() tea.Cmd {
	m.ticking = false
	m.ticks++
	cmds := []tea.Cmd{m.clock()}
	if m.ticks%reread == 0 {
		for _, t := range m.list.all {
			if t.HeldBy != nil {
				cmds = append(cmds, m.readTask(t.ID))
			}
		}
	}
	return tea.Batch(cmds...)
}
