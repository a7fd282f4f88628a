// Package pulse is the heartbeat of a watcher: watch.lock says that there is a watcher, and watch.json beside it what the
// watcher does, at least every half minute. Both files are in .trellis/.runtime.
package pulse

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
)

const (
	// Every is the longest time between two heartbeats.
	Every = 30 * time.Second
	// silence is how long a watcher may be silent before it counts as hanging.
	silence = 2 * time.Minute
)

// Beat is a heartbeat, what a watcher reports about itself. Its JSON is watch.json.
type Beat struct {
	Version  string    `json:"version"` // version of trellis
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Start    string    `json:"start"` // when the process started, as the system reports it
	Since    time.Time `json:"since"`
	At       time.Time `json:"at"`   // time of this heartbeat
	Once     bool      `json:"once"` // it ends when nothing is left to run
	Parallel int       `json:"parallel"`
	Running  []Work    `json:"running"`
	Waiting  []Wait    `json:"waiting"`
	Error    *Trouble  `json:"error"` // last error; null: there was none
}

// Work is a task that runs.
type Work struct {
	Task  string    `json:"task"` // directory name
	Phase string    `json:"phase"`
	Round int       `json:"round"`
	Since time.Time `json:"since"` // since when it has been in this phase
}

// Trust is what a task waits for that came from somebody whom nobody here trusts yet.
const Trust = "trust"

// Wait is a task that would run, and what it waits for.
type Wait struct {
	Task  string     `json:"task"`
	For   string     `json:"for"`   // in words
	Until *time.Time `json:"until"` // null: unknown
}

// Trouble is something that went wrong.
type Trouble struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Lock returns the path of the lock that the watcher of the repository at root holds.
func Lock(root string) string { return filepath.Join(root, ".trellis", ".runtime", "watch.lock") }

// File returns the path of the heartbeat of that watcher.
func File(root string) string { return filepath.Join(root, ".trellis", ".runtime", "watch.json") }

// Write replaces the last heartbeat. A reader sees one or the other. If that fails, as on a full disk, Write sets the time of
// the last one, which shows at least that the watcher is alive.
func (b Beat) Write(d *durable.Disk, root string) error {
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding watch.json: %w", err)
	}
	if err := d.WriteFile(File(root), append(data, '\n'), 0o644); err != nil {
		return errors.Join(err, touch(root, b.At)) // needs no space
	}
	return touch(root, b.At)
}

// touch sets the time of the file, also if a full disk keeps the heartbeat in the file from being replaced.
func touch(root string, at time.Time) error {
	if err := os.Chtimes(File(root), at, at); err != nil {
		return fmt.Errorf("setting the time of watch.json: %w", err)
	}
	return nil
}

// Remove removes the last heartbeat, as a watcher does that ends normally.
func Remove(root string) error {
	if err := os.Remove(File(root)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing watch.json: %w", err)
	}
	return nil
}

// Left returns the last heartbeat of the previous watcher, for the one that has its lock now and wrote none yet; false: that
// ended normally.
func Left(root string) (b Beat, ok bool) {
	data, err := durable.Read(File(root), durable.MaxDocument)
	own := proc.Self() // in a container, the previous one may have had the same PID
	ok = err == nil && json.Unmarshal(data, &b) == nil && b.PID != 0 && (b.PID != own.PID || b.Start != own.Start)
	return b, ok
}

// State is what can be seen of a watcher from outside. The zero value means that there is no watcher.
type State struct {
	Alive  bool      // the lock is held
	Hangs  bool      // the lock is held, and there was no heartbeat for long
	Last   time.Time // last sign of life
	Holder durable.Holder
	Beat   Beat // heartbeat of the watcher that holds the lock; zero if there is none that can be read
}

// String describes the watcher in a few words.
func (s State) String() string {
	switch {
	case !s.Alive:
		return "no watcher"
	case s.Hangs:
		return "the watcher hangs"
	case s.Beat.PID == 0:
		return "a watcher is there"
	}
	return fmt.Sprintf("watcher: %d of %d busy", len(s.Beat.Running), s.Beat.Parallel)
}

// Look returns the state of the watcher of the repository at root.
func Look(root string, now time.Time) State {
	lock := Lock(root)
	if _, err := os.Stat(lock); err != nil || !durable.Held(lock) {
		return State{}
	}
	s := State{Alive: true}
	s.Holder, _ = durable.ReadHolder(lock) // it is held, by whomever
	data, err := durable.Read(File(root), durable.MaxDocument)
	if err != nil || json.Unmarshal(data, &s.Beat) != nil || s.Beat.PID != s.Holder.PID { // of an earlier watcher
		s.Beat = Beat{}
	}
	s.Last = s.Holder.Since
	if st, err := os.Stat(File(root)); err == nil && s.Beat.PID != 0 && st.ModTime().After(s.Last) {
		s.Last = st.ModTime()
	}
	s.Hangs = !s.Last.IsZero() && now.Sub(s.Last) > silence
	return s
}
