package sandbox

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
)

// kind is the access to a path and to everything below it without a kind of its own.
type kind int

const (
	show   kind = iota // read only
	hide               // no access: it appears empty
	write              // read and write
	pinned             // like write, but it can't be moved away together with fixed paths in it
	fixed              // read only, regardless of other settings
)

// layout is the file system as a program sees it.
type layout struct {
	kinds    map[string]kind   // by existing path without symbolic links
	links    map[string]string // symbolic links on the way to those paths, with their targets
	empty    []string          // folders, without symbolic links, that are created empty in hidden ones
	overlays []git.Mount       // mounts on top of those paths
}

func (l *layout) set(k kind, paths ...string) {
	for _, named := range paths {
		p := resolve(named)
		if p == "" || l.kinds[p] == fixed {
			continue
		}
		l.kinds[p] = k
		if k != hide && p != named {
			l.recordLinks(named)
		}
	}
}

// addEmpty adds hidden folders that programs expect to exist. They appear empty.
func (l *layout) addEmpty(dirs ...string) {
	for _, named := range dirs {
		dir := resolve(named)
		if dir == "" || l.kindOf(dir) != hide {
			continue
		}
		l.empty = append(l.empty, dir)
		if dir != named {
			l.recordLinks(named)
		}
	}
}

// recordLinks records the symbolic links that an existing path leads through.
func (l *layout) recordLinks(path string) {
	const most = 40 // the limit of the kernel
	for range most {
		link, rest := firstLink(path)
		if link == "" {
			return
		}
		target, err := os.Readlink(link)
		if err != nil {
			return
		}
		l.links[link] = target
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		path = filepath.Join(target, rest)
	}
}

// firstLink returns the shortest prefix of a path that is a symbolic link, and the rest of the path.
func firstLink(path string) (link, rest string) {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if st, err := os.Lstat(path[:i]); err == nil && st.Mode()&os.ModeSymlink != 0 {
			return path[:i], path[i:]
		}
	}
	return "", ""
}

// resolve returns path without symbolic links, or "" if path is not absolute or does not exist.
func resolve(path string) string {
	if !filepath.IsAbs(path) {
		return ""
	}
	p, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return p
}

// kindOf returns the kind of a path: its own, or that of the nearest folder above it that has one.
func (l *layout) kindOf(path string) kind {
	for ; path != "" && path != "/" && path != "."; path = filepath.Dir(path) {
		if k, ok := l.kinds[path]; ok {
			return k
		}
	}
	return show
}

// mounts returns bubblewrap's arguments, each folder before the paths in it.
func (l *layout) mounts() []string {
	args := []string{"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"}
	for _, path := range slices.Sorted(maps.Keys(l.kinds)) {
		k := l.kinds[path]
		if above := l.kindOf(filepath.Dir(path)); k == above && k != pinned || k != hide && k != write && k != pinned && (above == show || above == fixed) {
			continue
		}
		switch st, err := os.Stat(path); {
		case err != nil:
		case k == hide && st.IsDir():
			args = append(args, "--tmpfs", path)
		case k == hide:
			args = append(args, "--ro-bind", "/dev/null", path)
		case k == write && strings.HasPrefix(path, "/dev/"):
			args = append(args, "--dev-bind", path, path)
		case k == write, k == pinned:
			args = append(args, "--bind", path, path)
		default:
			args = append(args, "--ro-bind", path, path)
		}
	}
	for _, dir := range l.empty {
		args = append(args, "--dir", dir)
	}
	for _, m := range l.overlays {
		bind := "--ro-bind"
		if m.Write {
			bind = "--bind"
		}
		args = append(args, bind, m.From, m.To)
	}
	for _, link := range slices.Sorted(maps.Keys(l.links)) {
		if l.kindOf(link) == hide {
			args = append(args, "--symlink", l.links[link], link)
		}
	}
	return args
}

// layout returns the layout for a program. It fails if it can't determine which paths must not be changed.
func (b *Box) layout(n Need) (*layout, error) {
	l := &layout{kinds: map[string]kind{}, links: map[string]string{}}
	l.set(hide, "/tmp", "/var/tmp", "/run", b.getenv("TMPDIR"))
	l.set(show, readableRunPaths...)
	l.set(hide, b.personalFolders()...)
	path, linking := b.pathFolders(l)
	l.set(show, b.shownHomePaths()...)
	l.set(show, path...)
	l.set(show, l.linkedPrograms(linking)...)
	b.showNamed(l)
	l.set(show, b.withoutProtected(n.Own.Read)...)
	b.setCacheFolder(l)
	l.set(write, b.withoutProtected(b.ensureCacheFolders())...)
	l.set(write, b.withoutProtected(n.Own.Write)...)
	l.set(hide, n.Own.Private...)
	l.set(show, n.Dir)
	guard := slices.Clone(n.Own.Fixed)
	if b.Repo != nil {
		l.set(show, b.Repo.Main, b.Repo.Common)
		l.set(show, b.alternateObjects()...)
	}
	open := slices.Concat(readableRunPaths, n.Own.Write, b.absolutePaths(b.Write))
	if n.Edit {
		top := checkoutTop(n.Dir)
		store, err := b.gitStore(top)
		if err != nil {
			return nil, err
		}
		l.set(write, store.Write...)
		l.overlays = store.Mounts
		l.set(write, top)
		guard = append(guard, store.Fixed...)
		open = append(open, top)
	}
	l.set(write, b.withoutProtected(b.absolutePaths(b.Write))...)
	if b.Repo != nil {
		guard = append(guard, b.codePaths()...)
	}
	l.set(fixed, guard...)
	if b.Repo != nil {
		if err := b.hideAccounts(l); err != nil {
			return nil, err
		}
	}
	if err := l.hideSockets(open); err != nil {
		return nil, err
	}
	l.pinParents()
	l.addEmpty(b.getenv("HOME"), b.getenv("TMPDIR"), b.getenv("XDG_RUNTIME_DIR"))
	return l, nil
}

// absolutePaths returns paths that the project names as absolute paths.
func (b *Box) absolutePaths(names []string) (paths []string) {
	for _, path := range names {
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			path = filepath.Join(b.getenv("HOME"), rest)
		}
		paths = append(paths, path)
	}
	return paths
}

// showNamed shows the paths that the project names and hides the secret ones. A path that is secret, or in a secret folder, is shown
// if the project names it.
func (b *Box) showNamed(l *layout) {
	paths := b.withoutProtected(b.absolutePaths(b.Home))
	l.set(show, paths...)
	l.set(hide, b.secretPaths()...)
	for _, path := range paths {
		if at := resolve(path); l.kindOf(at) == hide {
			l.set(show, path)
		}
	}
}

// alternateObjects returns the object folders of other repositories that the repository uses.
func (b *Box) alternateObjects() (paths []string) {
	data, err := durable.Read(filepath.Join(b.Repo.Common, "objects", "info", "alternates"), 1<<20)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		path := strings.TrimSpace(line)
		if !filepath.IsAbs(path) {
			path = filepath.Join(b.Repo.Common, "objects", path)
		}
		if filepath.Base(path) == "objects" && isFolder(filepath.Join(path, "pack")) {
			paths = append(paths, b.withoutProtected([]string{path})...)
		}
	}
	return paths
}

// codePaths returns the paths that make git, or trellis itself, run programs.
func (b *Box) codePaths() (paths []string) {
	for _, name := range []string{"hooks", "config", "info"} {
		paths = append(paths, filepath.Join(b.Repo.Common, name))
	}
	for _, name := range []string{"config.yaml", "worktree.yaml", "agents", "templates"} {
		paths = append(paths, filepath.Join(b.Repo.Main, ".trellis", name))
	}
	return paths
}

// checkoutTop returns the top folder of the checkout that contains dir, or else dir.
func checkoutTop(dir string) string {
	for up := dir; ; up = filepath.Dir(up) {
		if _, err := os.Lstat(filepath.Join(up, ".git")); err == nil {
			return up
		}
		if up == filepath.Dir(up) {
			return dir
		}
	}
}

// gitStore returns the git files of a checkout. If top does not belong to this project's repository, none of them can be written,
// nor the files that make git run programs in the worktree around it: a program may have created top there.
func (b *Box) gitStore(top string) (s git.Store, err error) {
	s.Fixed = []string{filepath.Join(top, ".git")}
	for at := top; b.Repo != nil && at != filepath.Dir(at); at = filepath.Dir(at) {
		if at == b.Repo.Main && at != top {
			break
		}
		own, err := b.Repo.ObjectStores().Store(at)
		switch {
		case errors.Is(err, git.ErrNoWorktree):
			continue
		case at == top:
			return own, err
		}
		s.Fixed = append(s.Fixed, own.Fixed...)
		return s, err
	}
	return s, nil
}

// pinParents prevents the folders between a writable one and a fixed path in it from being moved, so that no other can take their place.
func (l *layout) pinParents() {
	for _, path := range slices.Sorted(maps.Keys(l.kinds)) {
		for up := filepath.Dir(path); l.kinds[path] == fixed && l.kindOf(up) >= write; up = filepath.Dir(up) {
			if _, said := l.kinds[up]; said {
				break
			}
			l.kinds[up] = pinned
		}
	}
}

// withoutProtected returns paths without those that contain the home folder or the repository.
func (b *Box) withoutProtected(paths []string) []string {
	guarded := []string{resolve(b.getenv("HOME"))}
	if b.Repo != nil {
		guarded = append(guarded, b.Repo.Main, b.Repo.Common)
	}
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		path = resolve(path)
		return slices.ContainsFunc(guarded, func(g string) bool {
			return g != "" && (g == path || strings.HasPrefix(g, strings.TrimSuffix(path, "/")+"/"))
		})
	})
}
