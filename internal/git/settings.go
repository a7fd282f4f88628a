package git

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing/format/config"
)

// Settings are a hash of each setting that git goes by in a checkout, by its name: keys of the repository's and the
// user's configuration, hooks, the files below info/, and where more objects are from. What says who branches and remotes are is left out. They
// are there to be compared with those of another time; nothing is run.
func (r Hooks) Settings(dir string) (map[string]string, error) {
	admin, err := r.gitDir(dir)
	if err != nil {
		return nil, err
	}
	s := map[string]string{}
	for _, file := range append([]string{filepath.Join(r.Common, "config"), filepath.Join(admin, "config.worktree")}, r.global()...) {
		err = errors.Join(err, keys(s, file))
	}
	for _, name := range []string{"info/exclude", "info/attributes", "info/grafts", "shallow", "objects/info/alternates"} {
		err = errors.Join(err, digest(s, name, filepath.Join(r.Common, name)))
	}
	hooks, hooksErr := os.ReadDir(filepath.Join(r.Common, "hooks"))
	if !absent(hooksErr) {
		err = errors.Join(err, hooksErr)
	}
	for _, h := range hooks {
		if h.Type().IsRegular() && !strings.HasSuffix(h.Name(), ".sample") {
			err = errors.Join(err, digest(s, "hooks/"+h.Name(), filepath.Join(r.Common, "hooks", h.Name())))
		}
	}
	return s, err
}

// Bends reports whether a setting changes what git makes of a file: what is committed is then not what is there.
func Bends(setting string) bool {
	if strings.HasPrefix(setting, "filter.") || strings.HasPrefix(setting, "include") {
		return true
	}
	return slices.Contains([]string{"info/attributes", "core.attributesfile", "core.worktree", "core.autocrlf", "core.eol", "core.symlinks"}, setting)
}

// global are the files of the user's own configuration.
func (r Hooks) global() []string {
	get := func(name string) string { value, _ := r.getenv(name); return value }
	if file := get("GIT_CONFIG_GLOBAL"); file != "" {
		return []string{file}
	}
	home, xdg := get("HOME"), get("XDG_CONFIG_HOME")
	if xdg == "" {
		xdg = filepath.Join(home, ".config")
	}
	return []string{filepath.Join(xdg, "git", "config"), filepath.Join(home, ".gitconfig")}
}

// keys adds the settings of a configuration file. One that can't be read counts as a whole.
func keys(to map[string]string, file string) error {
	data, err := os.ReadFile(file)
	if absent(err) || len(data) == 0 {
		return nil
	}
	c := config.New()
	if err == nil {
		err = config.NewDecoder(bytes.NewReader(data)).Decode(c)
	}
	if err != nil {
		return digest(to, "config", file)
	}
	add := func(section, name string, options config.Options) {
		for _, o := range options {
			key := strings.ToLower(section) + "." + name + strings.ToLower(o.Key)
			to[key] = sum([]byte(to[key] + o.Value))
		}
	}
	for _, s := range c.Sections {
		if s.IsName("branch") || s.IsName("remote") {
			continue
		}
		add(s.Name, "", s.Options)
		for _, sub := range s.Subsections {
			add(s.Name, sub.Name+".", sub.Options)
		}
	}
	return nil
}

func digest(to map[string]string, name, file string) error {
	data, err := os.ReadFile(file)
	if absent(err) {
		return nil
	}
	to[name] = sum(data)
	return err
}

// absent reports whether an error says that nothing is at a path, also where something else than a folder is on the way to it, as
// with hooks that are a link to /dev/null. Git takes both for the same.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// sum is enough of a hash to tell that something was changed.
func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:8])
}
