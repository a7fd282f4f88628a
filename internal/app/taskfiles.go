package app

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// TaskFile is a file of a task's directory.
type TaskFile struct {
	Name   string // relative to the directory, with slashes
	Size   int64
	Edited bool // a person may change it, see [Edits]
}

// maxTaskFiles is the maximum number of files that are listed for a task.
const maxTaskFiles = 500

// Files returns the regular files of a task, ordered by name, except those of its runs.
func (e Edits) Files(dir string) (list []TaskFile, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case rel == taskdir.Run:
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		case len(list) == maxTaskFiles:
			return fs.SkipAll
		}
		st, err := d.Info()
		if err != nil {
			return nil // removed meanwhile
		}
		name := filepath.ToSlash(rel)
		_, no := EditedFile(name)
		list = append(list, TaskFile{Name: name, Size: st.Size(), Edited: no == nil && filepath.Dir(dir) == e.p.Store.Tasks()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the files of %s: %w", e.p.Store.Rel(dir), err)
	}
	return slices.Clip(list), nil
}

// ReadListed returns the text of a file that Files lists; it reads no other file.
func (e Edits) ReadListed(dir, name string) (content string, err error) {
	files, err := e.Files(dir)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if f.Name == name {
			_, content, err = e.p.Document(dir, filepath.FromSlash(name))
			return content, err
		}
	}
	return "", AsKind(ErrNotFound, fmt.Errorf("there is no file %q in this task", trellis.VisibleLine(text.Clip(name, 100))))
}
