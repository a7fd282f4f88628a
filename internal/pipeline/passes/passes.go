// Package passes remembers which of the project's commands passed on which files, so that tasks that begin with these files need
// not run them again. Only passes are remembered: whoever writes into the folder can keep a check that fails at base from being
// forgiven, but can't have a failure forgiven.
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

// Age is how long a pass counts: what a command depends on outside, the network or the date, say, changes without a trace.
const Age = 24 * time.Hour

// Subject is a command with all that its result depends on.
type Subject struct {
	Tree        string            `json:"tree"` // git's hash of the files
	Command     string            `json:"command"`
	Environment map[string]string `json:"environment,omitempty"` // hashes of what else the result depends on, by name
}

// Pass is a run of a command that passed.
type Pass struct {
	Task     string    `json:"task"` // the task for which it ran
	At       time.Time `json:"at"`
	Seconds  float64   `json:"seconds"`
	Sandbox  string    `json:"sandbox,omitempty"`
	Isolated *bool     `json:"isolated,omitempty"`
}

// Store keeps passes in a folder, one JSON file each, which may be removed at any time. It is safe for concurrent use, also by
// several processes.
type Store struct {
	Folder string
	Disk   *durable.Disk
	Now    func() time.Time
}

type record struct {
	Subject
	Pass
}

// fileName returns the name of a pass's file.
func fileName(subject Subject) (string, error) {
	name, err := nameOf(subject)
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

// maxRecord is the maximum size of a pass's file, in bytes: more than any pass takes.
const maxRecord = 1 << 20

// Find returns the pass of a subject, nil if there is none that counts, or it can't be read.
func (s Store) Find(subject Subject) (*Pass, error) {
	name, err := fileName(subject)
	if err != nil {
		return nil, err
	}
	r := s.read(name)
	if r == nil || r.Tree != subject.Tree || r.Command != subject.Command {
		return nil, nil // the command is run then
	}
	return &r.Pass, nil
}

// read returns the pass in a file, nil if there is none that counts.
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

// Keep remembers a pass, and removes those that no longer count.
func (s Store) Keep(subject Subject, p Pass) error {
	name, err := fileName(subject)
	if err != nil {
		return err
	}
	p.At = s.Now()
	data, err := json.MarshalIndent(record{subject, p}, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the pass of %q: %w", subject.Command, err)
	}
	if err := s.Disk.MkdirAll(s.Folder, 0o755); err != nil {
		return fmt.Errorf("making the folder of passes: %w", err)
	}
	if err := s.removeOld(); err != nil {
		return err
	}
	return s.Disk.WriteFile(filepath.Join(s.Folder, name), append(data, '\n'), 0o644)
}

// removeOld removes the files that are too old to count.
func (s Store) removeOld() error {
	list, err := os.ReadDir(s.Folder)
	if err != nil {
		return fmt.Errorf("reading the folder of passes: %w", err)
	}
	for _, e := range list {
		st, err := e.Info()
		if err != nil || s.Now().Sub(st.ModTime()) <= Age {
			continue // still valid, or somebody else removed it
		}
		if err := os.Remove(filepath.Join(s.Folder, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forgetting a pass: %w", err)
		}
	}
	return nil
}

// SecondsOf returns how many seconds the commands took together when each last passed, on any files, 0 if one of them has no pass that
// counts.
func (s Store) SecondsOf(commands []string) (seconds float64, err error) {
	list, err := s.countingRecords()
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

// countingRecords returns the passes that count. Files that can't be read are left out.
func (s Store) countingRecords() (list []record, err error) {
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

// Question is what a task wants to find out about a tree.
type Question struct {
	Of    []Subject                     // identify the question: nobody waits for the answer to another one
	Task  string                        // the task that asks
	Known func() (bool, error)          // reports whether the answer is known by now
	Find  func() error                  // finds the answer, but need not succeed
	Waits func(task string) (err error) // called once with the task whose answer is waited for, "" if unknown
	Limit time.Duration                 // of waiting, after which Find is called beside the other task's; 0: no limit
}

// Ask finds an answer while nobody else is looking for the same one. It calls Known first, and again after waiting for another
// task, which may not have found the answer. Then it calls Find without waiting again.
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
	found, err := q.Known() // the answer of a task that had the lock in between
	if waited && err == nil {
		err = lock.Unlock()
	}
	if err == nil && !found {
		err = q.Find()
	}
	return errors.Join(err, lock.Unlock())
}

// lockRetryDelay is the interval between attempts to take a lock, which is held as long as commands run.
const lockRetryDelay = 100 * time.Millisecond

// lock returns nil if it waited too long.
func (s Store) lock(ctx context.Context, q Question) (lock *durable.Lock, waited bool, err error) {
	name, err := nameOf(q.Of)
	if err != nil {
		return nil, false, err
	}
	var timeout <-chan time.Time
	if q.Limit > 0 {
		timer := time.NewTimer(q.Limit)
		defer timer.Stop()
		timeout = timer.C
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
		case <-timeout:
			return nil, waited, nil
		case <-time.After(lockRetryDelay):
		}
	}
}
