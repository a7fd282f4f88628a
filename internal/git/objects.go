package git

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Objects are the files of a repository's objects as they were at one moment. Git does not hash again what it reads from them, so
// those that appear or are changed by others are hashed, each once. Not for concurrent use.
type Objects struct {
	r        *Repo
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

// Objects notes how those of the repository are now. With since, those that were changed after it count as changed. With borrowed,
// what it Borrowed at another time counts, and not what it does now.
func (r Trees) Objects(since time.Time, borrowed []string) (*Objects, error) {
	o := &Objects{r: r.Repo, folders: map[string]objectFolder{}, borrowed: borrowed}
	seen, err := o.look()
	if err == nil && borrowed == nil {
		o.borrowed, err = r.ObjectStores().alternates()
	}
	if err != nil {
		return nil, err
	}
	if !since.IsZero() {
		maps.DeleteFunc(seen, func(_ string, f objectFile) bool { return f.since >= since.UnixNano() })
	}
	o.seen = seen
	return o, nil
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
		e.File, strings.Join(e.From, ", "), e.File)
}

// checkAlternates is a *BorrowedError when more is borrowed than before. It is told that something no longer is.
func (o *Objects) checkAlternates() (notes []string, err error) {
	now, err := o.r.ObjectStores().alternates()
	if err != nil {
		now = []string{"folders that can't be told (" + err.Error() + ")"}
	}
	added := slices.DeleteFunc(slices.Clone(now), func(line string) bool { return slices.Contains(o.borrowed, line) })
	if len(added) > 0 {
		return nil, &AlternatesError{filepath.Join(o.r.Common, "objects", alternatesFile), added}
	}
	if len(now) < len(o.borrowed) {
		notes = append(notes, "git's objects/info/alternates was changed: `git fsck --full` says what is missing")
	}
	o.borrowed = now
	return notes, nil
}

// Check hashes what was changed since the last time. What is wrong is a *DamagedError, what is taken from other folders since a
// *BorrowedError; what is gone is told.
func (o *Objects) Check(ctx context.Context) (notes []string, err error) {
	now, err := o.look()
	if err != nil {
		return nil, err
	}
	if notes, err = o.checkAlternates(); err != nil {
		return nil, err
	}
	gone, changed := o.compare(now)
	asked := map[string]bool{} // commands that were run, which look at all there is
	for _, name := range changed {
		if now[name].freshened(o.seen[name]) && o.r.Trees().summed(name) {
			continue
		}
		if err := o.r.Trees().verifyObjectFile(ctx, name, asked); err != nil && !errors.Is(err, fs.ErrNotExist) { // packed meanwhile
			return notes, err
		}
	}
	o.seen = now
	note, err := o.r.Trees().goneObjects(ctx, gone)
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

// look finds the files of objects, and those that git reads instead of them. There can be many: each costs one call of the system.
func (o *Objects) look() (map[string]objectFile, error) {
	store, found := filepath.Join(o.r.Common, "objects"), make(map[string]objectFile, len(o.seen))
	for _, folder := range append(looseFolders(store), "pack", "pack/multi-pack-index.d", "info", "info/commit-graphs") {
		if err := o.lookIn(store, folder, found); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("looking at the objects of git: %w", err)
		}
	}
	return found, nil
}

func (o *Objects) lookIn(store, folder string, found map[string]objectFile) error {
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
		f.sum = o.r.Trees().sumOf(name, f.size)
		found[name] = f
	}
	return err
}

// objectFolder is what was in a folder of objects.
type objectFolder struct {
	at     objectFile
	looked time.Time
	names  []string // with the folder's
}

// namesIn are the files in a folder of objects. It is not read again as long as it was not changed; what was changed when it was read
// may be changed once more in the same moment.
func (o *Objects) namesIn(folder string, dir *os.File) ([]string, error) {
	now := objectFolder{looked: time.Now()}
	var err error
	if now.at, _, err = fileAt(int(dir.Fd()), "."); err != nil {
		return nil, err
	}
	if was := o.folders[folder]; was.at == now.at && now.at.since < was.looked.Add(-clockTick).UnixNano() {
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

// sumOf is the checksum at the end of a pack or its index, "" of other files and where it can't be read.
func (r Trees) sumOf(name string, size int64) string {
	if !strings.HasSuffix(name, ".pack") && !strings.HasSuffix(name, ".idx") {
		return ""
	}
	_, length := r.hashes()
	if size < int64(length) {
		return ""
	}
	f, err := os.OpenFile(filepath.Join(r.Common, "objects", name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	sum := make([]byte, length)
	if _, err := f.ReadAt(sum, size-int64(length)); err != nil {
		return ""
	}
	return string(sum)
}

// summed reports whether a pack or its index still is what the checksum at its end says.
func (r Trees) summed(name string) bool {
	newHash, length := r.hashes()
	f, err := os.OpenFile(filepath.Join(r.Common, "objects", name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() < int64(length) {
		return false
	}
	h, sum := newHash(), make([]byte, length)
	if _, err := io.CopyN(h, f, st.Size()-int64(length)); err != nil {
		return false
	}
	_, err = io.ReadFull(f, sum)
	return err == nil && bytes.Equal(h.Sum(nil), sum)
}

// temporary reports whether git has a file while it writes another, or to tell that nobody removes that. It reads each index of a
// pack, whatever that is called.
func temporary(name string) bool {
	if strings.HasSuffix(name, ".idx") {
		return false
	}
	return strings.HasPrefix(name, "tmp_") || strings.HasPrefix(name, ".tmp-") || strings.HasSuffix(name, ".lock") || strings.HasSuffix(name, ".keep")
}

// verifyObjectFile makes sure of a file that appeared or was changed.
func (r Trees) verifyObjectFile(ctx context.Context, name string, asked map[string]bool) error {
	folder, file := filepath.Split(name)
	var args []string
	switch {
	case len(folder) == len("00/"):
		return r.verifyLoose(strings.TrimSuffix(folder, "/") + file)
	case strings.HasSuffix(file, ".pack"), strings.HasSuffix(file, ".idx"):
		base := strings.TrimSuffix(strings.TrimSuffix(name, ".pack"), ".idx")
		if _, err := os.Stat(filepath.Join(r.Common, "objects", base+".idx")); err != nil {
			return nil // git reads no pack without it
		}
		args = []string{"verify-pack", "--", filepath.Join(r.Common, "objects", base+".idx")}
	case strings.HasPrefix(file, "multi-pack-index") && filepath.Ext(file) != ".rev" && filepath.Ext(file) != ".bitmap":
		args = []string{"multi-pack-index", "verify"}
	case strings.Contains(name, "commit-graph"):
		args = []string{"commit-graph", "verify"}
	}
	if args == nil || asked[strings.Join(args, " ")] {
		return nil
	}
	asked[strings.Join(args, " ")] = true
	_, _, err := r.Run(ctx, Command{Dir: r.Main, Args: args, Write: true}) // which may take long
	const wrong, fatal = 1, 128
	if failed := (*Error)(nil); errors.As(err, &failed) && (failed.Code == wrong || failed.Code == fatal) {
		if _, gone := os.Stat(filepath.Join(r.Common, "objects", name)); gone != nil {
			return gone
		}
		return &DamagedError{Object: name + " (" + strings.TrimSpace(failed.Stderr) + ")"} // never to be removed: the history is in it
	}
	return err
}

// verifyLoose makes sure that a loose object is what its name says.
func (r Trees) verifyLoose(name string) error {
	newHash, _ := r.hashes()
	h, path := newHash(), filepath.Join(r.Common, "objects", name[:2], name[2:])
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		defer f.Close()
		err = inflate(h, f)
	}
	if err != nil || hex.EncodeToString(h.Sum(nil)) != name {
		return &DamagedError{Object: name, File: path}
	}
	return nil
}

// inflate writes what a loose object holds: its kind, its size, its content.
func inflate(to io.Writer, f *os.File) error {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return errors.Join(err, fs.ErrInvalid)
	}
	z, err := zlib.NewReader(f)
	if err != nil {
		return err
	}
	defer z.Close()
	in := bufio.NewReader(z)
	head, err := in.ReadString(0)
	if err != nil {
		return err
	}
	var kind string
	var size int64
	if _, err := fmt.Sscanf(head, "%s %d\x00", &kind, &size); err != nil {
		return err
	}
	if _, err := io.WriteString(to, head); err != nil {
		return err
	}
	if _, err := io.CopyN(to, in, size); err != nil {
		return err
	}
	_, err = in.ReadByte()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return errors.Join(err, fs.ErrInvalid)
}

// goneObjects says what was removed and is in no other file.
func (r Trees) goneObjects(ctx context.Context, gone []string) (string, error) {
	var names []string
	packs := 0
	for _, name := range gone {
		switch folder, file := filepath.Split(name); {
		case len(folder) == len("00/"):
			names = append(names, strings.TrimSuffix(folder, "/")+file)
		case strings.HasSuffix(file, ".pack"):
			packs++
		}
	}
	if left, err := filepath.Glob(filepath.Join(r.Common, "objects", "pack", "*.pack")); packs > 0 && err == nil && len(left) == 0 {
		return fmt.Sprintf("packs were deleted in git's objects (%d): `git fsck --full` says what is missing", packs), nil
	}
	if len(names) == 0 {
		return "", nil
	}
	missing, err := r.missing(ctx, names)
	if len(missing) == 0 {
		return "", err
	}
	const few = 3
	return fmt.Sprintf("objects of git were deleted (%d: %s): `git fsck --full` says what lacks them; `git fetch --refetch` gets what a remote has", len(missing), strings.Join(missing[:min(few, len(missing))], ", ")), err
}

// missing are those of some objects that the repository does not have, in their order. No remote is asked for them.
func (r Trees) missing(ctx context.Context, names []string) (list []string, err error) {
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"cat-file", "--batch-check"}, Stdin: strings.NewReader(strings.Join(names, "\n") + "\n"),
		Env: []string{"GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1"}})
	for line := range strings.Lines(out) {
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), " missing"); ok {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list, err
}
