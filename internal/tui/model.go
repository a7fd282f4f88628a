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
	browsing       mode = iota
	searching           // letters are added to the search
	enteringReason      // letters are added to the reason of a rejection
	confirming          // y is a yes to the question
	readingSheet        // the sheet is shown
)

// Model is the screen. One goroutine calls it; commands do what takes long, and send it messages.
type Model struct {
	ctx   context.Context
	world Backend
	now   func() time.Time
	paint painter
	name  string // of the repository
	keys  map[string]*key

	width, height int
	list          list
	page          page
	tab           Tab
	pageFocused   bool // keys move in the page
	loaded        bool // the whole list has been read
	keyPressed    bool // a key was pressed, so that a person chose what is selected
	watcher       string
	feed          <-chan events.Event
	feedOpened    bool // the feed is open, or about to be
	keyActivity   keyActivity

	mode            mode
	typed           string         // in searching and enteringReason
	question        string         // in confirming
	confirmed       func() tea.Cmd // what a yes does
	rejectedTask    string         // id of the task that the reason rejects
	rejectedSubject Subject        // what the reason rejects
	sheetTop        int

	message      Answer // what the last lines say
	isError      bool   // message is an error
	runningOrder string // the order that is being carried out, "" for none

	listing                 listing
	taskReads               map[string]bool // tasks that are being read; true: read again after that
	readingPage, rereadPage bool            // the same for the page
	terminalOwner           terminalOwner
	restore                 func() // restores the terminal
	onDraw                  func() // called when the screen is drawn
	quitByKey               bool   // the person ended it by a key

	ticking  bool
	nextTick func() tea.Cmd // sends a tick after a second
	ticks    int
}

// New returns the screen of a world, which is read when the program begins.
func New(ctx context.Context, w Backend, name string, colour bool, now func() time.Time) *Model {
	return &Model{ctx: ctx, world: w, now: now, name: oneLine(name), paint: painter{colour}, keys: keysByName(), list: list{all: map[string]*status.Task{}}, tab: Now, taskReads: map[string]bool{}, width: 80, height: 24, restore: func() {}, onDraw: func() {},
		nextTick: func() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tick{} }) }}
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
	feedOpened struct {
		feed <-chan events.Event
		err  error
	}
	eventBatch []events.Event // nil: there will be no more
	orderDone  struct {
		answer Answer
		err    error
	}
	programEnded struct{ err error } // a program that had the terminal
	// Notice is a message for the person that no key asked for.
	Notice string
	tick   struct{}
)

// Init reads the tasks, which are shown before anything else is done.
func (m *Model) Init() tea.Cmd { return m.readTasks() }

// openFeed opens the feed of events from now on.
func (m *Model) openFeed() tea.Msg {
	feed, err := m.world.Events(m.ctx)
	return feedOpened{feed, err}
}

// Update handles a message.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.press(msg)
	case tea.PasteMsg:
		if m.mode == searching || m.mode == enteringReason {
			m.typed += oneLine(msg.Content)
			m.updateSearch()
			return m, m.showSelected()
		}
	case tea.ResumeMsg:
		return m, tea.Batch(m.readTasks(), m.readPage())
	case tasksRead:
		return m, m.takeTasks(msg)
	case taskRead:
		return m, m.takeTask(msg)
	case pageRead:
		return m, m.takePage(msg)
	case feedOpened:
		if m.feed = msg.feed; msg.err != nil {
			m.showError(fmt.Errorf("events can't be shown: %w", msg.err))
		}
		return m, tea.Batch(m.nextEvents(), m.readTasks()) // the feed has nothing of what happened before
	case eventBatch:
		return m, m.applyEvents(msg)
	case orderDone:
		m.runningOrder = ""
		if m.message, m.isError = msg.answer, false; msg.err != nil {
			m.showError(msg.err)
		}
		return m, tea.Batch(m.readTasks(), m.readPage())
	case programEnded:
		if msg.err != nil {
			m.showError(msg.err)
		}
		return m, tea.Batch(m.readTasks(), m.readPage())
	case Notice:
		m.message, m.isError = Answer{Said: string(msg)}, false
	case tick:
		return m, m.takeTick()
	}
	return m, nil
}

// showError shows an error, with the first thing to do about it.
func (m *Model) showError(err error) {
	m.message, m.isError = Answer{Said: err.Error()}, true
	if hints := app.HintsOf(err); len(hints) > 0 {
		m.message.Next = hints[0]
	}
}

// nextEvents waits for events, and takes all that are there.
func (m *Model) nextEvents() tea.Cmd {
	feed := m.feed
	if feed == nil {
		return nil
	}
	return func() tea.Msg {
		e, ok := <-feed
		if !ok {
			return eventBatch(nil)
		}
		list := eventBatch{e}
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

// applyEvents reads again what events report as changed, and nothing else.
func (m *Model) applyEvents(list eventBatch) tea.Cmd {
	if list == nil {
		if m.feed = nil; m.ctx.Err() == nil {
			m.showError(errors.New("events are unavailable: what is shown may be old"))
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
	cmds := []tea.Cmd{m.nextEvents()}
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

// startTicking ticks once a second as long as a process works on a task, and not at all otherwise.
func (m *Model) startTicking() tea.Cmd {
	if m.ticking || !m.list.hasRunningTask() {
		return nil
	}
	m.ticking = true
	return m.nextTick()
}

// rereadTicks is the number of ticks after which tasks at work are read again: a process that was killed sends no event.
const rereadTicks = 10

func (m *Model) takeTick() tea.Cmd {
	m.ticking = false
	m.ticks++
	cmds := []tea.Cmd{m.startTicking()}
	if m.ticks%rereadTicks == 0 {
		for _, t := range m.list.all {
			if t.HeldBy != nil {
				cmds = append(cmds, m.readTask(t.ID))
			}
		}
	}
	return tea.Batch(cmds...)
}
