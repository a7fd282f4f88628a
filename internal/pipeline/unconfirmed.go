package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Unconfirmed is what was changed of a task's standards while its agents were at work, until people agree to it.
type Unconfirmed struct {
	Was  Standards `json:"was"`  // what counts, of what was changed
	Said []string  `json:"said"` // decisions that were written down when it was seen: none of them is about it
}

// writtenDown are decisions as they can be told apart, bound to a plan or not yet.
func writtenDown(list []proof.Approval) (keys []string) {
	for _, a := range list {
		keys = append(keys, fmt.Sprintf("%q %q %q %q %d", a.Step, a.Decision, a.By, a.Reason, a.At.UnixNano()))
	}
	return keys
}

// since are the decisions of list besides those that were written down before, each as often as it was.
func since(list []proof.Approval, before []string) (later []proof.Approval) {
	before = slices.Clone(before)
	for i, key := range writtenDown(list) {
		if at := slices.Index(before, key); at >= 0 {
			before = slices.Delete(before, at, at+1)
			continue
		}
		later = append(later, list[i])
	}
	return later
}

// unconfirmedFile keeps it in run/, from one run to the next.
const (
	unconfirmedFile = "unconfirmed.json"
	maxStandards    = 16 << 20
)

// ReadUnconfirmed is that of the task in dir, with nothing in it when there is none.
func ReadUnconfirmed(dir string) (u Unconfirmed, err error) {
	data, err := durable.ReadBelow(filepath.Join(dir, taskdir.Run), unconfirmedFile, maxStandards)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return u, nil
	case err == nil:
		err = json.Unmarshal(data, &u)
	}
	if err != nil {
		return u, fmt.Errorf("reading what was changed while agents were at work: %w", err)
	}
	return u, nil
}

// Changes say in words how what counts differs from what the task's directory says now.
func (u Unconfirmed) Changes(s taskdir.Store, dir string) (said []string) {
	if len(u.Was) == 0 {
		return nil
	}
	now := StandardsOf(s, dir)
	for _, name := range u.Was.differ(now) {
		said = append(said, u.Was.tell(name, now))
	}
	return said
}

// AskedAbout says what people are asked when that was changed while agents were at work.
func AskedAbout(changes []string) string {
	return "approval of what was changed while an agent was at work (" + strings.Join(changes, "; ") + ")"
}

// edit is what a command of Trellis that a person typed made of one of a task's standards.
type edit struct {
	Name string   `json:"name"`
	From []string `json:"from"`
	To   []string `json:"to"`
}

type edits []edit

// editsFile keeps the last of them in run/.
const (
	editsFile = "edits.json"
	mostEdits = 100
)

// Edited has a run of the task in dir, if there is any, take in what a person's command does to what judges its work, also
// while an agent is at work. It is called under the task's write lock.
func Edited(s taskdir.Store, dir string, do func() error) error {
	before := StandardsOf(s, dir)
	if err := do(); err != nil {
		return err
	}
	now := StandardsOf(s, dir)
	list, err := readEdits(dir)
	if err != nil {
		return err
	}
	changed := before.differ(now)
	for _, name := range changed {
		list = append(list, edit{name, before[name], now[name]})
	}
	if _, err := os.Stat(filepath.Join(dir, taskdir.Run)); len(changed) == 0 || err != nil {
		return nil // no agent was ever at work
	}
	data, err := json.Marshal(list[max(0, len(list)-mostEdits):])
	if err != nil {
		return fmt.Errorf("encoding what was edited: %w", err)
	}
	return s.Disk.WriteFile(filepath.Join(dir, taskdir.Run, editsFile), data, 0o600)
}

func readEdits(dir string) (list edits, err error) {
	data, err := durable.ReadBelow(filepath.Join(dir, taskdir.Run), editsFile, maxStandards)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil:
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what commands edited: %w", err)
	}
	return list, nil
}

// lead reports whether nothing but these edits, in their order, leads from one state to another.
func (e edits) lead(name string, from, to []string) bool {
	for _, one := range e {
		if one.Name == name && slices.Equal(one.From, from) {
			from = one.To
		}
	}
	return slices.Equal(from, to)
}
