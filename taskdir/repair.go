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

// brokenPrefix begins the name of what a mended task.json was, in run/.
const brokenPrefix = "task.json.broken-"

// ErrChanged says that a file is not the one any more that a mend was proposed for.
var ErrChanged = errors.New("the file was changed meanwhile, nothing is written")

// Propose is Mend of the task.json in dir.
func (s Store) Propose(dir string) (*Mended, error) {
	path := filepath.Join(dir, TaskJSON)
	data, err := readTask(path)
	if err != nil {
		return nil, s.loadError(dir, path, err)
	}
	return Mend(s.Rel(path), data)
}

// Repair writes what Mend proposed into the task.json in dir, if that still is what it was. Before, the file is saved
// to the byte as run/task.json.broken-<time>, whose path is returned; one that an interrupted call saved is not saved
// again.
func (s Store) Repair(dir string, m *Mended) (saved string, err error) {
	err = s.locked(dir, func(owned func() bool) error {
		path := filepath.Join(dir, TaskJSON)
		now, err := readTask(path)
		if err != nil {
			return s.loadError(dir, path, err)
		}
		if !bytes.Equal(now, m.Before) || !owned() {
			return fmt.Errorf("mending %s: %w", s.Rel(path), ErrChanged)
		}
		if saved, err = s.keepBroken(dir, m.Before); err != nil {
			return err
		}
		err = s.Disk.Replace(path, m.Before, m.After)
		if errors.Is(err, durable.ErrChanged) {
			err = fmt.Errorf("mending %s: %w", s.Rel(path), ErrChanged)
		}
		return err
	})
	return saved, err
}

// keepBroken saves a broken file under a name that nothing has, unless it is there already.
func (s Store) keepBroken(dir string, data []byte) (string, error) {
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
