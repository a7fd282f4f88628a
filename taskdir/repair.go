package taskdir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// brokenPrefix begins the name of a saved broken task.json, in run/.
const brokenPrefix = "task.json.broken-"

// ErrChanged means that a file was changed since its mend was proposed.
var ErrChanged = errors.New("the file was changed meanwhile, nothing is written")

// ProposeRepair returns Repair's proposal for the task.json in dir.
func (s Store) ProposeRepair(dir string) (*Repaired, error) {
	path := filepath.Join(dir, TaskJSON)
	data, err := readTask(path)
	if err != nil {
		return nil, s.loadError(dir, path, err)
	}
	return Repair(s.Rel(path), data)
}

// Repair writes the proposal m into the task.json in dir, if the file is still m.Before. First the file is saved unchanged as
// run/task.json.broken-<time>, whose path is returned; a copy saved by an interrupted call is not saved again.
func (s Store) Repair(dir string, m *Repaired) (saved string, err error) {
	err = s.withLock(dir, func(owned func() bool) error {
		path := filepath.Join(dir, TaskJSON)
		now, err := readTask(path)
		if err != nil {
			return s.loadError(dir, path, err)
		}
		if !bytes.Equal(now, m.Before) || !owned() {
			return fmt.Errorf("repairing %s: %w", s.Rel(path), ErrChanged)
		}
		if saved, err = s.saveBroken(dir, m.Before); err != nil {
			return err
		}
		err = s.Disk.Replace(path, m.Before, m.After)
		if errors.Is(err, durable.ErrChanged) {
			err = fmt.Errorf("repairing %s: %w", s.Rel(path), ErrChanged)
		}
		return err
	})
	return saved, err
}

// saveBroken saves a broken file under an unused name, unless an identical copy exists already, and returns its path.
func (s Store) saveBroken(dir string, data []byte) (string, error) {
	run := filepath.Join(dir, Run)
	list, err := os.ReadDir(run)
	if err != nil {
		return "", fmt.Errorf("saving the broken task.json: %w", err)
	}
	for _, e := range list {
		path := filepath.Join(run, e.Name())
		if !strings.HasPrefix(e.Name(), brokenPrefix) {
			continue
		}
		if was, err := readTask(path); err == nil && bytes.Equal(was, data) {
			return path, nil
		}
	}
	stem := filepath.Join(run, brokenPrefix+s.Clock().UTC().Format("20060102T150405Z"))
	for path, i := stem, 2; ; i++ {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return path, s.Disk.WriteFile(path, data, 0o600)
		}
		path = fmt.Sprintf("%s-%d", stem, i)
	}
}
