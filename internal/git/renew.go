package git

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// seenFiles is what is known of the files of checkouts, by what Trellis saw itself: git takes a file that looks as its index
// says for unchanged, and an index can be written by others. Of a file that looks as it did then the content is known too: each change
// sets the time of the last one (ctime) to that of the clock, which nobody sets back. The zero value is empty.
type seenFiles struct {
	mu    sync.Mutex
	files map[string]map[string]seenFile // by checkout and path
	own   map[string]seenIndex           // by git directory: the index that Trellis wrote last
	shown map[string][]string            // by git directory: what the index told git not to look at
}

// seenFile is how a file looked when its content was hashed.
type seenFile struct {
	hash string
	stat [statSize]byte
}

// seenIndex tells an index file from what others put in its place, or write into it.
type seenIndex struct {
	inode, size, changed int64
}

// clockTick is more than what the clock of a file system lags behind.
const clockTick = 100 * time.Millisecond

// learn remembers the files of an index that git wrote since started, in a place of Trellis' own. What was changed in that very
// second is left out: git looks at whole seconds, and it may be changed once more in it.
func (l *seenFiles) learn(dir string, list []entry, started time.Time) {
	settled := started.Add(-clockTick).Unix()
	files := make(map[string]seenFile, len(list))
	for _, e := range list {
		if e.stat == nil || e.conflict() || e.more != 0 || int64(binary.BigEndian.Uint32(e.stat)) >= settled {
			continue
		}
		files[e.path] = seenFile{string(e.hash), [statSize]byte(e.stat)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files == nil {
		l.files = map[string]map[string]seenFile{}
	}
	l.files[dir] = files
}

// known leaves to the entries of an index what Trellis saw itself of their files.
func (l *seenFiles) known(dir string, list []entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	files := l.files[dir]
	for i, e := range list {
		list[i].stat = nil
		if f, ok := files[e.path]; ok && f.hash == string(e.hash) && binary.BigEndian.Uint32(f.stat[24:]) == e.mode {
			list[i].stat = f.stat[:]
		}
	}
}

func (l *seenFiles) forget(dir, gitDir string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.files, dir)
	delete(l.own, gitDir)
	delete(l.shown, gitDir)
}

// wrote remembers the index of a git directory as it is.
func (l *seenFiles) wrote(gitDir string) {
	now, ok := indexAt(gitDir)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own == nil {
		l.own = map[string]seenIndex{}
	}
	if delete(l.own, gitDir); ok {
		l.own[gitDir] = now
	}
}

// same reports whether the index of a git directory is the one that Trellis wrote.
func (l *seenFiles) same(gitDir string) bool {
	now, ok := indexAt(gitDir)
	l.mu.Lock()
	defer l.mu.Unlock()
	was, known := l.own[gitDir]
	return ok && known && was == now
}

func indexAt(gitDir string) (s seenIndex, ok bool) {
	st, err := os.Lstat(filepath.Join(gitDir, "index"))
	if err != nil || !st.Mode().IsRegular() {
		return s, false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return s, false
	}
	return seenIndex{int64(sys.Ino), st.Size(), changedAt(sys).UnixNano()}, true
}

// unhid notes, and returns, what an index told git not to look at.
func (l *seenFiles) unhid(gitDir string, paths []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown == nil {
		l.shown = map[string][]string{}
	}
	l.shown[gitDir] = append(l.shown[gitDir], paths...)
}

func (l *seenFiles) takeUnhid(gitDir string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	paths := l.shown[gitDir]
	delete(l.shown, gitDir)
	return paths
}

// freshIndex is the index of a checkout with nothing in it that its writer could lie about: what it says of how files look,
// and of the trees that they make up, is left out, and git looks at all files that Trellis does not know better. Paths that
// are there and that git was told not to look at are returned. What was added in the sandbox is as if it were meant to be.
func (r Index) freshIndex(ctx context.Context, dir, gitDir string) (data []byte, hidden []string, err error) {
	newHash, size := r.hashes()
	list, err := entriesOf(filepath.Join(gitDir, "index"), size)
	if errors.Is(err, errAskGit) {
		list, err = r.askEntries(ctx, dir)
	}
	if err != nil || list == nil {
		return nil, nil, err
	}
	r.seen.known(dir, list)
	if err := r.meantOnly(ctx, gitDir, list); err != nil {
		return nil, nil, err
	}
	for i := range list {
		e := &list[i]
		if !e.hidden() {
			continue
		}
		e.flags &^= unchanged
		if _, err := os.Lstat(filepath.Join(dir, e.path)); err == nil {
			e.more &^= skipped
			hidden = append(hidden, e.path)
		}
	}
	return indexOf(list, newHash), hidden, nil
}

// meantOnly turns entries whose content was added in the sandbox, and is not in the repository, into such as git add -N makes.
func (r Index) meantOnly(ctx context.Context, gitDir string, list []entry) error {
	own, err := r.onlyOwn(ctx, gitDir, list)
	if err != nil || len(own) == 0 {
		return err
	}
	empty, err := r.emptyBlob()
	for i, e := range list {
		if !e.conflict() && own[hex.EncodeToString(e.hash)] {
			list[i].hash, list[i].stat, list[i].more = empty, nil, e.more|meant
		}
	}
	return err
}

// onlyOwn are the objects of entries that were added in the sandbox of a worktree and that the repository does not have. Git
// adds there again what the repository has already where it can't touch the file that it is in.
func (r Index) onlyOwn(ctx context.Context, gitDir string, list []entry) (map[string]bool, error) {
	own, asked := r.ObjectStores().ownLoose(gitDir), map[string]bool{}
	for _, e := range list {
		if name := hex.EncodeToString(e.hash); own[name] && !r.isLoose(e.hash) {
			asked[name] = true
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	missing, err := r.Trees().missing(ctx, slices.Sorted(maps.Keys(asked)))
	for name := range asked {
		asked[name] = slices.Contains(missing, name)
	}
	return asked, err
}

// emptyBlob is the name of the blob that git gives to files of which it knows no content. It is made where it is missing.
func (r Index) emptyBlob() ([]byte, error) {
	newHash, _ := r.hashes()
	hash := nameOf("blob", nil, newHash)
	if r.isLoose(hash) {
		return hash, nil
	}
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, err := z.Write([]byte("blob 0\x00"))
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, err
	}
	name := hex.EncodeToString(hash)
	path := filepath.Join(r.Common, "objects", name[:2], name[2:])
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	var disk *durable.Disk
	return hash, disk.WriteFile(path, b.Bytes(), 0o444)
}

// isLoose reports whether the repository itself has an object in a file of its own.
func (r Index) isLoose(hash []byte) bool {
	name := hex.EncodeToString(hash)
	_, err := os.Lstat(filepath.Join(r.Common, "objects", name[:2], name[2:]))
	return err == nil
}

// askEntries are the entries of an index that git alone can read.
func (r Index) askEntries(ctx context.Context, dir string) (list []entry, err error) {
	out, _, err := r.Run(ctx, Command{Dir: dir, Args: []string{"ls-files", "-v", "--stage", "-z"}, RawIndex: true})
	for line := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		about, path, ok := strings.Cut(line, "\t")
		f := strings.Fields(about) // tag, mode, hash, stage
		if !ok || len(f) != 4 {
			continue
		}
		mode, modeErr := strconv.ParseUint(f[1], 8, 32)
		hash, hashErr := hex.DecodeString(f[2])
		if modeErr != nil || hashErr != nil {
			return nil, fmt.Errorf("reading git ls-files: unexpected %q", line)
		}
		e := entry{path: path, mode: uint32(mode), hash: hash, flags: uint16(f[3][0]-'0') << 12}
		if strings.EqualFold(f[0], "S") {
			e.more = skipped
		}
		if f[0] != strings.ToUpper(f[0]) {
			e.flags |= unchanged
		}
		list = append(list, e)
	}
	return list, err
}

// renewIndex makes the index of the worktree of a run anew, before git does something there, unless it is the one that git wrote
// last for Trellis. Hands that worked there in between may have written it.
func (r Index) renewIndex(ctx context.Context, c Command) error {
	gitDir, ok := r.runIndex(ctx, c)
	if !ok || r.seen.same(gitDir) {
		return nil
	}
	data, hidden, err := r.freshIndex(ctx, c.Dir, gitDir)
	if err == nil && data != nil {
		err = RetryLocked(ctx, r.ownLocks(gitDir, ""), func() error { return r.replaceIndex(gitDir, data) })
	}
	if err != nil {
		return fmt.Errorf("making the index of %s anew: %w", c.Dir, err)
	}
	r.seen.unhid(gitDir, hidden)
	r.seen.wrote(gitDir)
	return nil
}

// EndRun takes back what programs kept beside the files of a worktree while a run was at work there: what they only staged
// becomes what is in the files, and their objects are removed. The context is that of the run.
func (r Index) EndRun(ctx context.Context, m WorktreeID) error {
	if m.Path == "" {
		return nil
	}
	c := Command{Dir: m.Path, Args: []string{"add", "--update"}, Write: true}
	if gitDir, ok := r.runIndex(ctx, c); ok {
		if err := RetryLocked(ctx, nil, func() error { return r.renewIndex(ctx, c) }); err != nil {
			return err
		}
		_, size := r.hashes()
		list, err := entriesOf(filepath.Join(gitDir, "index"), size)
		if err == nil && slices.ContainsFunc(list, entry.meant) {
			if _, _, err := r.Run(ctx, c); err != nil {
				return err
			}
		}
	}
	r.seen.forget(m.Path, m.Admin)
	return r.ObjectStores().dropOwn(m.Admin)
}

// runIndex is the git directory of the worktree of a run, in a call that goes by the index there.
func (r Index) runIndex(ctx context.Context, c Command) (gitDir string, ok bool) {
	m, run := ctx.Value(worktreeKey{}).(WorktreeID)
	own := slices.ContainsFunc(c.Env, func(e string) bool { return strings.HasPrefix(e, "GIT_INDEX_FILE=") })
	if c.RawIndex || own || !run || c.Dir != m.Path || r.Common != m.Common {
		return "", false
	}
	gitDir, err := r.gitDir(c.Dir)
	return gitDir, err == nil && gitDir != r.Common
}

// noteIndex remembers the index that a call wrote.
func (r Index) noteIndex(ctx context.Context, c Command) {
	if gitDir, ok := r.runIndex(ctx, c); ok && c.Write {
		r.seen.wrote(gitDir)
	}
}

// replaceIndex puts an index in the place of that of a worktree, and removes what was added in the sandbox. Both are done under git's
// lock: no program adds in between what the index then names and nobody has.
func (r Index) replaceIndex(gitDir string, data []byte) (err error) {
	lock := filepath.Join(gitDir, "index.lock")
	f, err := os.OpenFile(lock, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return errLocked
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(lock)) }()
	next := filepath.Join(gitDir, "index.trellis")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a call that was cut off
		return err
	}
	if err := writeNew(next, data); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(gitDir, "index")); err != nil {
		return err
	}
	return r.ObjectStores().emptyOwn(gitDir)
}

// writeNew writes a file that is not there yet.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
