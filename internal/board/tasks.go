package board

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// tasks has the cards of all tasks, kept up to date by events.
type tasks struct {
	p *app.Project

	statuses map[string]trellis.Status // of all tasks; only used by the goroutine of follow

	mu      sync.Mutex
	cards   map[string]*card // by directory name; a card that is here is never changed, but replaced
	order   []*card          // the same cards, as columns show them
	watcher string
	seq     uint64 // counts changes
	tabs    map[*tab]bool
	opened  int           // how many tabs were opened
	loaded  chan struct{} // closed once all tasks were read
	loadErr error         // why they can't be read
	closed  bool
}

// tab is a page that is open somewhere.
type tab struct {
	task      string        // the task that it shows; "": all
	browser   string        // the browser that it is in; "": unknown
	number    int           // counts tabs in the order in which they were opened
	wake      chan struct{} // something changed
	displaced chan struct{} // closed when another tab of the browser needs its connection
	ended     chan struct{}

	mu          sync.Mutex
	taskChanged bool // more changed than what the agent says and does
}

func newTasks(p *app.Project) *tasks {
	return &tasks{p: p, statuses: map[string]trellis.Status{}, cards: map[string]*card{}, tabs: map[*tab]bool{}, loaded: make(chan struct{})}
}

// follow reads all tasks, and then again those that events are about.
func (t *tasks) follow(ctx context.Context, feed <-chan events.Event) {
	t.load()
	for e := range feed {
		changed, activity := map[string]bool{}, []events.Event{}
		take := func(e events.Event) {
			if isAgentActivity(e) {
				activity = append(activity, e)
			} else {
				changed[e.Task] = true
			}
		}
		for take(e); len(changed) < 200; {
			select {
			case next, ok := <-feed:
				if ok {
					take(next)
					continue
				}
			default:
			}
			break
		}
		t.update(changed, activity)
		if ctx.Err() != nil {
			return
		}
	}
}

// isAgentActivity reports whether an event is about an agent at work, which does not change the state of its task.
func isAgentActivity(e events.Event) bool {
	return e.Kind == events.Tool || e.Kind == events.Text || e.Kind == events.Usage || e.Kind == events.Notice
}

func (t *tasks) load() {
	r := t.p.Reader()
	list, err := r.Tasks(status.Filter{})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loadErr, t.watcher = err, r.Watcher.String()
	for i := range list {
		c := newCard(&list[i]).withHTML()
		t.cards[c.ID], t.statuses[c.ID] = c, c.Status
	}
	t.order = slices.SortedFunc(maps.Values(t.cards), compareCards)
	t.seq++
	close(t.loaded)
}

// update reads the tasks that changed, and those that wait for them, and wakes the tabs that show them.
func (t *tasks) update(changed map[string]bool, activity []events.Event) {
	r := t.p.Reader()
	r.Known = t.statuses
	read := map[string]*card{}
	for id := range changed {
		read[id] = t.read(r, id)
	}
	for _, id := range t.dependents(read) {
		read[id] = t.read(r, id)
		changed[id] = true
	}
	t.mu.Lock()
	for id, c := range read {
		t.replaceCard(id, c)
	}
	for _, e := range activity {
		if c := t.cards[e.Task]; c != nil {
			t.replaceCard(e.Task, c.withEvent(e).withHTML())
		}
	}
	t.watcher = r.Watcher.String()
	t.seq++
	for tab := range t.tabs {
		tab.notify(changed, activity)
	}
	t.mu.Unlock()
}

// replaceCard replaces the card of a task, in its place among the others; nil removes it.
func (t *tasks) replaceCard(id string, c *card) {
	if was := t.cards[id]; was != nil {
		at, _ := slices.BinarySearchFunc(t.order, was, compareCards)
		t.order = slices.Delete(t.order, at, at+1)
		delete(t.cards, id)
	}
	if c != nil {
		at, _ := slices.BinarySearchFunc(t.order, c, compareCards)
		t.order = slices.Insert(t.order, at, c)
		t.cards[id] = c
	}
}

// read returns the card of a task in its current state, nil if the task is gone. A planning has the final name of its task.
func (t *tasks) read(r status.Reader, id string) *card {
	task, err := readTask(t.p, r, id)
	if err != nil {
		delete(r.Known, id)
		return nil
	}
	r.Known[id] = task.Status
	c := newCard(&task)
	t.mu.Lock()
	defer t.mu.Unlock()
	if was := t.cards[id]; was != nil {
		c.Doing = was.Doing
	}
	return c.withHTML()
}

// readTask reads a task by its directory name, even while it is planned.
func readTask(p *app.Project, r status.Reader, id string) (status.Task, error) {
	id = strings.TrimPrefix(id, taskdir.DraftPrefix)
	t, err := r.Task(filepath.Join(p.Store.Tasks(), id))
	if errors.Is(err, taskdir.ErrNotFound) {
		if draft, draftErr := r.Task(filepath.Join(p.Store.Tasks(), taskdir.DraftPrefix+id)); draftErr == nil && draft.Source != nil {
			return draft, nil
		}
	}
	return t, err
}

// dependents returns the tasks that depend on tasks whose status has changed.
func (t *tasks) dependents(read map[string]*card) (list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	moved := map[string]bool{}
	for id, c := range read {
		if was := t.cards[id]; c == nil || was == nil || c.Status != was.Status {
			moved[id] = true
		}
	}
	if len(moved) == 0 {
		return nil
	}
	for id, c := range t.cards {
		for _, on := range c.dependsOn {
			if moved[on] && read[id] == nil {
				list = append(list, id)
				break
			}
		}
	}
	return list
}

// all returns the cards of all tasks in their order, once they were read, with the count of changes.
func (t *tasks) all(ctx context.Context) ([]*card, uint64, string, error) {
	select {
	case <-t.loaded:
	case <-ctx.Done():
		return nil, 0, "", ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.order), t.seq, t.watcher, t.loadErr
}

// contains reports whether there is a task with this directory name.
func (t *tasks) contains(ctx context.Context, id string) bool {
	select {
	case <-t.loaded:
	case <-ctx.Done():
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, there := t.cards[id]
	return there
}

func (t *tasks) count() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seq
}

// maxBrowserTabs is how many tabs of a browser listen at the same time: it has six connections for
// all tabs, and one is left for their other requests.
const maxBrowserTabs = 5

// addTab registers a tab for changes. If its browser has too many tabs, the one that was opened first
// rests. It returns nil if the server ends.
func (t *tasks) addTab(task, browser string) *tab {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.opened++
	opened := &tab{task: task, browser: browser, number: t.opened, wake: make(chan struct{}, 1), displaced: make(chan struct{}), ended: make(chan struct{})}
	t.tabs[opened] = true
	var first *tab
	n := 0
	for one := range t.tabs {
		if browser != "" && one.browser == browser {
			if n++; first == nil || one.number < first.number {
				first = one
			}
		}
	}
	if n > maxBrowserTabs {
		close(first.displaced)
		delete(t.tabs, first)
	}
	return opened
}

func (t *tasks) removeTab(tab *tab) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.tabs, tab)
}

// close ends all tabs.
func (t *tasks) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	for tab := range t.tabs {
		close(tab.ended)
	}
}

// notify wakes a tab if it shows one of the tasks that changed.
func (t *tab) notify(changed map[string]bool, activity []events.Event) {
	whole, spoke := t.task == "" || changed[t.task], false
	for _, e := range activity {
		spoke = spoke || e.Task == t.task
	}
	if !whole && !spoke {
		return
	}
	t.mu.Lock()
	t.taskChanged = t.taskChanged || whole
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// takeTaskChanged reports whether more than what the agent says changed since the last call.
func (t *tab) takeTaskChanged() (whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	whole, t.taskChanged = t.taskChanged, false
	return whole
}
