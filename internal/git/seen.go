package git

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// seenFiles caches the content that Trellis itself saw in the files of checkouts. Git takes a file whose stat data match its index
// for unchanged, but others can write an index. If a file's stat data match those that Trellis saw, its content is known: each
// change sets the file's change time (ctime) to the current time, and nobody sets the clock back. The zero value is empty.
type seenFiles struct {
	mu          sync.Mutex
	files       map[string]map[string]seenFile // by checkout and path
	lastWritten map[string]seenIndex           // by git directory: the index that Trellis wrote last
	unhidden    map[string][]string            // by git directory: paths that the index told git not to check
}

// seenFile is the stat data of a file when its content was hashed.
type seenFile struct {
	hash string
	stat [statSize]byte
}

// seenIndex identifies an index file, to detect that others replaced it or wrote to it.
type seenIndex struct {
	inode, size, changed int64
}

// clockTick is longer than the clock of a file system lags behind.
const clockTick = 100 * time.Millisecond

// recordStats caches the files of an index that git wrote after started, in a place that only Trellis writes. Files changed in the
// second of started or later are left out: git compares whole seconds, and such a file may change again within the same one.
func (l *seenFiles) recordStats(dir string, list []entry, started time.Time) {
	settled := started.Add(-clockTick).Unix()
	files := make(map[string]seenFile, len(list))
	for _, e := range list {
		if e.stat == nil || e.conflict() || e.extFlags != 0 || int64(binary.BigEndian.Uint32(e.stat)) >= settled {
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

// setStats replaces the stat data of index entries by those that Trellis itself saw of their files, nil if it saw none.
func (l *seenFiles) setStats(dir string, list []entry) {
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
	delete(l.lastWritten, gitDir)
	delete(l.unhidden, gitDir)
}

// recordWritten records the current index of a git directory as written by Trellis.
func (l *seenFiles) recordWritten(gitDir string) {
	now, ok := indexAt(gitDir)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lastWritten == nil {
		l.lastWritten = map[string]seenIndex{}
	}
	if delete(l.lastWritten, gitDir); ok {
		l.lastWritten[gitDir] = now
	}
}

// isLastWritten reports whether the index of a git directory is the one that Trellis wrote last.
func (l *seenFiles) isLastWritten(gitDir string) bool {
	now, ok := indexAt(gitDir)
	l.mu.Lock()
	defer l.mu.Unlock()
	was, known := l.lastWritten[gitDir]
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

// recordUnhidden records paths that an index told git not to check; takeUnhidden returns and forgets them.
func (l *seenFiles) recordUnhidden(gitDir string, paths []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unhidden == nil {
		l.unhidden = map[string][]string{}
	}
	l.unhidden[gitDir] = append(l.unhidden[gitDir], paths...)
}

func (l *seenFiles) takeUnhidden(gitDir string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	paths := l.unhidden[gitDir]
	delete(l.unhidden, gitDir)
	return paths
}
