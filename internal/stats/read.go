package stats

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Reader reads the work done for the tasks of a project. It caches what it read, and reads a journal again only if that was
// written to. It is safe for concurrent use.
type Reader struct {
	Store taskdir.Store
	Zone  *time.Location // time zone for days; nil: this machine's

	mu   sync.Mutex
	runs map[string]*run // by path of the journal
}

// Read reads the work done since a time, zero for all. It takes no locks of tasks. It doesn't open a journal that was not
// written to since; one that can't be read is listed in Problems, and what precedes the damage counts.
func (r *Reader) Read(since time.Time) (*Record, error) {
	entries, err := r.Store.List()
	if err != nil {
		return nil, err
	}
	archived, err := r.Store.ListArchived()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	entries = append(entries, archived...)
	parts := taskdir.ParallelMap(entries, func(e taskdir.Entry) taskWork { return r.readTask(e, since) })
	r.runs = make(map[string]*run, len(r.runs))
	all := &Record{Since: since, zone: cmp.Or(r.Zone, time.Local)}
	for _, p := range parts {
		maps.Copy(r.runs, p.runs)
		all.calls = append(all.calls, p.calls...)
		all.runs = append(all.runs, p.countedRuns...)
		all.Problems = append(all.Problems, p.problems...)
		if p.task.rounds > 0 || p.task.end != open {
			all.tasks = append(all.tasks, p.task)
		}
	}
	return all, nil
}

// taskWork is the work done for one task.
type taskWork struct {
	task        task
	calls       []call
	problems    []string
	runs        map[string]*run // all runs read, by path of the journal
	countedRuns []*run          // the runs that count
}

// readTask reads the work done for a task. It doesn't modify the reader, so it may run concurrently.
func (r *Reader) readTask(e taskdir.Entry, since time.Time) taskWork {
	p := taskWork{task: task{id: strings.TrimPrefix(e.ID, taskdir.DraftPrefix)}, runs: map[string]*run{}}
	if e.Task != nil {
		p.task.size = e.Task.Pipeline.Size
	}
	dir := filepath.Join(e.Dir, taskdir.Run)
	files, err := journal.Archived(dir)
	if err != nil {
		p.problems = append(p.problems, fmt.Sprintf("%s: %v", r.Store.Rel(dir), err))
	}
	for _, file := range append(files, filepath.Join(e.Dir, taskdir.Journal)) {
		st, err := os.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		known := r.runs[file]
		if err == nil && st.ModTime().Before(since) {
			if known != nil {
				p.runs[file] = known
			}
			continue
		}
		if known == nil || err != nil || !known.isUnchanged(st) {
			known = readRun(file, st)
		}
		p.runs[file] = known
		p.addRun(known, since)
		if known.err != nil {
			p.problems = append(p.problems, fmt.Sprintf("%s: %v", r.Store.Rel(file), known.err))
		}
	}
	if e.Task != nil && e.Task.Status == trellis.Rejected {
		p.addRejection(e.Dir, since)
	}
	return p
}

// addRun adds the part of a run that happened after since.
func (p *taskWork) addRun(r *run, since time.Time) {
	for _, c := range r.calls {
		if !c.at.Before(since) {
			c.task = p.task.id
			p.calls = append(p.calls, c)
		}
	}
	if r.ended && r.at.Before(since) {
		return
	}
	p.countedRuns = append(p.countedRuns, r)
	p.task.rounds += r.rounds
	p.task.checkSeconds += r.checkSeconds
	p.task.fullCheckSeconds = cmp.Or(r.fullCheckSeconds, p.task.fullCheckSeconds)
	if r.end != open {
		p.task.at, p.task.end, p.task.code, p.task.firstPass = r.at, r.end, r.code, r.firstPass
	}
}

// addRejection records that an agent or a person rejected the requirement or the plan, at the time when REJECTED.md was written.
func (p *taskWork) addRejection(dir string, since time.Time) {
	st, err := os.Stat(filepath.Join(dir, taskdir.Rejected))
	if errors.Is(err, fs.ErrNotExist) {
		st, err = os.Stat(filepath.Join(dir, taskdir.TaskJSON))
	}
	if err == nil && !st.ModTime().Before(since) {
		p.task.at, p.task.end = st.ModTime(), rejected
	}
}
