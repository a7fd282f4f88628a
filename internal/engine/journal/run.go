package journal

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

// Run is a run's folder whose lock this process holds. Its methods may be called concurrently.
type Run struct {
	o    Options
	acts map[string]flow.Activity
	lock *durable.Lock
	poke chan struct{}

	mu   sync.Mutex // protects the fields below and those of the engine
	file *file      // nil if there is no journal
	busy bool       // Execute is running
}

// Open takes the lock of the run's folder and reads the journal. Without a journal the Run is empty, and only Begin can be
// called. Errors: *durable.HeldError if another process has the lock, the error of Options.Clear, ErrDamaged. The lock is held
// until Close.
func Open(o Options) (*Run, error) {
	r, err := lockRun(o)
	if err != nil {
		return nil, err
	}
	r.file, err = openFile(o.Dir, o.Disk, r.lock)
	if err != nil && !errors.Is(err, ErrNone) {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// lockRun takes the lock of a run without opening its journal.
func lockRun(o Options) (*Run, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.ParkAfter = cmp.Or(o.ParkAfter, time.Minute)
	acts, err := indexActivities(o.Activities)
	if err != nil {
		return nil, err
	}
	lock, err := acquire(o)
	if err != nil {
		return nil, err
	}
	return &Run{o: o, acts: acts, lock: lock, poke: make(chan struct{}, 1)}, nil
}

// indexActivities returns the activities by name. It returns an error for a name that can't be part of an id or that waits use.
func indexActivities(list []flow.Activity) (map[string]flow.Activity, error) {
	acts := map[string]flow.Activity{}
	for _, a := range list {
		if _, double := acts[a.Name]; double {
			return nil, fmt.Errorf("registering activities: %q is there twice", a.Name)
		}
		if !isLegalName(a.Name) || a.Name == sleepName || strings.HasPrefix(a.Name, awaitPrefix) {
			return nil, fmt.Errorf("registering activities: %q is not a name for one", a.Name)
		}
		acts[a.Name] = a
	}
	return acts, nil
}

// isLegalName reports whether name can be an element of an id, which is also a path of folders.
func isLegalName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/#\x00")
}

// History returns the current content of the journal, even during Execute. Without a journal it is Empty.
func (r *Run) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &History{}
	if r.file != nil {
		h = r.file.ledger.history()
	}
	earlier, _ := archivedNumbers(r.o.Dir) // if the folder can't be listed any more, the run is fenced soon
	if h.Number = earlier.last(); !h.Empty() {
		h.Number++
	}
	return h
}

// Waits returns the sleeps and awaits that have no outcome yet.
func (r *Run) Waits() (list []Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	for _, c := range r.file.ledger.calls {
		if c.done == nil && (c.name == sleepName || strings.HasPrefix(c.name, awaitPrefix)) {
			list = append(list, c.entry())
		}
	}
	return list
}

// Poke requests a mailbox check soon. It never blocks.
func (r *Run) Poke() {
	select {
	case r.poke <- struct{}{}:
	default: // a check is pending already
	}
}

// Begin begins a new run. The journal of the previous run, whether ended or not, is kept as journal.<n>.jsonl. Where hard links
// work, journal.jsonl is at every moment the complete old journal or the complete new one. Begin can't be called during Execute.
func (r *Run) Begin(s Spec) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.asGoneError(r.begin(s)); err != nil {
		return fmt.Errorf("beginning run %s: %w", s.Run, err)
	}
	return nil
}

func (r *Run) begin(s Spec) error {
	if err := s.check(); err != nil {
		return err
	}
	if r.busy {
		return errors.New("another one is being executed")
	}
	if !r.lock.StillInPlace() {
		return asSuspended(fmt.Errorf("%w: the lock was removed or replaced", ErrFenced))
	}
	line, err := json.Marshal(record{N: 1, Kind: kindRun, Version: version, Run: s.Run, Flow: s.Flow, Code: s.Code,
		Build: r.o.Build, Clone: r.o.Clone, In: s.Input, At: r.now()})
	if err != nil {
		return err
	}
	if err := r.archiveJournal(); err != nil {
		return err
	}
	if err := r.o.Disk.WriteFile(filepath.Join(r.o.Dir, journalName), append(line, '\n'), 0o600); err != nil {
		return err
	}
	r.closeFile()
	r.file, err = openFile(r.o.Dir, r.o.Disk, r.lock)
	return err
}

// archiveJournal links the current journal to its archive name. The first name is replaced when the new journal is renamed to it, so
// that there is always a journal. Where there are no hard links, the current journal is renamed.
func (r *Run) archiveJournal() error {
	path := filepath.Join(r.o.Dir, journalName)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	earlier, err := archivedNumbers(r.o.Dir)
	if err != nil {
		return err
	}
	aside := filepath.Join(r.o.Dir, ArchiveName(earlier.last()+1))
	if err = r.o.Disk.Step("link", aside); err == nil {
		err = os.Link(path, aside)
	}
	switch {
	case err == nil, errors.Is(err, fs.ErrExist): // an earlier Begin crashed after this step
		return nil
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, fs.ErrPermission): // no hard links here
		return r.o.Disk.Rename(path, aside)
	}
	return fmt.Errorf("putting %s aside: %w", path, err)
}

// Close releases the lock. It must not be called during Execute. Further calls do nothing.
func (r *Run) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	if r.file != nil && r.file.broken == nil && r.file.checkOwnership() == nil {
		err = r.file.syncPending()
	}
	r.closeFile()
	return errors.Join(err, r.lock.Unlock())
}

func (r *Run) closeFile() {
	if r.file != nil {
		r.file.f.Close() // the records have been synced as required
		r.file = nil
	}
}
