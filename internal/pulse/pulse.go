// Package pulse is the sign of life of a watcher: watch.lock says that one is there, and watch.json beside
// it what it does, at least every half minute. Both lie in .trellis/.runtime.
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
	// Every is the longest time between two beats.
	Every = 30 * time.Second
	// silence is how long a watcher may say nothing before it is taken to hang.
	silence = 2 * time.Minute
)

// Beat is what a watcher says of itself. Its JSON is watch.json.
type Beat struct {
	Version  string    `json:"version"` // of trellis
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Start    string    `json:"start"` // of the process, as the system tells it
	Since    time.Time `json:"since"`
	At       time.Time `json:"at"`   // of this beat
	Once     bool      `json:"once"` // it ends when nothing is left to run
	Parallel int       `json:"parallel"`
	Running  []Work    `json:"running"`
	Waiting  []Wait    `json:"waiting"`
	Error    *Trouble  `json:"error"` // the last; null: there was none
}

// Work is a task that runs.
type Work struct {
	Task  string    `json:"task"` // directory name
	Phase string    `json:"phase"`
	Round int       `json:"round"`
	Since time.Time `json:"since"` // in this phase
}

// Trust is what a task waits for that came from somebody whom nobody here trusts yet.
const Trust = "trust"

// Wait is a task that would run.
type Wait struct {
	Task  string     `json:"task"`
	For   string     `json:"for"`   // in words
	Until *time.Time `json:"until"` // null: nobody knows
}

// Trouble is something that went wrong.
type Trouble struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Lock is the path of the lock that the watcher of the repository at root holds.
func Lock(root string) string { return filepath.Join(root, ".trellis", ".runtime", "watch.lock") }

// File is the path of its beats.
func File(root string) string { return filepath.Join(root, ".trellis", ".runtime", "watch.json") }

// Write replaces the beat before. A reader sees one or the other. Where that fails, as on a full disk, the one before
// tells at least that the watcher lives.
func (b Beat) Write(d *durable.Disk, root string) error {
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding watch.json: %w", err)
	}
	if err := d.WriteFile(File(root), append(data, '\n'), 0o644); err != nil {
		return errors.Join(err, touch(root, b.At)) // takes no room
	}
	return touch(root, b.At)
}

// touch has the file tell a later time than the beat in it does, which a full disk keeps from being written.
func touch(root string, at time.Time) error {
	if err := os.Chtimes(File(root), at, at); err != nil {
		return fmt.Errorf("setting the time of watch.json: %w", err)
	}
	return nil
}

// Remove takes the last beat away, as a watcher does that ends well.
func Remove(root string) error {
	if err := os.Remove(File(root)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing watch.json: %w", err)
	}
	return nil
}

// Left is the last beat of the watcher before, for the one that has its lock now and gave no beat yet; false: that ended well.
func Left(root string) (b Beat, ok bool) {
	data, err := durable.Read(File(root), durable.MaxDocument)
	own := proc.Self() // in a container the one before may have had the same number
	ok = err == nil && json.Unmarshal(data, &b) == nil && b.PID != 0 && (b.PID != own.PID || b.Start != own.Start)
	return b, ok
}

// State is what can be seen of a watcher from outside. The zero value is none.
type State struct {
	Alive  bool      // the lock is held
	Hangs  bool      // and there was no beat for long
	Last   time.Time // sign of life
	Holder durable.Holder
	Beat   Beat // of the one that is there; without one zero, as far as it can be read
}

// String is how the watcher is, in few words.
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

// Look looks for the watcher of the repository at root.
func Look(root string, now time.Time) State {
	lock := Lock(root)
	if _, err := os.Stat(lock); err != nil || !durable.Held(lock) {
		return State{}
	}
	s := State{Alive: true}
	s.Holder, _ = durable.ReadHolder(lock) // it is held, by whomever
	data, err := durable.Read(File(root), durable.MaxDocument)
	if err != nil || json.Unmarshal(data, &s.Beat) != nil || s.Beat.PID != s.Holder.PID { // of one before
		s.Beat = Beat{}
	}
	s.Last = s.Holder.Since
	if st, err := os.Stat(File(root)); err == nil && s.Beat.PID != 0 && st.ModTime().After(s.Last) {
		s.Last = st.ModTime()
	}
	s.Hangs = !s.Last.IsZero() && now.Sub(s.Last) > silence
	return s
}
