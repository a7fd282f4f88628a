package gittest

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Mould is a folder that is created once in a test program, and copied for each test that wants one like it: creating a repository
// takes git half a dozen processes. The zero value is empty.
type Mould struct {
	once  sync.Once
	files []moulded
	err   error
}

// moulded is a file or folder of a mould.
type moulded struct {
	path string
	mode fs.FileMode
	data []byte
}

// Cast fills dir: by make the first time, and later with a copy. The times of copied files differ, so that git has to refresh the
// index.
func (m *Mould) Cast(dir string, make func() error) error {
	first := false
	m.once.Do(func() {
		first = true
		if m.err = make(); m.err == nil {
			m.files, m.err = read(dir)
		}
	})
	if first || m.err != nil {
		return m.err
	}
	return m.write(dir)
}

func read(dir string) (files []moulded, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f := moulded{mode: info.Mode()}
		if f.path, err = filepath.Rel(dir, path); err != nil {
			return err
		}
		if !d.IsDir() {
			f.data, err = os.ReadFile(path)
		}
		files = append(files, f)
		return err
	})
	return files, err
}

func (m *Mould) write(dir string) error {
	for _, f := range m.files {
		path := filepath.Join(dir, f.path)
		if f.mode.IsDir() {
			if err := os.MkdirAll(path, f.mode.Perm()); err != nil {
				return err
			}
			continue
		}
		if err := os.WriteFile(path, f.data, f.mode.Perm()); err != nil {
			return err
		}
	}
	return nil
}
