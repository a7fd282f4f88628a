// Package passes remembers which of the project's commands passed on which files, so that tasks which begin there need not run them
// to learn it. Only what passed is remembered: whoever writes into the folder can have a check be demanded that fails at base
// already, but none be forgiven.
package passes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Age is how long a pass counts: what a command asks of the network, or of the day, changes without a trace.
const Age = 24 * time.Hour

// Subject is a run of a command as far as its outcome depends on it.
type Subject struct {
	Tree        string            `json:"tree"` // of the files, a hash of git
	Command     string            `json:"command"`
	Environment map[string]string `json:"environment,omitempty"` // what else it depends on, hashed, by name
}

// Pass is a run that passed.
type Pass struct {
	Task     string    `json:"task"` // for which it ran
	At       time.Time `json:"at"`
	Seconds  float64   `json:"seconds"`
	Sandbox  string    `json:"sandbox,omitempty"`
	Isolated *bool     `json:"isolated,omitempty"`
}

// Store keeps passes in a folder, a JSON file each, which may be removed at any time. Safe for concurrent use, by processes too.
type Store struct {
	Folder string
	Disk   *durable.Disk
	Now    func() time.Time
}

type record struct {
	Subject
	Pass
}

// file is where a pass is kept.
func file(of Subject) (string, error) {
	name, err := nameOf(of)
	return name + ".json", err
}

func nameOf(what any) (string, error) {
	key, err := json.Marshal(what)
	if err != nil {
		return "", fmt.Errorf("naming a pass: %w", err)
	}
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:16]), nil
}

// maxRecord is more than a pass takes.
const maxRecord = 1 << 20

// Find is the pass of a subject, nil when there is none that counts. What can't be read is none.
func (s Store) Find(of Subject) (*Pass, error) {
	name, err := file(of)
	if err != nil {
		return nil, err
	}
	r := s.read(name)
	if r == nil || r.Tree != of.Tree || r.Command != of.Command {
		return nil, nil // it is run then
	}
	return &r.Pass, nil
}

// read is a pass that counts, nil when there is none in that file.
func (s Store) read(name string) *record {
	data, err := durable.ReadBelow(s.Folder, name, maxRecord)
	if err != nil {
		return nil
	}
	var r record
	if json.Unmarshal(data, &r) != nil {
		return nil
	}
	if age := s.Now().Sub(r.At); age < 0 || age > Age {
		return nil
	}
	return &r
}

// Keep remembers a pass, and forgets those that count no longer.
func (s Store) Keep(of Subject, p Pass) error {
	name, err := file(of)
	if err != nil {
		return err
	}
	p.At = s.Now()
	data, err := json.MarshalIndent(record{of, p}, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the pass of %q: %w", of.Command, err)
	}
	if err := s.Disk.MkdirAll(s.Folder, 0o755); err != nil {
		return fmt.Errorf("making the folder of passes: %w", err)
	}
	if err := s.forget(); err != nil {
		return err
	}
	return s.Disk.WriteFile(filepath.Join(s.Folder, name), append(data, '\n'), 0o644)
}

// forget removes what is older than what counts.
func (s Store) forget() error {
	list, err := os.ReadDir(s.Folder)
	if err != nil {
		return fmt.Errorf("reading the folder of passes: %w", err)
	}
	for _, e := range list {
		st, err := e.Info()
		if err != nil || s.Now().Sub(st.ModTime()) <= Age {
			continue // somebody else removed it
		}
		if err := os.Remove(filepath.Join(s.Folder, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forgetting a pass: %w", err)
		}
	}
	return nil
}

// Took is how many seconds the commands took together when each passed last, on whatever files, 0 when one of them did not within
// the time that a pass counts.
func (s Store) Took(commands []string) (seconds float64, err error) {
	list, err := s.all()
	for _, line := range commands {
		last := record{}
		for _, r := range list {
			if r.Command == line && r.At.After(last.At) {
				last = r
			}
		}
		if last.At.IsZero() {
			return 0, err
		}
		seconds += last.Seconds
	}
	return seconds, err
}

// all are the passes that count. What can't be read is none.
func (s Store) all() (list []record, err error) {
	files, err := os.ReadDir(s.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the folder of passes: %w", err)
	}
	for _, f := range files {
		if filepath.Ext(f.Name()) != ".json" {
			continue
		}
		if r := s.read(f.Name()); r != nil {
			list = append(list, *r)
		}
	}
	return list, nil
}

// Question is what somebody wants to find out about a tree.
type Question struct {
	Of    []Subject                     // name it: nobody waits for who finds out something else
	Task  string                        // that asks
	Known func() (bool, error)          // reports whether it is known by now
	Find  func() error                  // finds it out, which it need not succeed in
	Waits func(task string) (err error) // is told once for which task's answer it waits, "" when that can't be told
	Limit time.Duration                 // of waiting; then it is found out beside the other one. 0: none; 0: none
}

// Ask finds something out while nobody else finds out the same. Known is asked first, and again after it was waited for another one,
// which may not have found it out. Then that is done without waiting more.
func (s Store) Ask(ctx context.Context, q Question) error {
	if found, err := q.Known(); err != nil || found {
		return err
	}
	if err := s.Disk.MkdirAll(s.Folder, 0o755); err != nil {
		return fmt.Errorf("making the folder of passes: %w", err)
	}
	lock, waited, err := s.lock(ctx, q)
	if err != nil {
		return err
	}
	if lock == nil {
		return q.Find()
	}
	found, err := q.Known() // by one who had the lock in between
	if waited && err == nil {
		err = lock.Unlock()
	}
	if err == nil && !found {
		err = q.Find()
	}
	return errors.Join(err, lock.Unlock())
}

// lookAgain is how often it is tried to take a lock that is held for as long as commands run.
const lookAgain = 100 * time.Millisecond

// lock is nil when it was waited for too long.
func (s Store) lock(ctx context.Context, q Question) (lock *durable.Lock, waited bool, err error) {
	name, err := nameOf(q.Of)
	if err != nil {
		return nil, false, err
	}
	var enough <-chan time.Time
	if q.Limit > 0 {
		timer := time.NewTimer(q.Limit)
		defer timer.Stop()
		enough = timer.C
	}
	for {
		lock, err = durable.TryLock(filepath.Join(s.Folder, name+".lock"), durable.Holder{PID: os.Getpid(), For: q.Task, Since: s.Now()})
		held := (*durable.HeldError)(nil)
		if !errors.As(err, &held) {
			return lock, waited, err
		}
		if !waited {
			if err := q.Waits(held.Holder.For); err != nil {
				return nil, true, err
			}
		}
		waited = true
		select {
		case <-ctx.Done():
			return nil, waited, fmt.Errorf("waiting for the commands of another task: %w", context.Cause(ctx))
		case <-enough:
			return nil, waited, nil
		case <-time.After(lookAgain):
		}
	}
}
