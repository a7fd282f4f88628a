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

// Objects are the files of a repository's objects as they were at one moment. Git does not hash again what it reads from them, so
// those that appear or are changed by others are hashed, each once. Not for concurrent use.
type Objects struct {
	r        Trees
	seen     map[string]objectFile   // by path below objects
	folders  map[string]objectFolder // that were listed
	borrowed []string                // folders that objects are taken from besides
}

// objectFile tells a file from what others put in its place, or write into it.
type objectFile struct {
	inode uint64
	size  int64
	since int64  // when anything of it was changed last, its times too, by the clock
	sum   string // of a pack and its index: the checksum at their end
}

// freshened reports whether of a pack or its index nothing but the times changed, as git itself does where what is added is in
// it already.
func (f objectFile) freshened(was objectFile) bool {
	return f.sum != "" && f.sum == was.sum && f.inode == was.inode && f.size == was.size
}

// Alternates are the lines in which folders are named that objects may be taken from, never nil.
func (o *Objects) Alternates() []string { return append([]string{}, o.borrowed...) }

// AlternatesError says that objects are taken from more folders than before. What stands there can be changed by whoever writes
// there, and what is committed may be nowhere else.
type AlternatesError struct {
	File string
	From []string // folders that were added
}

func (e *AlternatesError) Error() string {
	return fmt.Sprintf("%s has git take objects from %s since the run is at work: take that out of it again (`rm -r %s` where nothing in it is yours); what git misses then was in that folder alone",
		e.File, strings.Join(e.From, ", "), trellis.ShellWord(e.File))
}

// checkAlternates is a *AlternatesError when more is borrowed than before. It is told that something no longer is.
func (o *Objects) checkAlternates() (notes []string, err error) {
	now, err := o.r.stores.alternates()
	if err != nil {
		now = []string{"folders that can't be told (" + err.Error() + ")"}
	}
	added := slices.DeleteFunc(slices.Clone(now), func(line string) bool { return slices.Contains(o.borrowed, line) })
	if len(added) > 0 {
		return nil, &AlternatesError{filepath.Join(o.r.repo.Common, "objects", alternatesFile), added}
	}
	if len(now) < len(o.borrowed) {
		notes = append(notes, "git's objects/info/alternates was changed: `git fsck --full` says what is missing")
	}
	o.borrowed = now
	return notes, nil
}

// Check hashes what was changed since the last time. What is wrong is a *DamagedError, what is taken from other folders since a
// *AlternatesError; what is gone is told.
func (o *Objects) Check(ctx context.Context) (notes []string, err error) {
	now, err := o.scan()
	if err != nil {
		return nil, err
	}
	if notes, err = o.checkAlternates(); err != nil {
		return nil, err
	}
	gone, changed := o.compare(now)
	asked := map[string]bool{} // commands that were run, which look at all there is
	for _, name := range changed {
		if now[name].freshened(o.seen[name]) && o.r.summed(name) {
			continue
		}
		if err := o.r.verifyObjectFile(ctx, name, asked); err != nil && !errors.Is(err, fs.ErrNotExist) { // packed meanwhile
			return notes, err
		}
	}
	o.seen = now
	note, err := o.r.goneObjects(ctx, gone)
	if note != "" {
		notes = append(notes, note)
	}
	return notes, err
}

// compare finds the files that are no longer there, and those that are other ones, sorted.
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

// scan finds the files of objects, and those that git reads instead of them. There can be many: each costs one call of the system.
func (o *Objects) scan() (map[string]objectFile, error) {
	store, found := filepath.Join(o.r.repo.Common, "objects"), make(map[string]objectFile, len(o.seen))
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
		f.sum = o.r.sumOf(name, f.size)
		found[name] = f
	}
	return err
}

type objectFolder struct {
	at    objectFile
	read  time.Time
	names []string // with the folder's
}

// namesIn are the files in a folder of objects. It is not read again as long as it was not changed; what was changed when it was read
// may be changed once more in the same moment.
func (o *Objects) namesIn(folder string, dir *os.File) ([]string, error) {
	now := objectFolder{read: time.Now()}
	var err error
	if now.at, _, err = fileAt(int(dir.Fd()), "."); err != nil {
		return nil, err
	}
	if was := o.folders[folder]; was.at == now.at && now.at.since < was.read.Add(-clockTick).UnixNano() {
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

// fileAt is how a file in a folder looks, what a link leads to as git reads it, and whether it is no folder. By the open folder it
// takes half as long as by its path.
func fileAt(dir int, name string) (f objectFile, isFile bool, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(dir, name, &st, 0)
	return objectFile{inode: st.Ino, size: st.Size, since: st.Ctim.Nano()}, st.Mode&unix.S_IFMT != unix.S_IFDIR, err
}

// temporary reports whether git has a file while it writes another, or to tell that nobody removes that. It reads each index of a
// pack, whatever that is called.
func temporary(name string) bool {
	if strings.HasSuffix(name, ".idx") {
		return false
	}
	return strings.HasPrefix(name, "tmp_") || strings.HasPrefix(name, ".tmp-") || strings.HasSuffix(name, ".lock") || strings.HasSuffix(name, ".keep")
}
