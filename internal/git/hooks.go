package git

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing/format/config"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Hooks inspects the programs that git runs, and the settings that name them.
type Hooks struct{ repo *Repo }

// Hooks returns the hooks of the main checkout that git runs when Trellis commits and pushes.
func (r Hooks) Hooks(ctx context.Context) []string {
	return r.installed(ctx, r.repo.Main, "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-push")
}

// installed returns those of the named hooks that are installed.
func (r Hooks) installed(ctx context.Context, dir string, names ...string) (list []string) {
	folder, err := r.repo.Line(ctx, Command{Dir: dir, Args: []string{"rev-parse", "--git-path", "hooks"}})
	if err != nil {
		return nil
	}
	for _, name := range names {
		st, err := os.Stat(filepath.Join(AbsFrom(dir, folder), name))
		if err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			list = append(list, name)
		}
	}
	return list
}

// HookState returns a hash of each file that git may run as a hook in a checkout, by path, and of each setting that names the
// folder of hooks. Hooks among the files of the checkout itself are left out: see ChangedHooks. Nothing is run.
func (r Hooks) HookState(dir string) (map[string]string, error) {
	state, _, err := r.stateAndFolders(dir)
	return state, err
}

// stateAndFolders returns the HookState, and the folders in which git may look for hooks.
func (r Hooks) stateAndFolders(dir string) (state map[string]string, folders []string, err error) {
	state = map[string]string{}
	folders, err = r.hookFolders(dir, func(file, value string) { state["core.hooksPath of "+file] = shortHash([]byte(value)) })
	for _, folder := range folders {
		if inside(dir, folder) && !inside(r.repo.Common, folder) {
			continue
		}
		eachHook(folder, func(path string, data []byte) { state[path] = shortHash(data) })
	}
	return state, folders, err
}

// ChangedHooks returns the paths and settings in which the hooks of a checkout differ: from an earlier HookState, and among the
// checkout's own files from the commit base.
func (r Hooks) ChangedHooks(ctx context.Context, dir, base string, before map[string]string) (changed []string, err error) {
	now, folders, err := r.stateAndFolders(dir)
	changed = changedKeys(before, now)
	for _, folder := range folders {
		if inside(dir, folder) && !inside(r.repo.Common, folder) {
			own, ownErr := r.changedWithin(ctx, dir, folder, base)
			if changed = append(changed, own...); ownErr != nil {
				return changed, ownErr
			}
		}
	}
	return changed, err
}

// changedWithin returns the hooks in a folder of a checkout that differ from the commit base.
func (r Hooks) changedWithin(ctx context.Context, dir, folder, base string) (changed []string, err error) {
	rel, err := filepath.Rel(dir, folder)
	if err != nil {
		return nil, err
	}
	list, err := r.repo.lsTree(ctx, Command{Dir: r.repo.Main}, base, nil, filepath.ToSlash(rel)+"/")
	if err != nil {
		return nil, err
	}
	blobs := map[string]string{}
	for _, e := range list {
		blobs[e.path] = hex.EncodeToString(e.hash)
	}
	eachHook(folder, func(path string, data []byte) {
		name, relErr := filepath.Rel(dir, path)
		if name = filepath.ToSlash(name); relErr != nil || blobs[name] != BlobID(data, base) {
			changed = append(changed, name)
		}
	})
	return changed, nil
}

// hookFolders returns the folders where git may look for hooks by any setting, whatever its condition, and calls set for each
// setting.
func (r Hooks) hookFolders(dir string, set func(file, value string)) (folders []string, err error) {
	admin, err := r.repo.gitDir(dir)
	if err != nil {
		return nil, err
	}
	folders = []string{filepath.Join(r.repo.Common, "hooks")}
	r.eachConfig(admin, func(file string, c Config) {
		if c.hooks != "" {
			set(file, c.hooks)
			folders = append(folders, r.configuredHooks(dir, c)...)
		}
	})
	return folders, nil
}

// eachConfig calls do for the files from which git may read settings of a checkout: the repository's, the worktree's, the user's,
// and those that they include. A file that can't be read counts as empty: git then reports the error.
func (r Hooks) eachConfig(admin string, do func(file string, c Config)) {
	files := append([]string{filepath.Join(r.repo.Common, "config"), filepath.Join(admin, worktreeSettings)}, r.userConfigFiles()...)
	const most = 100 // files; git itself gives up at a depth of 10
	for i := 0; i < len(files) && i < most; i++ {
		c, _ := ReadConfigFile(files[i])
		for _, name := range c.includes {
			files = append(files, r.settingPath(filepath.Dir(files[i]), name))
		}
		do(files[i], c)
	}
}

// configuredHooks returns the folders of hooks that a configuration file names; the last contains the hooks written by hand.
func (r Hooks) configuredHooks(dir string, c Config) []string {
	folder := r.settingPath(dir, c.hooks)
	if filepath.Base(folder) == "_" { // husky's folder, whose hooks call those next to it
		return []string{folder, filepath.Dir(folder)}
	}
	return []string{folder}
}

// eachHook calls do for the files of a folder, links followed. For a file, or a folder, that can't be read, data is the error's
// text.
func eachHook(folder string, do func(path string, data []byte)) {
	const long = 8 << 20
	list, err := os.ReadDir(folder)
	switch {
	case absent(err), folder == "":
		return // git finds no hooks there either
	case err != nil: // git can run a hook from a folder that can't be listed
		do(folder, []byte(err.Error()))
		return
	}
	for _, e := range list {
		if strings.HasSuffix(e.Name(), ".sample") {
			continue
		}
		path := filepath.Join(folder, e.Name())
		if st, err := os.Stat(path); err != nil || st.IsDir() {
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		var data []byte
		if err == nil {
			data, err = durable.ReadBelow(filepath.Dir(real), filepath.Base(real), long)
		}
		if err != nil {
			data = []byte(err.Error())
		}
		do(path, data)
	}
}

type hooklessKey struct{}

// Hookless returns a context in which git runs no hooks.
func Hookless(ctx context.Context) context.Context {
	return context.WithValue(ctx, hooklessKey{}, true)
}

// disableOptions returns the options that disable hooks, in a Hookless context, and in the main checkout if its hooks are among its
// files: these belong to whatever branch is checked out there.
func (r Hooks) disableOptions(ctx context.Context, c Command) []string {
	if ctx.Value(hooklessKey{}) == nil && (c.Dir != r.repo.Main || !r.hooksWithin(c.Dir)) {
		return nil
	}
	return []string{"-c", "core.hooksPath=" + os.DevNull}
}

// hooksWithin reports whether git may find hooks among the files of a checkout.
func (r Hooks) hooksWithin(dir string) bool {
	folders, err := r.hookFolders(dir, func(string, string) {})
	return err != nil || slices.ContainsFunc(folders, func(folder string) bool { return inside(dir, folder) && !inside(r.repo.Common, folder) })
}

// ensureConfiguredPaths returns the paths among the files of a checkout that git's settings name: folders of hooks, and files of more
// settings. Missing ones are created, empty, so that nobody else creates them.
func (r Hooks) ensureConfiguredPaths(dir, admin string) (paths []string, err error) {
	add := func(path string, create func(string) error) {
		if inside(dir, path) && !inside(r.repo.Common, path) {
			paths = append(paths, path)
			err = errors.Join(err, create(path))
		}
	}
	r.eachConfig(admin, func(file string, c Config) {
		add(file, touch)
		if c.hooks != "" {
			hooks := r.configuredHooks(dir, c)
			add(hooks[len(hooks)-1], func(path string) error { return os.MkdirAll(path, 0o755) })
		}
	})
	if err != nil {
		err = fmt.Errorf("making the files that git's settings name: %w", err)
	}
	return paths, err
}

// settingPath resolves a path in the settings, seen from a folder; "" for one in another user's home or in git's own installation.
func (r Hooks) settingPath(dir, path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, _ := r.repo.getenv("HOME")
		return filepath.Join(home, rest)
	}
	if strings.HasPrefix(path, "~") || strings.HasPrefix(path, "%(prefix)/") {
		return ""
	}
	return AbsFrom(dir, path)
}

// touch creates a file if it doesn't exist.
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

// Settings returns a hash of each setting that affects git in a checkout, by name: keys of the repository's and the user's
// configuration, hooks, the files below info/, shallow and alternates. Settings of branches and remotes are left out. The result is for
// comparison with that of another time; nothing is run.
func (r Hooks) Settings(dir string) (map[string]string, error) {
	admin, err := r.repo.gitDir(dir)
	if err != nil {
		return nil, err
	}
	s := map[string]string{}
	for _, file := range append([]string{filepath.Join(r.repo.Common, "config"), filepath.Join(admin, worktreeSettings)}, r.userConfigFiles()...) {
		err = errors.Join(err, addSettings(s, file))
	}
	for _, name := range []string{"info/exclude", "info/attributes", "info/grafts", "shallow", "objects/info/alternates"} {
		err = errors.Join(err, addFileHash(s, name, filepath.Join(r.repo.Common, name)))
	}
	hooks, hooksErr := os.ReadDir(filepath.Join(r.repo.Common, "hooks"))
	if !absent(hooksErr) {
		err = errors.Join(err, hooksErr)
	}
	for _, h := range hooks {
		if h.Type().IsRegular() && !strings.HasSuffix(h.Name(), ".sample") {
			err = errors.Join(err, addFileHash(s, "hooks/"+h.Name(), filepath.Join(r.repo.Common, "hooks", h.Name())))
		}
	}
	return s, err
}

// ChangesContent reports whether a setting lets git change the content of a file when it is added: the commit then differs from
// the work tree.
func ChangesContent(setting string) bool {
	if strings.HasPrefix(setting, "filter.") || strings.HasPrefix(setting, "include") {
		return true
	}
	return slices.Contains([]string{"info/attributes", "core.attributesfile", "core.worktree", "core.autocrlf", "core.eol", "core.symlinks"}, setting)
}

// userConfigFiles returns the files of the user's own configuration.
func (r Hooks) userConfigFiles() []string {
	get := func(name string) string { value, _ := r.repo.getenv(name); return value }
	if file := get("GIT_CONFIG_GLOBAL"); file != "" {
		return []string{file}
	}
	home, xdg := get("HOME"), get("XDG_CONFIG_HOME")
	xdg = cmp.Or(xdg, filepath.Join(home, ".config"))
	return []string{filepath.Join(xdg, "git", "config"), filepath.Join(home, ".gitconfig")}
}

// addSettings adds the settings of a configuration file. An invalid file counts as a whole.
func addSettings(to map[string]string, file string) error {
	data, err := os.ReadFile(file)
	if absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading git's settings: %w", err)
	}
	c := config.New()
	if err := config.NewDecoder(bytes.NewReader(data)).Decode(c); err != nil {
		to["config"] = shortHash(data)
		return nil
	}
	add := func(section, name string, options config.Options) {
		for _, o := range options {
			key := strings.ToLower(section) + "." + name + strings.ToLower(o.Key)
			to[key] = shortHash([]byte(to[key] + o.Value))
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

func addFileHash(to map[string]string, name, file string) error {
	data, err := os.ReadFile(file)
	if absent(err) {
		return nil
	}
	to[name] = shortHash(data)
	return err
}

// absent reports whether an error means that nothing exists at a path, also if something other than a folder is on the way to it,
// as with hooks that are a link to /dev/null. Git treats both alike.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// shortHash returns enough of a hash to detect a change.
func shortHash(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:8])
}
