package tui

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// unreadable stands for the status of a task whose task.json can't be read.
const unreadable trellis.Status = "broken"

// statusOrder are the statuses in the order of the list: first tasks that wait for a person, then those
// that go on by themselves, then those that are over.
var statusOrder = []trellis.Status{trellis.Waiting, trellis.Review, trellis.Failed, trellis.Paused, unreadable,
	trellis.InProgress, trellis.Planning, trellis.Ready, trellis.Rejected, trellis.Completed, trellis.Cancelled}

// statusPaint has the colours of the statuses that people should notice.
var statusPaint = map[trellis.Status]string{
	trellis.InProgress: cyan, trellis.Planning: cyan, trellis.Review: green, trellis.Completed: green, trellis.Failed: red,
	trellis.Rejected: red, unreadable: red, trellis.Waiting: yellow, trellis.Paused: yellow,
}

// list is the tasks as the left side shows them, with the selected one.
type list struct {
	all          map[string]*status.Task
	statusFilter trellis.Status // "": every status
	search       string
	rows         []row // all rows, on the screen or not
	counts       map[trellis.Status]int
	selected     string // id; "": there is no task
	longestID    int    // columns of the longest id that is shown
	selectedRow  int    // row of the selected task, or where it was
	top          int    // the first row on the screen
}

// row is a line of the list: a task, or the head of a group.
type row struct {
	head trellis.Status // "" of a task
	n    int            // tasks below a head
	id   string
}

func statusOf(t *status.Task) trellis.Status { return cmp.Or(t.Status, unreadable) }

func (l *list) set(tasks []status.Task) {
	clear(l.all)
	l.add(tasks)
}

// add adds tasks to those that the list has.
func (l *list) add(tasks []status.Task) {
	for i := range tasks {
		l.all[tasks[i].ID] = &tasks[i]
	}
	l.rebuildRows()
}

// put replaces one task by its current state; the rows are only rebuilt if its place or its title changes.
func (l *list) put(t status.Task) {
	was, there := l.all[t.ID]
	l.all[t.ID] = &t
	if !there || statusOf(was) != statusOf(&t) || was.Priority != t.Priority || was.Title != t.Title {
		l.rebuildRows()
	}
}

// drop removes a task that is gone.
func (l *list) drop(id string) {
	if _, there := l.all[id]; there {
		delete(l.all, id)
		l.rebuildRows()
	}
}

// replaceID removes a task that has another name now, and selects it under that name if it was selected.
func (l *list) replaceID(from, to string) {
	if _, there := l.all[from]; !there {
		return
	}
	if l.selected == from {
		l.selected = to
	}
	l.drop(from)
}

// rebuildRows rebuilds the rows and keeps the selected task, or the place where it was.
func (l *list) rebuildRows() {
	by := map[trellis.Status][]*status.Task{}
	l.counts = map[trellis.Status]int{}
	for _, t := range l.all {
		s := statusOf(t)
		l.counts[s]++
		if (l.statusFilter == "" || l.statusFilter == s) && l.matchesSearch(t) {
			by[s] = append(by[s], t)
		}
	}
	l.rows, l.longestID = l.rows[:0], 0
	for _, s := range statusOrder {
		tasks := by[s]
		if len(tasks) == 0 {
			continue
		}
		slices.SortFunc(tasks, func(a, b *status.Task) int { return strings.Compare(a.Order(), b.Order()) })
		l.rows = append(l.rows, row{head: s, n: len(tasks)})
		for _, t := range tasks {
			l.rows = append(l.rows, row{id: t.ID})
			l.longestID = max(l.longestID, ansi.StringWidthWc(displayID(t.ID)))
		}
	}
	if at := slices.IndexFunc(l.rows, func(r row) bool { return l.selected != "" && r.id == l.selected }); at >= 0 {
		l.selectedRow = at
		return
	}
	l.selectedRow = min(l.selectedRow, len(l.rows)-1)
	l.selectRow(max(l.selectedRow, 0), 1)
}

func (l *list) matchesSearch(t *status.Task) bool {
	if l.search == "" {
		return true
	}
	want := strings.ToLower(l.search)
	return strings.Contains(strings.ToLower(t.ID), want) || strings.Contains(strings.ToLower(t.Title), want)
}

// selectRow selects the task at a row, or the next one in a direction, or else the next one in the other direction.
func (l *list) selectRow(at, direction int) {
	for _, step := range []int{direction, -direction} {
		for i := at; i >= 0 && i < len(l.rows); i += step {
			if l.rows[i].id != "" {
				l.selectedRow, l.selected = i, l.rows[i].id
				return
			}
		}
	}
	l.selectedRow, l.selected = 0, ""
}

// move moves the selection by n rows, up if n is negative.
func (l *list) move(n int) {
	direction := 1
	if n < 0 {
		direction = -1
	}
	l.selectRow(min(max(l.selectedRow+n, 0), max(len(l.rows)-1, 0)), direction)
}

// filterByNextStatus shows only the next status that has tasks, and after the last one all tasks.
func (l *list) filterByNextStatus() {
	var there []trellis.Status
	for _, s := range statusOrder {
		if l.counts[s] > 0 {
			there = append(there, s)
		}
	}
	next := slices.Index(there, l.statusFilter) + 1 // Index returns -1 for ""
	if l.statusFilter = ""; next < len(there) {
		l.statusFilter = there[next]
	}
	l.rebuildRows()
}

// find shows only tasks that have these letters in their name or title.
func (l *list) find(search string) {
	if l.search != search {
		l.search = search
		l.rebuildRows()
	}
}

// task returns the selected task.
func (l *list) task() (*status.Task, bool) {
	t, ok := l.all[l.selected]
	return t, ok && l.selected != ""
}

// hasRunningTask reports whether a process works on a task.
func (l *list) hasRunningTask() bool {
	for _, t := range l.all {
		if t.HeldBy != nil {
			return true
		}
	}
	return false
}

// view returns the rows that fit into this much room.
func (l *list) view(p painter, width, height int, now time.Time) []string {
	if l.selectedRow < l.top {
		l.top = l.selectedRow
	}
	if l.selectedRow == 1 { // show the head above it too
		l.top = 0
	}
	l.top = max(0, min(max(l.top, l.selectedRow-height+1), len(l.rows)-height))
	var out []string
	ids := l.idWidth(width)
	for i := l.top; i < min(l.top+height, len(l.rows)); i++ {
		r := l.rows[i]
		if r.id == "" {
			head := strings.ToUpper(strings.ReplaceAll(string(r.head), "_", " "))
			out = append(out, p.paint(fit(head+" "+text.Count(r.n, "task"), width), bold))
			continue
		}
		out = append(out, l.taskLine(p, l.all[r.id], i == l.selectedRow, width, ids, now))
	}
	for len(out) < height {
		out = append(out, fit("", width))
	}
	return out
}

// Columns of a list that has room for titles: the least and the most for an id, those for the
// remark on a task, and the least for a title.
const (
	minIDWidth    = 36
	maxIDWidth    = 60
	remarkWidth   = 20
	minTitleWidth = 14
)

// idWidth returns how many columns ids get beside titles: as many as the longest takes, as far as there is room.
func (l *list) idWidth(width int) int {
	return max(minIDWidth, min(l.longestID, maxIDWidth, width-remarkWidth-minTitleWidth-6)) // 6 for the mark and the gaps
}

// displayID returns the name of a task as the list shows it.
func displayID(id string) string { return strings.TrimPrefix(oneLine(id), taskdir.DraftPrefix) }

// taskLine returns a task in one line: its name, what is special about it, and its title if there is room.
func (l *list) taskLine(p painter, t *status.Task, selected bool, width, ids int, now time.Time) string {
	mark := "  "
	if selected {
		mark = "> "
	}
	id := displayID(t.ID)
	remark := remarkOf(t, now)
	line := mark + text.ClipMiddle(id, width-len(mark))
	switch room := width - ansi.StringWidthWc(line) - 2; {
	case width >= 2*minIDWidth:
		line = mark + fit(text.ClipMiddle(id, ids), ids) + "  " + fit(remark, remarkWidth) + "  " + oneLine(t.Title)
	case remark != "" && room >= 8:
		line += "  " + remark
	}
	if line = fit(line, width); selected {
		return p.paint(line, reverse)
	}
	return p.paint(line, statusPaint[statusOf(t)])
}

// remarkOf returns what people want to know of a task besides its status.
func remarkOf(t *status.Task, now time.Time) string {
	switch {
	case t.Status == "" && len(t.Problems) > 0:
		flaw := t.Problems[0]
		flaw.File = filepath.Base(flaw.File) // the directory is in the same row
		return oneLine(flaw.Error())
	case t.Working() && t.HeldBy != nil:
		return strings.TrimSpace(t.Phase + " " + elapsed(t.Since, now))
	case t.Status == trellis.Planning && t.CutOff:
		return "cut off"
	case t.Failure.Code != "" && (t.Status == trellis.Failed || t.Status == trellis.Paused || t.Status == trellis.Planning):
		return string(t.Failure.Code)
	case t.NotStartedReason() != "":
		what := t.NotStartedReason() // the rest says what to do, as the page does
		return strings.TrimSpace(what[:strings.IndexAny(what, ":(")])
	}
	return oneLine(t.WaitingFor)
}

// elapsed returns how long ago a time was, "" if it is not known.
func elapsed(since string, now time.Time) string {
	at, err := time.Parse(time.RFC3339, since)
	if err != nil {
		return ""
	}
	return text.Seconds(max(now.Sub(at), 0).Seconds())
}
