package git

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// configuredPaths are the paths among the files of a checkout that git is led to by the settings of the repository, the worktree, and
// the user: folders of hooks, and files of more settings. One that is not there is made, empty, so that nobody else makes it.
func (r Hooks) configuredPaths(dir, admin string) (paths []string, err error) {
	files := append([]string{filepath.Join(r.Common, "config"), filepath.Join(admin, worktreeSettings)}, r.global()...)
	const most = 100 // files; git itself gives up at a depth of 10
	for i := 0; i < len(files) && i < most; i++ {
		if inside(dir, files[i]) && !inside(r.Common, files[i]) {
			paths = append(paths, files[i])
			err = errors.Join(err, touch(files[i]))
		}
		s, readErr := ReadConfigFile(files[i])
		if readErr != nil { // git then says what is wrong with it
			continue
		}
		for _, name := range s.includes {
			files = append(files, r.settingPath(filepath.Dir(files[i]), name))
		}
		if s.hooks == "" {
			continue
		}
		hooks := r.settingPath(dir, s.hooks)
		if filepath.Base(hooks) == "_" { // husky's, which call those beside it
			hooks = filepath.Dir(hooks)
		}
		if inside(dir, hooks) && !inside(r.Common, hooks) {
			paths = append(paths, hooks)
			err = errors.Join(err, os.MkdirAll(hooks, 0o755))
		}
	}
	if err != nil {
		err = fmt.Errorf("making sure of what git's settings lead to: %w", err)
	}
	return paths, err
}

// settingPath is a path as settings write it, seen from a folder; "" where it is in another user's home folder, or beside git itself.
func (r Hooks) settingPath(dir, path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, _ := r.getenv("HOME")
		return filepath.Join(home, rest)
	}
	if strings.HasPrefix(path, "~") || strings.HasPrefix(path, "%(prefix)/") {
		return ""
	}
	return AbsFrom(dir, path)
}

// touch makes a file that is not there.
func touch(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}
