package status

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Feed reports what happens to the tasks of a repository while it happens, whichever process works
// on them, from the files on disk. While no process works it does nothing until a file changes.
type Feed struct {
	Store taskdir.Store
	// Decode returns a decoder of the raw stream that an agent of that name leaves.
	Decode func(agent string) func(line string) []agents.Event
	Now    func() time.Time
	Emit   func(events.Event)                   // called by one goroutine
	After  func(time.Duration) <-chan time.Time // nil: time.After

	began            time.Time
	notify           *fsnotify.Watcher // nil: file events are not available
	changed          map[string]bool   // tasks to report, by directory name
	followed         map[string]*followed
	files            map[string]time.Time // without file events: when each task.json was last written
	journalChanged   bool                 // a journal was written to
	heartbeatChanged bool                 // the watcher wrote its heartbeat
	waits            waitsByTask
}

// followed is a task that a process works on.
type followed struct {
	log   *Log
	state pipeline.TaskState // as the run wrote it last
	idle  bool               // its run has ended, or waits
}

const (
	// feedSettle is how long changes of files are collected before they are reported together.
	feedSettle = 50 * time.Millisecond
	// feedReadInterval is the interval at which the journals and streams of running tasks are read, whatever file events say.
	feedReadInterval = 150 * time.Millisecond
	// feedPollInterval is the interval at which all tasks are scanned if there are no file events.
	feedPollInterval = 2 * time.Second
)

// Run reports everything from now on until ctx is done. It calls begun once nothing that happens afterwards can be missed.
func (f *Feed) Run(ctx context.Context, begun func()) error {
	f.began = f.Now()
	f.changed, f.followed, f.files = map[string]bool{}, map[string]*followed{}, map[string]time.Time{}
	after := f.After
	if after == nil {
		after = time.After
	}
	if n, err := fsnotify.NewBufferedWatcher(4096); err == nil {
		f.notify = n
		defer n.Close()
	}
	if err := f.scan(false); err != nil {
		return err
	}
	f.waits = readWatcherWaits(f.Store.Root, f.Now())
	begun()
	var settle, look, poll <-chan time.Time
	for {
		if f.notify == nil && poll == nil {
			poll = after(feedPollInterval)
		}
		if look == nil && f.busy() {
			look = after(feedReadInterval)
		}
		if settle == nil && (len(f.changed) > 0 || f.journalChanged || f.heartbeatChanged) {
			settle = after(feedSettle)
		}
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-f.fileEvents():
			if ok {
				f.handleFileEvent(e)
			} else {
				f.notify = nil
			}
		case err, ok := <-f.watchErrors():
			if ok && errors.Is(err, fsnotify.ErrEventOverflow) && f.scan(true) != nil && poll == nil {
				poll = after(feedPollInterval) // repeat a scan that failed
			}
		case <-settle:
			settle = nil
			f.flush()
		case <-look:
			look = nil
			f.readLogs()
		case <-poll:
			poll, f.heartbeatChanged = nil, true
			if f.scan(true) != nil {
				poll = after(feedPollInterval)
			}
		}
	}
}

func (f *Feed) fileEvents() <-chan fsnotify.Event {
	if f.notify == nil {
		return nil
	}
	return f.notify.Events
}

func (f *Feed) watchErrors() <-chan error {
	if f.notify == nil {
		return nil
	}
	return f.notify.Errors
}

// scan checks all tasks for changes. The first scan, without tell, reports nothing.
func (f *Feed) scan(tell bool) error {
	f.watchFolder(f.Store.Tasks())
	f.watchFolder(filepath.Dir(f.Store.Tasks())) // where the folder of the watcher's heartbeat appears
	f.watchFolder(filepath.Dir(pulse.File(f.Store.Root)))
	entries, err := os.ReadDir(f.Store.Tasks())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for tasks: %w", err)
	}
	there := map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || !isTask(name) {
			continue
		}
		there[name] = true
		last, known := f.files[name]
		now := modTime(filepath.Join(f.Store.Tasks(), name, taskdir.TaskJSON))
		if f.files[name] = now; known && now.Equal(last) {
			continue
		}
		if !known {
			f.watchFolder(filepath.Join(f.Store.Tasks(), name))
		}
		if tell {
			f.changed[name] = true
		} else {
			f.follow(name)
		}
	}
	for name := range f.files {
		if !there[name] {
			delete(f.files, name)
			f.changed[name] = true
		}
	}
	return nil
}

// watchFolder watches a folder. One that is gone is ignored; any other error, as at the limit of watches, turns to polling.
func (f *Feed) watchFolder(dir string) {
	if f.notify == nil {
		return
	}
	if err := f.notify.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.notify.Close()
		f.notify = nil
	}
}

// isTask reports whether an entry of the tasks folder is a task, or one that is being planned.
func isTask(name string) bool {
	return name != "archive" && (!strings.HasPrefix(name, ".") || strings.HasPrefix(name, taskdir.DraftPrefix))
}

// handleFileEvent handles an event of a file.
func (f *Feed) handleFileEvent(e fsnotify.Event) {
	switch beats := filepath.Dir(pulse.File(f.Store.Root)); {
	case e.Name == beats:
		f.watchFolder(beats)
		f.heartbeatChanged = true
		return
	case e.Name == f.Store.Tasks():
		f.watchFolder(e.Name)
		_ = f.scan(true) // the next event repeats a scan that failed
		return
	case filepath.Dir(e.Name) == beats:
		f.heartbeatChanged = f.heartbeatChanged || e.Name == pulse.File(f.Store.Root) || e.Name == pulse.Lock(f.Store.Root)
		return
	}
	rel, err := filepath.Rel(f.Store.Tasks(), e.Name)
	if err != nil || rel == "." {
		return
	}
	name, rest, below := strings.Cut(filepath.ToSlash(rel), "/")
	if strings.HasPrefix(rel, "..") || !isTask(name) {
		return
	}
	if strings.HasPrefix(rest, taskdir.Run+"/") { // run/ has the journal and the streams, not the state of the task
		if f.journalChanged = true; f.followed[name] != nil {
			f.followed[name].idle = false
		}
		return
	}
	if !below {
		f.watchFolder(filepath.Join(f.Store.Tasks(), name))
	}
	f.changed[name] = true
}

// flush reports the tasks that changed, follows those that a process works on now, and reports what is new in them.
func (f *Feed) flush() {
	f.flushChanged()
	if f.heartbeatChanged {
		f.heartbeatChanged = false
		f.reportWaits()
	}
	if f.journalChanged {
		f.journalChanged = false
		f.readLogs()
	}
}

func (f *Feed) flushChanged() {
	names := slices.Sorted(maps.Keys(f.changed))
	clear(f.changed)
	for _, name := range names {
		dir := filepath.Join(f.Store.Tasks(), name)
		if at := modTime(filepath.Join(dir, taskdir.TaskJSON)); !at.IsZero() {
			f.files[name] = at
		}
		f.emit(name, events.Event{Kind: events.Changed})
		f.follow(name)
	}
}

// follow follows a task if a process works on it.
func (f *Feed) follow(name string) {
	dir := filepath.Join(f.Store.Tasks(), name)
	if holder(dir) == nil {
		return
	}
	f.watchFolder(filepath.Join(dir, taskdir.Run))
	f.journalChanged = true
	if at := f.followed[name]; at != nil {
		at.idle = false
	} else {
		f.followed[name] = &followed{log: &Log{Dir: dir, Decode: f.Decode, Run: LastRun, checks: true}}
	}
}

// readLogs reports what is new in the tasks that are followed.
func (f *Feed) readLogs() {
	for name, at := range f.followed {
		if at.idle {
			continue
		}
		noHolder := holder(at.log.Dir) == nil // before the log is read: a process may write and end after that
		lines, ended, err := at.log.Next()
		f.reportLines(at, lines)
		if _, gone := os.Stat(at.log.Dir); gone != nil {
			delete(f.followed, name)
		} else if ended || err != nil || len(lines) == 0 && noHolder {
			at.idle, at.log.history = true, nil
		}
	}
}

// reportLines reports lines, except those from before this feed began.
func (f *Feed) reportLines(at *followed, lines []Line) {
	old := map[string]bool{} // calls that began before the feed
	for _, l := range lines {
		before := l.At.Before(f.began)
		if l.Kind == KindStart && before {
			old[l.ID] = true
		}
		if l.Kind == KindAgent || l.Kind == kindCheck { // kinds without a time
			before = old[l.ID]
		}
		switch {
		case !before:
			f.reportLine(filepath.Base(at.log.Dir), at, l)
		case l.state != nil:
			at.state = *l.state
		}
	}
}

// busy reports whether a process works on a task.
func (f *Feed) busy() bool {
	for _, at := range f.followed {
		if !at.idle {
			return true
		}
	}
	return false
}

func (f *Feed) emit(name string, e events.Event) {
	if e.Time.IsZero() {
		e.Time = f.Now()
	}
	e.Task = strings.TrimPrefix(name, taskdir.DraftPrefix)
	if e.Wait != nil && e.Wait.For == "approval" && e.Wait.Next == "" {
		e.Wait.Next = "trellis approve " + trellis.ShellWord(e.Task)
	}
	f.Emit(e)
}
