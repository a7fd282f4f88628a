package git

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
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
