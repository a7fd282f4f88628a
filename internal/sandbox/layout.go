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

// kind is what may be done with a path and all below it that has no kind of its own.
type kind int

const (
	show   kind = iota // read
	hide               // nothing: it is empty there
	write              // read and write
	pinned             // as write, and it can't be moved away with what is fixed in it
	fixed              // read, whatever else is said of it
)

// layout is what a program sees.
type layout struct {
	at    map[string]kind   // by path, of those that are there, without links
	links map[string]string // links on the way to them, and where they lead
	empty []string          // folders that are there in what is hidden, without links
	over  []git.Mount       // what is laid over them
}

func (l *layout) set(k kind, paths ...string) {
	for _, named := range paths {
		p := resolve(named)
		if p == "" || l.at[p] == fixed {
			continue
		}
		l.at[p] = k
		if k != hide && p != named {
			l.follow(named)
		}
	}
}

// keep sees to it that a folder is there, empty, which programs expect to be.
func (l *layout) keep(dirs ...string) {
	for _, named := range dirs {
		dir := resolve(named)
		if dir == "" || l.kindOf(dir) != hide {
			continue
		}
		l.empty = append(l.empty, dir)
		if dir != named {
			l.follow(named)
		}
	}
}

// follow notes the links that a path leads through. The path is there.
func (l *layout) follow(path string) {
	const most = 40 // as the kernel says
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

// firstLink is the first part of a path that is a link, and what comes after it.
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

// resolve gives a path without links, "" when it is not there.
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

// kindOf is what may be done with a path: what is said of it, or of the nearest folder above it.
func (l *layout) kindOf(path string) kind {
	for ; path != "" && path != "/" && path != "."; path = filepath.Dir(path) {
		if k, ok := l.at[path]; ok {
			return k
		}
	}
	return show
}

// mounts are bubblewrap's arguments, folders before what is in them.
func (l *layout) mounts() []string {
	args := []string{"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"}
	for _, path := range slices.Sorted(maps.Keys(l.at)) {
		k := l.at[path]
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
	for _, m := range l.over {
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

// layout is what a program of this project sees. It fails where it can't be told what of it nobody may change.
func (b *Box) layout(n Need) (*layout, error) {
	l := &layout{at: map[string]kind{}, links: map[string]string{}}
	l.set(hide, "/tmp", "/var/tmp", "/run", b.getenv("TMPDIR"))
	l.set(show, ofRun...)
	l.set(hide, b.strange()...)
	path, linking := b.folders(l)
	l.set(show, b.ofHome()...)
	l.set(show, path...)
	l.set(show, l.programs(linking)...)
	b.named(l)
	l.set(show, b.allowed(n.Own.Read)...)
	b.cache(l)
	l.set(write, b.allowed(b.caches())...)
	l.set(write, b.allowed(n.Own.Write)...)
	l.set(hide, n.Own.Private...)
	l.set(show, n.Dir)
	guard := slices.Clone(n.Own.Fixed)
	if b.Repo != nil {
		l.set(show, b.Repo.Main, b.Repo.Common)
		l.set(show, b.borrowed()...)
	}
	open := slices.Concat(ofRun, n.Own.Write, b.below(b.Write))
	if n.Edit {
		top := checkout(n.Dir)
		store, err := b.store(top)
		if err != nil {
			return nil, err
		}
		l.set(write, store.Write...)
		l.over = store.Mounts
		l.set(write, top)
		guard = append(guard, store.Fixed...)
		open = append(open, top)
	}
	l.set(write, b.allowed(b.below(b.Write))...)
	if b.Repo != nil {
		guard = append(guard, b.lead()...)
	}
	l.set(fixed, guard...)
	if b.Repo != nil {
		if err := b.withoutAccounts(l); err != nil {
			return nil, err
		}
	}
	if err := l.shut(open); err != nil {
		return nil, err
	}
	l.pin()
	l.keep(b.getenv("HOME"), b.getenv("TMPDIR"), b.getenv("XDG_RUNTIME_DIR"))
	return l, nil
}

// below are paths that the project names, absolute.
func (b *Box) below(names []string) (paths []string) {
	for _, path := range names {
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			path = filepath.Join(b.getenv("HOME"), rest)
		}
		paths = append(paths, path)
	}
	return paths
}

// named shows what the project names, and hides what is secret wherever it is, but for what is named itself or lies in what
// is secret.
func (b *Box) named(l *layout) {
	paths := b.allowed(b.below(b.Home))
	l.set(show, paths...)
	l.set(hide, b.secrets()...)
	for _, path := range paths {
		if at := resolve(path); l.kindOf(at) == hide {
			l.set(show, path)
		}
	}
}

// borrowed are the folders of objects that the repository takes from others.
func (b *Box) borrowed() (paths []string) {
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
			paths = append(paths, b.allowed([]string{path})...)
		}
	}
	return paths
}

// lead are the paths that lead git, and trellis itself, to programs.
func (b *Box) lead() (paths []string) {
	for _, name := range []string{"hooks", "config", "info"} {
		paths = append(paths, filepath.Join(b.Repo.Common, name))
	}
	for _, name := range []string{"config.yaml", "worktree.yaml", "agents", "templates"} {
		paths = append(paths, filepath.Join(b.Repo.Main, ".trellis", name))
	}
	return paths
}

// checkout is the top of the checkout that a folder is in, else the folder.
func checkout(dir string) string {
	for up := dir; ; up = filepath.Dir(up) {
		if _, err := os.Lstat(filepath.Join(up, ".git")); err == nil {
			return up
		}
		if up == filepath.Dir(up) {
			return dir
		}
	}
}

// store is what git keeps of a checkout. Of one that is not of this project's repository nothing can be written, nor what leads
// git to programs in the worktree of the repository that it lies in: a program may have made it there.
func (b *Box) store(top string) (s git.Store, err error) {
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

// pin holds the folders between one to write and what is fixed in it: whoever moves one away could lay another there.
func (l *layout) pin() {
	for _, path := range slices.Sorted(maps.Keys(l.at)) {
		for up := filepath.Dir(path); l.at[path] == fixed && l.kindOf(up) >= write; up = filepath.Dir(up) {
			if _, said := l.at[up]; said {
				break
			}
			l.at[up] = pinned
		}
	}
}

// allowed are paths without those that hold the home folder or the repository.
func (b *Box) allowed(paths []string) []string {
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
