package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/taskdir"
)

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
