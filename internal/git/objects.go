package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Objects records the state of a repository's object files at one moment. Git does not hash objects again when it reads them, so
// files that others add or change are hashed here, each once. Not for concurrent use.
type Objects struct {
	trees    Trees
	seen     map[string]objectFile   // by path below the objects folder
	folders  map[string]objectFolder // folders that were listed
	borrowed []string                // lines of objects/info/alternates
}

// objectFile identifies a file, to detect that others replaced it or wrote to it.
type objectFile struct {
	inode    uint64
	size     int64
	changed  int64  // change time (ctime), in nanoseconds
	checksum string // of a pack or pack index: the checksum at its end
}

// freshened reports whether only the times of a pack or pack index changed, which git itself does if an object that it adds is in
// the pack already.
func (f objectFile) freshened(was objectFile) bool {
	return f.checksum != "" && f.checksum == was.checksum && f.inode == was.inode && f.size == was.size
}

// Alternates returns the lines that name further folders from which git takes objects; it is never nil.
func (o *Objects) Alternates() []string { return append([]string{}, o.borrowed...) }

// AlternatesError means that git takes objects from more folders than before. Whoever can write to such a folder can change the
// objects in it, and committed objects may be stored nowhere else.
type AlternatesError struct {
	File string
	From []string // folders that were added
}

func (e *AlternatesError) Error() string {
	return fmt.Sprintf("%s has git take objects from %s since the run is at work: take that out of it again (`rm -r %s` where nothing in it is yours); what git misses then was in that folder alone",
		e.File, strings.Join(e.From, ", "), trellis.ShellWord(e.File))
}

// updateAlternates returns an *AlternatesError if there are more alternates than before, and a note if there are fewer.
func (o *Objects) updateAlternates() (notes []string, err error) {
	now, err := o.trees.repo.ObjectStores().alternates()
	if err != nil {
		now = []string{"folders that can't be read (" + err.Error() + ")"}
	}
	added := slices.DeleteFunc(slices.Clone(now), func(line string) bool { return slices.Contains(o.borrowed, line) })
	if len(added) > 0 {
		return nil, &AlternatesError{filepath.Join(o.trees.repo.Common, "objects", alternatesFile), added}
	}
	if len(now) < len(o.borrowed) {
		notes = append(notes, "git's objects/info/alternates was changed: `git fsck --full` says what is missing")
	}
	o.borrowed = now
	return notes, nil
}

// Check hashes the object files that changed since the last call. It returns a *DamagedError for a damaged one, an
// *AlternatesError if git takes objects from more folders than before, and notes about objects that are gone.
func (o *Objects) Check(ctx context.Context) (notes []string, err error) {
	now, err := o.scan()
	if err != nil {
		return nil, err
	}
	if notes, err = o.updateAlternates(); err != nil {
		return nil, err
	}
	gone, changed := o.compare(now)
	asked := map[string]bool{} // commands that ran, each of which checks all files
	for _, name := range changed {
		if now[name].freshened(o.seen[name]) && o.trees.matchesChecksum(name) {
			continue
		}
		if err := o.trees.verifyObjectFile(ctx, name, asked); err != nil && !errors.Is(err, fs.ErrNotExist) { // packed meanwhile
			return notes, err
		}
	}
	o.seen = now
	note, err := o.trees.goneObjects(ctx, gone)
	if note != "" {
		notes = append(notes, note)
	}
	return notes, err
}

// compare returns the files that are gone, and those that are new or changed; the latter are sorted.
func (o *Objects) compare(now map[string]objectFile) (gone, changed []string) {
	for name := range o.seen {
		if _, there := now[name]; !there {
			gone = append(gone, name)
		}
	}
	for name, f := range now {
		if f != o.seen[name] {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return gone, changed
}

// scan returns the object files, and the files that git reads instead of them. There can be many: each costs one system call.
func (o *Objects) scan() (map[string]objectFile, error) {
	store, found := filepath.Join(o.trees.repo.Common, "objects"), make(map[string]objectFile, len(o.seen))
	for _, folder := range append(looseFolders(store), "pack", "pack/multi-pack-index.d", "info", "info/commit-graphs") {
		if err := o.scanFolder(store, folder, found); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("looking at the objects of git: %w", err)
		}
	}
	return found, nil
}

func (o *Objects) scanFolder(store, folder string, found map[string]objectFile) error {
	dir, err := os.Open(filepath.Join(store, folder))
	if err != nil {
		return err
	}
	defer dir.Close()
	fd := int(dir.Fd())
	names, err := o.namesIn(folder, dir)
	for _, name := range names {
		f, isFile, err := fileAt(fd, name[len(folder)+1:])
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && !isFile:
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		}
		f.checksum = o.trees.storedChecksum(name, f.size)
		found[name] = f
	}
	return err
}

type objectFolder struct {
	state objectFile
	read  time.Time
	names []string // including the folder
}

// namesIn returns the names of the files in an objects folder. They are cached until the folder changes, except if it changed
// shortly before it was read, since it may have changed again at the same clock tick.
func (o *Objects) namesIn(folder string, dir *os.File) ([]string, error) {
	now := objectFolder{read: time.Now()}
	var err error
	if now.state, _, err = fileAt(int(dir.Fd()), "."); err != nil {
		return nil, err
	}
	if was := o.folders[folder]; was.state == now.state && now.state.changed < was.read.Add(-clockTick).UnixNano() {
		return was.names, nil
	}
	all, err := dir.Readdirnames(-1)
	for _, name := range all {
		if !temporary(name) {
			now.names = append(now.names, folder+"/"+name)
		}
	}
	if err == nil {
		o.folders[folder] = now
	}
	return now.names, err
}

// fileAt returns the state of a file in a folder, following links as git does, and whether it is not a folder. With the open
// folder this takes half as long as with a path.
func fileAt(dir int, name string) (f objectFile, isFile bool, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(dir, name, &st, 0)
	return objectFile{inode: st.Ino, size: st.Size, changed: st.Ctim.Nano()}, st.Mode&unix.S_IFMT != unix.S_IFDIR, err
}

// temporary reports whether a file is one that git uses while it writes another, or to keep others from being removed. A pack
// index never is: git reads each, whatever its name.
func temporary(name string) bool {
	if strings.HasSuffix(name, ".idx") {
		return false
	}
	return strings.HasPrefix(name, "tmp_") || strings.HasPrefix(name, ".tmp-") || strings.HasSuffix(name, ".lock") || strings.HasSuffix(name, ".keep")
}
