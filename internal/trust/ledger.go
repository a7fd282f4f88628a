package trust

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// How is how an item came to be in the ledger.
type How string

// All but Stranger and Revoked stand for trust. Trunk says which branch of a repository without remotes is the trusted one.
const (
	Made     How = "made"     // by a command or a person's edit in this clone
	Agreed   How = "agreed"   // `trellis trust`
	Branch   How = "branch"   // the trusted branch had it
	Approved How = "approved" // a plan was approved here
	Commit   How = "commit"   // a commit that Trellis made here
	Stranger How = "foreign"  // from somebody else, in the subject that it was found in
	Revoked  How = "revoked"
	Trunk    How = "trunk"
)

// Entry is a line of the ledger.
type Entry struct {
	V       int       `json:"v"`
	Repo    string    `json:"repo"` // git.Repo.CloneID
	ID      string    `json:"id"`   // of an item, a commit, or a branch
	How     How       `json:"how"`
	At      time.Time `json:"at"`
	Subject string    `json:"subject,omitempty"`
	Setting string    `json:"setting,omitempty"` // setting that a Protection gives a value
	Kind    Kind      `json:"kind,omitempty"`
	Text    string    `json:"text,omitempty"` // the beginning of what was trusted, for people
	Commit  string    `json:"commit,omitempty"`
	Author  string    `json:"author,omitempty"`
	Date    time.Time `json:"date,omitzero"` // of the commit
}

const version = 1

// ErrNoLedger is returned if there is no ledger to write to.
var ErrNoLedger = errors.New("there is nowhere to remember it: neither XDG_STATE_HOME nor HOME says where your files are")

// Ledger is the user's file of what is trusted: trust.jsonl. Its methods may be called concurrently, also by several
// processes. A Ledger without a Path stores nothing.
type Ledger struct {
	Path string
	Disk *durable.Disk
	Now  func() time.Time

	mu        sync.Mutex
	lastStamp stamp
	readBytes int64 // bytes that were read, to the end of a line
	lineCount int   // lines in them
	reloads   int   // how often the file was read again from its beginning
	lines     map[string]*lines
	problems  []trellis.Problem
}

// lines are the lines about one repository. They are parsed when somebody asks for them, so those of other repositories cost little.
type lines struct {
	unparsed []rawLine // not parsed yet
	parsed   []Entry
}

type rawLine struct {
	number int
	text   []byte
}

// stamp tells whether the file is still the one that was read.
type stamp struct {
	size  int64
	at    time.Time
	inode uint64
}

// ledgerMax is how large a ledger may be: over a million items. Nothing is ever removed, since each line may be the only
// record of what a person decided, or of who an item is from.
const ledgerMax = 256 << 20

// Entries returns the lines about one repository, the oldest first. Invalid lines are returned as problems, and stop nothing.
func (l *Ledger) Entries(repo string) ([]Entry, []trellis.Problem, error) {
	list, wrong, _, err := l.since(repo, 0)
	return slices.Clone(list), wrong, err
}

// since returns the lines of a repository from the nth on, the problems with any lines, and how often the file has been read
// from its beginning: results that came with another number are outdated.
func (l *Ledger) since(repo string, n int) ([]Entry, []trellis.Problem, int, error) {
	if l == nil || l.Path == "" {
		return nil, nil, 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.read(); err != nil {
		return nil, nil, 0, fmt.Errorf("reading what is trusted: %w", err)
	}
	list := l.entries(repo)
	return list[min(n, len(list)):len(list):len(list)], l.problems, l.reloads, nil
}

// Add appends entries in one write. It sets their version and time.
func (l *Ledger) Add(entries ...Entry) error {
	if len(entries) == 0 {
		return nil
	}
	if l == nil || l.Path == "" {
		return ErrNoLedger
	}
	now := time.Now
	if l.Now != nil {
		now = l.Now
	}
	var text bytes.Buffer
	for _, e := range entries {
		e.V, e.At = version, now().UTC().Truncate(time.Second)
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		text.Write(append(line, '\n'))
	}
	if err := l.append(text.Bytes()); err != nil {
		return fmt.Errorf("remembering what is trusted: %w", err)
	}
	return nil
}

func (l *Ledger) append(text []byte) error {
	if err := os.MkdirAll(filepath.Dir(l.Path), 0o700); err != nil {
		return err
	}
	if err := l.checkPrivate(); err != nil {
		return err
	}
	return l.Disk.Append(l.Path, text, 0o600)
}

// checkPrivate returns an error if others could have written the ledger, or can.
func (l *Ledger) checkPrivate() error {
	for _, path := range []string{filepath.Dir(l.Path), l.Path} {
		st, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		switch {
		case st.Mode()&fs.ModeSymlink == 0 && st.Mode().Perm()&0o022 != 0:
			return fmt.Errorf("%s can be written by others, and so is not believed: chmod go-w %[1]s", path)
		case ok && int(sys.Uid) != os.Geteuid():
			return fmt.Errorf("%s belongs to another user (%d), and so is not believed", path, sys.Uid)
		}
	}
	return nil
}

// read reads what is new in the file: its end, or all of it if it is another file or shorter.
func (l *Ledger) read() error {
	st, err := os.Lstat(l.Path)
	if errors.Is(err, fs.ErrNotExist) {
		l.reset(stamp{})
		return nil
	}
	if err != nil {
		return err
	}
	now := stamp{size: st.Size(), at: st.ModTime()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		now.inode = uint64(sys.Ino)
	}
	if now == l.lastStamp {
		return nil
	}
	if err := l.checkPrivate(); err != nil {
		return err
	}
	return l.load(now)
}

func (l *Ledger) reset(now stamp) {
	if l.lastStamp != (stamp{}) || l.readBytes > 0 {
		l.reloads++
	}
	l.lastStamp, l.readBytes, l.lineCount, l.lines, l.problems = now, 0, 0, nil, nil
}

func (l *Ledger) load(now stamp) error {
	f, err := durable.OpenOwn(l.Path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if now.inode != l.lastStamp.inode || now.size <= l.lastStamp.size {
		l.reset(now)
	}
	if _, err := f.Seek(l.readBytes, io.SeekStart); err != nil {
		return err
	}
	data, err := durable.ReadOpen(f, l.Path, ledgerMax)
	if err != nil {
		return err
	}
	l.lastStamp = now
	l.parse(data[:bytes.LastIndexByte(data, '\n')+1])
	return nil
}

// parse sorts lines by their repositories. A line without a newline at its end is still being written.
func (l *Ledger) parse(data []byte) {
	l.readBytes += int64(len(data))
	for line := range bytes.Lines(data) {
		l.lineCount++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		raw := rawLine{l.lineCount, line}
		repo, ok := repoOf(line)
		if !ok {
			e, ok := l.entry(raw)
			if !ok {
				continue
			}
			repo = e.Repo
		}
		if l.lines == nil {
			l.lines = map[string]*lines{}
		}
		if l.lines[repo] == nil {
			l.lines[repo] = &lines{}
		}
		l.lines[repo].unparsed = append(l.lines[repo].unparsed, raw)
	}
}

// repoOf returns the repository of a line as Add writes it. Any other line has to be parsed in full.
func repoOf(line []byte) (repo string, ok bool) {
	const begins = `{"v":1,"repo":"`
	rest, ok := bytes.CutPrefix(line, []byte(begins))
	id, _, ended := bytes.Cut(rest, []byte(`"`))
	return string(id), ok && ended && len(id) > 0 && !bytes.ContainsRune(id, '\\')
}

// entries returns all entries about a repository.
func (l *Ledger) entries(repo string) []Entry {
	repoLines := l.lines[repo]
	if repoLines == nil {
		return nil
	}
	for _, raw := range repoLines.unparsed {
		if e, ok := l.entry(raw); ok && e.Repo == repo {
			repoLines.parsed = append(repoLines.parsed, e)
		}
	}
	repoLines.unparsed = nil
	return repoLines.parsed
}

// entry parses one line.
func (l *Ledger) entry(raw rawLine) (e Entry, ok bool) {
	if err := json.Unmarshal(raw.text, &e); err == nil && e.V == version && e.Repo != "" && e.ID != "" && e.How != "" {
		return e, true
	}
	l.problems = append(l.problems, trellis.Problem{File: l.Path, Line: raw.number, Warning: true, Message: "is not a line of what is trusted, and is ignored",
		Hint: "delete the line; `trellis trust` asks again for what it said"})
	return e, false
}
