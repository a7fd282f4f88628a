package taskref

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/taskdir"
)

// directories writes task directories, each of them completely or not at all.
type directories struct {
	store taskdir.Store
	disk  *durable.Disk
}

// besideOf returns the path where a task directory is built before it gets its name, and the replaced one is left.
func besideOf(dir string) string {
	return filepath.Join(filepath.Dir(dir), durable.TempPrefix+filepath.Base(dir)+"-brought")
}

// replaceFiles replaces the files of a task directory, leaving the old one at besideOf. Readers see either old or new files.
func (d directories) replaceFiles(dir string, there bool, files []git.TreeFile) error {
	beside := besideOf(dir)
	if err := d.createDir(beside, files); err != nil {
		return err
	}
	if !there {
		return d.disk.Rename(beside, dir)
	}
	if err := carryOver(dir, beside); err != nil {
		return err
	}
	return d.disk.Exchange(beside, dir)
}

// createDir writes a new task directory.
func (d directories) createDir(dir string, files []git.TreeFile) error {
	if err := d.disk.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if _, err := d.store.RunDir(dir); err != nil {
		return err
	}
	folders := map[string]bool{}
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		private := strings.HasPrefix(f.Path, taskdir.Run+"/")
		if err := os.MkdirAll(filepath.Dir(path), restrictMode(0o777, private)); err != nil {
			return err
		}
		for at := filepath.Dir(path); at != filepath.Dir(dir); at = filepath.Dir(at) {
			folders[at] = true
		}
		if err := d.write(path, f.Data, restrictMode(fs.FileMode(f.Mode)|0o222, private)); err != nil {
			return fmt.Errorf("writing %s: %w", f.Path, err)
		}
	}
	for _, f := range files { // only after all are written, as the first sync takes most of the time that all take
		if err := d.sync(filepath.Join(dir, filepath.FromSlash(f.Path))); err != nil {
			return fmt.Errorf("writing %s: %w", f.Path, err)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if err := d.disk.SyncDir(folder); err != nil {
			return err
		}
	}
	return nil
}

// restrictMode restricts the permissions of a file or folder: everything below run/ is private to its owner.
func restrictMode(mode fs.FileMode, private bool) fs.FileMode {
	if private {
		return mode & 0o700
	}
	return mode & 0o755
}

// write creates a file in a folder that nobody else knows yet.
func (d directories) write(path string, data []byte, perm fs.FileMode) error {
	if err := d.disk.Step("create", path); err != nil {
		return err
	}
	f, err := durable.OpenOwn(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	return errors.Join(d.disk.Write(f, path, data), f.Close())
}

func (d directories) sync(path string) error {
	f, err := durable.OpenOwn(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(d.disk.Sync(f, path), f.Close())
}

// carryOver links into a new directory what states don't contain: locks, which stay held, and transcripts that were not shared.
func carryOver(from, to string) error {
	return filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && file != from {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(from, file)
		if k := kindOf(filepath.ToSlash(rel)); err != nil || k != machineOnly && k != transcript || strings.HasPrefix(d.Name(), durable.TempPrefix) {
			return err
		}
		at := filepath.Join(to, rel)
		if durable.Exists(at) {
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		if err := os.Link(file, at); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}
