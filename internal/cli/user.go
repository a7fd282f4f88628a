package cli

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// userFile is where a person's settings for all projects stand, "" when nobody says where a home is.
func (a *console) userFile() string {
	dir := a.userDir("XDG_CONFIG_HOME", ".config")
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "config.yaml")
}

// userDir is the folder of Trellis in one of the folders that the XDG base directory specification names.
func (a *console) userDir(variable, usual string) string {
	dir := a.Getenv(variable)
	if !filepath.IsAbs(dir) { // which that specification has passed over
		home := a.Getenv("HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		dir = filepath.Join(home, usual)
	}
	return filepath.Join(dir, "trellis")
}

// readUser reads a person's settings. They may be a link, as people keep such files elsewhere.
func readUser(path string) (config.File, *trellis.Problem) {
	if path == "" {
		return config.File{}, nil
	}
	f := config.File{Name: path}
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		f.Data, err = durable.Read(real, durable.MaxDocument)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		problem := trellis.Unread(path, err)
		return f, &problem
	}
	return f, nil
}
