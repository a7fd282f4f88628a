package git

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// HookState is a hash of each file that git may run as a hook in a checkout, by its path, and of each setting that says where
// those are. Hooks among the files of the checkout itself are left out: see ChangedHooks. Nothing is run.
func (r Hooks) HookState(dir string) (map[string]string, error) {
	state := map[string]string{}
	folders, err := r.hookFolders(dir, func(file, value string) { state["core.hooksPath of "+file] = sum([]byte(value)) })
	for _, folder := range folders {
		if inside(dir, folder) && !inside(r.Common, folder) {
			continue
		}
		eachHook(folder, func(path string, data []byte) { state[path] = sum(data) })
	}
	return state, err
}

// ChangedHooks are the paths and settings in which the hooks of a checkout differ: from what HookState said before, and among
// its own files from those of the commit base.
func (r Hooks) ChangedHooks(ctx context.Context, dir, base string, before map[string]string) (changed []string, err error) {
	now, err := r.HookState(dir)
	all := maps.Clone(now)
	maps.Copy(all, before)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if now[name] != before[name] {
			changed = append(changed, name)
		}
	}
	folders, folderErr := r.hookFolders(dir, func(string, string) {})
	for _, folder := range folders {
		if inside(dir, folder) && !inside(r.Common, folder) {
			own, err := r.changedWithin(ctx, dir, folder, base)
			if changed = append(changed, own...); err != nil {
				return changed, err
			}
		}
	}
	return changed, errors.Join(err, folderErr)
}

// changedWithin are the hooks in a folder of a checkout that are not as in the commit base.
func (r Hooks) changedWithin(ctx context.Context, dir, folder, base string) (changed []string, err error) {
	rel, err := filepath.Rel(dir, folder)
	if err != nil {
		return nil, err
	}
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"ls-tree", "-z", "--full-tree", base, "--", filepath.ToSlash(rel) + "/"}})
	if err != nil {
		return nil, err
	}
	blobs := map[string]string{}
	for entry := range strings.SplitSeq(out, "\x00") {
		about, path, _ := strings.Cut(entry, "\t")
		if f := strings.Fields(about); len(f) > 2 {
			blobs[path] = f[2]
		}
	}
	eachHook(folder, func(path string, data []byte) {
		name, relErr := filepath.Rel(dir, path)
		if name = filepath.ToSlash(name); relErr != nil || blobs[name] != blobName(data, len(base)) {
			changed = append(changed, name)
		}
	})
	return changed, nil
}

// blobName is what git calls a file's content, in a repository whose names are that long.
func blobName(data []byte, long int) string {
	if long == hex.EncodedLen(sha256.Size) {
		return hex.EncodeToString(nameOf("blob", data, sha256.New))
	}
	return hex.EncodeToString(nameOf("blob", data, sha1.New))
}

// hookFolders are the folders in which git may look for hooks, by all settings, whatever those depend on.
func (r Hooks) hookFolders(dir string, set func(file, value string)) (folders []string, err error) {
	admin, err := r.gitDir(dir)
	if err != nil {
		return nil, err
	}
	folders = []string{filepath.Join(r.Common, "hooks")}
	files := append([]string{filepath.Join(r.Common, "config"), filepath.Join(admin, worktreeSettings)}, r.global()...)
	const most = 100 // files; git itself gives up at a depth of 10
	for i := 0; i < len(files) && i < most; i++ {
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
		set(files[i], s.hooks)
		folder := r.settingPath(dir, s.hooks)
		folders = append(folders, folder)
		if filepath.Base(folder) == "_" { // husky's, which call those beside it
			folders = append(folders, filepath.Dir(folder))
		}
	}
	return folders, nil
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
		path := filepath.Join(folder, e.Name())
		if st, err := os.Stat(path); strings.HasSuffix(e.Name(), ".sample") || err != nil || st.IsDir() {
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
	if ctx.Value(hooklessKey{}) == nil && (c.Dir != r.Main || !r.hooksWithin(c.Dir)) {
		return nil
	}
	return []string{"-c", "core.hooksPath=" + os.DevNull}
}

// hooksWithin reports whether git may find hooks among the files of a checkout.
func (r Hooks) hooksWithin(dir string) bool {
	folders, err := r.hookFolders(dir, func(string, string) {})
	return err != nil || slices.ContainsFunc(folders, func(folder string) bool { return inside(dir, folder) && !inside(r.Common, folder) })
}
