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

// mode says what keys mean.
type mode int

const (
	browsing  mode = iota
	searching      // letters are added to the search
	reasoning      // letters are added to the reason of a rejection
	asked          // y is a yes to the question
	reference      // the sheet is shown
)

// Model is the screen. One goroutine calls it; commands do what takes long, and send it messages.
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
	loaded        bool // the whole list has been read
	pressed       bool // a key was pressed, so that a person chose what is selected
	watcher       string
	feed          <-chan events.Event
	opened        bool // the feed is open, or about to be
	hand          hand

	mode     mode
	typed    string         // in searching and reasoning
	question string         // in asked
	yes      func() tea.Cmd // what a yes does
	target   string         // id of the task that the reason rejects
	about    Subject        // what the reason rejects
	sheetTop int

	said  Answer // what the last lines say
	wrong bool   // said is an error
	busy  string // the order that is being carried out, "" for none

	listing           listing
	reads             map[string]bool // tasks that are being read; true: read again after that
	paging, pageAgain bool            // the same for the page
	guests            guests
	restore           func() // restores the terminal
	drawn             func() // called when the screen is drawn
	left              bool   // the person ended it by a key

	ticking bool
	second  func() tea.Cmd // sends a tick after a second
	ticks   int
}

// New returns the screen of a world, which is read when the program begins.
func New(ctx context.Context, w World, name string, colour bool, now func() time.Time) *Model {
	return &Model{ctx: ctx, world: w, now: now, name: oneLine(name), paint: painter{colour}, keys: keysByName(), list: list{all: map[string]*status.Task{}}, tab: Now, reads: map[string]bool{}, width: 80, height: 24, restore: func() {}, drawn: func() {},
		second: func() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tick{} }) }}
}

// Messages that commands send.
type (
	tasksRead struct {
		from  *Reading
		tasks []status.Task // the next tasks of the list
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
		about Subject // what an approval of the page is about
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
	// Told is a message for the person that no key asked for.
	Told string
	tick struct{}
)

// Init reads the tasks, which are shown before anything else is done.
func (m *Model) Init() tea.Cmd { return m.readTasks() }

// open opens the feed of events from now on.
func (m *Model) open() tea.Msg {
	feed, err := m.world.Events(m.ctx)
	return opened{feed, err}
}

// Update handles a message.
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
		return m, tea.Batch(m.listen(), m.readTasks()) // the feed has nothing of what happened before
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

// fail shows an error, with the first thing to do about it.
func (m *Model) fail(err error) {
	m.said, m.wrong = Answer{Said: err.Error()}, true
	if hints := app.HintsOf(err); len(hints) > 0 {
		m.said.Next = hints[0]
	}
}

// listen waits for events, and takes all that are there.
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

// take reads again what events report as changed, and nothing else.
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

// clock ticks once a second as long as a process works on a task, and not at all otherwise.
func (m *Model) clock() tea.Cmd {
	if m.ticking || !m.list.working() {
		return nil
	}
	m.ticking = true
	return m.second()
}

// reread is the number of ticks after which tasks at work are read again: a process that was killed sends no event.
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
