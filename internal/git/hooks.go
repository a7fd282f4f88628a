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
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing/format/config"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Hooks are the programs that git runs, and the settings that name them.
type Hooks struct{ repo *Repo }

// Hooks are the hooks of the main checkout that git runs when Trellis commits and pushes.
func (r Hooks) Hooks(ctx context.Context) []string {
	return r.hooks(ctx, r.repo.Main, "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-push")
}

// hooks are those of the names that the user has.
func (r Hooks) hooks(ctx context.Context, dir string, names ...string) (list []string) {
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

// HookState is a hash of each file that git may run as a hook in a checkout, by its path, and of each setting that says where
// those are. Hooks among the files of the checkout itself are left out: see ChangedHooks. Nothing is run.
func (r Hooks) HookState(dir string) (map[string]string, error) {
	state, _, err := r.stateAndFolders(dir)
	return state, err
}

// stateAndFolders is HookState, and the folders in which git may look for hooks.
func (r Hooks) stateAndFolders(dir string) (state map[string]string, folders []string, err error) {
	state = map[string]string{}
	folders, err = r.hookFolders(dir, func(file, value string) { state["core.hooksPath of "+file] = sum([]byte(value)) })
	for _, folder := range folders {
		if inside(dir, folder) && !inside(r.repo.Common, folder) {
			continue
		}
		eachHook(folder, func(path string, data []byte) { state[path] = sum(data) })
	}
	return state, folders, err
}

// ChangedHooks are the paths and settings in which the hooks of a checkout differ: from what HookState said before, and among
// its own files from those of the commit base.
func (r Hooks) ChangedHooks(ctx context.Context, dir, base string, before map[string]string) (changed []string, err error) {
	now, folders, err := r.stateAndFolders(dir)
	all := maps.Clone(now)
	maps.Copy(all, before)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if now[name] != before[name] {
			changed = append(changed, name)
		}
	}
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

// changedWithin are the hooks in a folder of a checkout that are not as in the commit base.
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

// hookFolders are the folders in which git may look for hooks, by all settings, whatever those depend on.
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

// eachConfig goes through the files that git may read settings of a checkout from: the repository's, the worktree's, the user's,
// and what those include. One that can't be read has none: git then says what is wrong with it.
func (r Hooks) eachConfig(admin string, do func(file string, c Config)) {
	files := append([]string{filepath.Join(r.repo.Common, "config"), filepath.Join(admin, worktreeSettings)}, r.global()...)
	const most = 100 // files; git itself gives up at a depth of 10
	for i := 0; i < len(files) && i < most; i++ {
		c, _ := ReadConfigFile(files[i])
		for _, name := range c.includes {
			files = append(files, r.settingPath(filepath.Dir(files[i]), name))
		}
		do(files[i], c)
	}
}

// configuredHooks are the folders of hooks that a file of settings names; the last has those that are written by hand.
func (r Hooks) configuredHooks(dir string, c Config) []string {
	folder := r.settingPath(dir, c.hooks)
	if filepath.Base(folder) == "_" { // husky's, which call those beside it
		return []string{folder, filepath.Dir(folder)}
	}
	return []string{folder}
}

// eachHook goes through the files of a folder, links followed. One that can't be read counts with what is wrong, and so does
// a folder.
func eachHook(folder string, do func(path string, data []byte)) {
	const long = 8 << 20
	list, err := os.ReadDir(folder)
	switch {
	case absent(err), folder == "":
		return // git finds none there either
	case err != nil: // git runs a hook whose folder it can't list
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

// Hookless is a context in which git runs no hooks.
func Hookless(ctx context.Context) context.Context {
	return context.WithValue(ctx, hooklessKey{}, true)
}

// noHooks are the options of a call in such a context, and of one in the main checkout whose hooks are among its files: those are
// of whatever branch is checked out there.
func (r Hooks) noHooks(ctx context.Context, c Command) []string {
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

// configuredPaths are the paths among the files of a checkout that settings name to git: folders of hooks, and files of more
// settings. One that is not there is made, empty, so that nobody else makes it.
func (r Hooks) configuredPaths(dir, admin string) (paths []string, err error) {
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

// settingPath is a path as settings write it, seen from a folder; "" where it is in another user's home folder, or beside git itself.
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

// Settings are a hash of each setting that git goes by in a checkout, by its name: keys of the repository's and the
// user's configuration, hooks, the files below info/, and where more objects are from. What says who branches and remotes are is left out. They
// are there to be compared with those of another time; nothing is run.
func (r Hooks) Settings(dir string) (map[string]string, error) {
	admin, err := r.repo.gitDir(dir)
	if err != nil {
		return nil, err
	}
	s := map[string]string{}
	for _, file := range append([]string{filepath.Join(r.repo.Common, "config"), filepath.Join(admin, worktreeSettings)}, r.global()...) {
		err = errors.Join(err, keys(s, file))
	}
	for _, name := range []string{"info/exclude", "info/attributes", "info/grafts", "shallow", "objects/info/alternates"} {
		err = errors.Join(err, digest(s, name, filepath.Join(r.repo.Common, name)))
	}
	hooks, hooksErr := os.ReadDir(filepath.Join(r.repo.Common, "hooks"))
	if !absent(hooksErr) {
		err = errors.Join(err, hooksErr)
	}
	for _, h := range hooks {
		if h.Type().IsRegular() && !strings.HasSuffix(h.Name(), ".sample") {
			err = errors.Join(err, digest(s, "hooks/"+h.Name(), filepath.Join(r.repo.Common, "hooks", h.Name())))
		}
	}
	return s, err
}

// ChangesContent reports whether a setting lets git change the content of a file when it is added: the commit then holds something else
// than the work tree.
func ChangesContent(setting string) bool {
	if strings.HasPrefix(setting, "filter.") || strings.HasPrefix(setting, "include") {
		return true
	}
	return slices.Contains([]string{"info/attributes", "core.attributesfile", "core.worktree", "core.autocrlf", "core.eol", "core.symlinks"}, setting)
}

// global are the files of the user's own configuration.
func (r Hooks) global() []string {
	get := func(name string) string { value, _ := r.repo.getenv(name); return value }
	if file := get("GIT_CONFIG_GLOBAL"); file != "" {
		return []string{file}
	}
	home, xdg := get("HOME"), get("XDG_CONFIG_HOME")
	xdg = cmp.Or(xdg, filepath.Join(home, ".config"))
	return []string{filepath.Join(xdg, "git", "config"), filepath.Join(home, ".gitconfig")}
}

// keys adds the settings of a configuration file. One that is no valid configuration counts as a whole.
func keys(to map[string]string, file string) error {
	data, err := os.ReadFile(file)
	if absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading git's settings: %w", err)
	}
	c := config.New()
	if err := config.NewDecoder(bytes.NewReader(data)).Decode(c); err != nil {
		to["config"] = sum(data)
		return nil
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
