package trust

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Judge judges what is checked out in the main checkout of one repository. Its methods may be called concurrently.
type Judge struct {
	Repo   *git.Repo
	Ledger *Ledger
	// Branch is the trusted branch, as the user's settings name it: origin/main. "" is the default branch of the remote as
	// last fetched; without one, the branch that was checked out when Trellis was first used.
	Branch string
	// Everything is trusted, and nothing stored: TRELLIS_TRUST=checkout, and folders of trust.everything.
	Everything bool

	mu         sync.Mutex
	repo       string // CloneID
	cachedBook *book
	judged     map[string]judgedBasis // by subject
	bases      map[string]foreignBase
}

// Subject judges a subject as it is on the disk. It returns an error if reading the subject, git or the ledger fails, and
// then the subject may not run either. A file that does not exist has no items.
func (j *Judge) Subject(ctx context.Context, s Subject) (Verdict, error) {
	v := Verdict{Subject: s.Name}
	disk, err := j.read(s)
	if err != nil {
		return v, fmt.Errorf("looking at what %s would run: %w", s.Name, err)
	}
	for _, f := range disk {
		v.Items = append(v.Items, f.items...)
	}
	if j.Everything {
		return v, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	b, err := j.book()
	if err != nil {
		return v, err
	}
	unknown := slices.DeleteFunc(slices.Clone(v.Items), b.trusts)
	if len(unknown) == 0 {
		return v, nil
	}
	err = j.findOrigins(ctx, &v, s, disk, b, unknown)
	return v, err
}

// fileVersion is one file of a subject, and its items.
type fileVersion struct {
	path  string
	data  []byte
	named bool   // another file names it: a program of any size
	real  string // path of the file that is read, if a link leads to it
	items []Item
}

// maxFiles is how many files one subject may have, including those that its files name.
const maxFiles = 1000

// read reads the files of a subject from the disk.
func (j *Judge) read(s Subject) (list []fileVersion, err error) {
	queue := slices.Concat(s.Files, s.Named)
	for n := 0; n < len(queue); n++ {
		if n == maxFiles {
			return nil, fmt.Errorf("%s names more than %d files", s.Name, maxFiles)
		}
		path, named := queue[n], n >= len(s.Files)
		data, err := j.text(s, path, named)
		if errors.As(err, new(*blockedError)) {
			list, queue = j.addLinks(list, queue, path)
			continue
		}
		if err != nil {
			return nil, err
		}
		items, more := s.Read(path, data)
		list = append(list, fileVersion{path, data, named, j.linkTarget(path), items})
		for _, m := range more {
			if !slices.Contains(queue, m) {
				queue = append(queue, m)
			}
		}
	}
	return list, nil
}

// linkTarget returns where a link on the way to path leads, "" without a link.
func (j *Judge) linkTarget(path string) string {
	whole := filepath.Join(j.Repo.Main, filepath.FromSlash(path))
	real, err := filepath.EvalSymlinks(whole)
	if err != nil || real == whole {
		return ""
	}
	rel, err := filepath.Rel(j.Repo.Main, real)
	if err != nil {
		return real
	}
	return filepath.ToSlash(rel)
}

// maxProgram is how large a program of the checkout may be that settings name.
const maxProgram = 64 << 20

// text returns the content of a file of a subject, as it is now or as it was when it was read.
func (j *Judge) text(s Subject, path string, named bool) ([]byte, error) {
	if data, read := s.Texts[path]; read {
		return data, nil
	}
	return j.readFile(path, named)
}

// readFile returns the content of a file, nil if there is none. A word of a command that names a folder, or something outside the
// checkout, does not name a file of the checkout. The error for a file that exists but can't be read here, since a link leads
// out, is a *blockedError: a shell may be able to read it.
func (j *Judge) readFile(path string, named bool) ([]byte, error) {
	if !named {
		data, err := durable.ReadBelow(j.Repo.Main, path, durable.MaxRecords)
		if errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*durable.FileError)) {
			return nil, nil // whoever runs it can't read it either, and says so
		}
		return data, err
	}
	if !filepath.IsLocal(filepath.FromSlash(path)) {
		return nil, nil
	}
	data, err := durable.ReadBelow(j.Repo.Main, path, maxProgram)
	switch {
	case err == nil, errors.Is(err, durable.ErrTooLarge):
		return data, err
	case slices.ContainsFunc(noFileErrors, func(is error) bool { return errors.Is(err, is) }):
		return nil, nil
	}
	return nil, &blockedError{err}
}

// noFileErrors are the errors of opening a path where no file is, or can be.
var noFileErrors = []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.EINVAL}

// book returns what the ledger says about this repository. Lines that were read before are not read again.
func (j *Judge) book() (*book, error) {
	if j.repo == "" {
		id, err := j.Repo.CloneID()
		if err != nil {
			return nil, err
		}
		j.repo = id
	}
	if j.cachedBook == nil {
		j.cachedBook = newBook()
	}
	if j.ledgerInCheckout() {
		return j.cachedBook, nil
	}
	lines, _, made, err := j.Ledger.since(j.repo, j.cachedBook.lines)
	if err == nil && made != j.cachedBook.reloads {
		j.cachedBook = newBook()
		lines, _, j.cachedBook.reloads, err = j.Ledger.since(j.repo, 0)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range lines {
		j.cachedBook.apply(e)
	}
	j.cachedBook.lines += len(lines)
	return j.cachedBook, nil
}

// ErrLedgerInCheckout is returned if the ledger is in the checkout, where a commit could write it.
var ErrLedgerInCheckout = errors.New("the file of what is trusted is inside of the repository, where commits could write it, and so is not used: set XDG_STATE_HOME to a folder outside")

// ledgerInCheckout reports whether the ledger is in the checkout, as in that of a home folder that is a repository.
func (j *Judge) ledgerInCheckout() bool {
	if j.Ledger == nil || j.Ledger.Path == "" {
		return false
	}
	path := j.Ledger.Path
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) { // the folder may not exist yet
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			rel, err := filepath.Rel(j.Repo.Main, real)
			return err == nil && filepath.IsLocal(rel)
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// Agree records that somebody here has seen all of a verdict and agrees to it. A base commit is agreed to as a whole.
func (j *Judge) Agree(v Verdict) error {
	var entries []Entry
	for _, f := range v.Foreign {
		e := entry(Agreed, v.Subject, f.Item)
		e.Commit, e.Author, e.Date = f.Commit, f.Author, f.Date
		entries = append(entries, e)
	}
	if commit, base := strings.CutPrefix(v.Subject, BasePrefix); base && len(entries) > 0 {
		entries = []Entry{{ID: commit, How: Agreed, Subject: v.Subject, Kind: CommitKind}}
	}
	return j.add(entries)
}

// Record records items that a command of Trellis made here (Made), or that were approved here (Approved).
func (j *Judge) Record(how How, subject string, items ...Item) error {
	var entries []Entry
	for _, i := range items {
		entries = append(entries, entry(how, subject, i))
	}
	return j.add(entries)
}

// Standing returns the items whose trust was not revoked.
func (j *Judge) Standing(items []Item) ([]Item, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b, err := j.book()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(items), func(i Item) bool { return b.how[i.ID()] == Revoked }), nil
}

// Items returns the items in the files of a subject on the disk, without those of further files that these name.
func (j *Judge) Items(s Subject) (items []Item, err error) {
	for _, file := range s.Files {
		data, err := j.readFile(file, false)
		if err != nil {
			return nil, fmt.Errorf("reading what %s says: %w", s.Name, err)
		}
		said, _ := s.Read(file, data)
		items = append(items, said...)
	}
	return items, nil
}

// RecordFiles records the items in files of a subject that a command of Trellis has just made here.
func (j *Judge) RecordFiles(s Subject, files ...string) error {
	disk, err := j.read(s)
	if err != nil {
		return fmt.Errorf("looking at what was made: %w", err)
	}
	var items []Item
	for _, f := range disk {
		if slices.Contains(files, f.path) {
			items = append(items, f.items...)
		}
	}
	return j.Record(Made, s.Name, items...)
}

// Committed records a commit that Trellis made here on a task's branch.
func (j *Judge) Committed(subject, commit string) error {
	return j.add([]Entry{{ID: commit, How: Commit, Subject: subject, Kind: CommitKind}})
}

// Revoke withdraws trust: what the ledger has of a subject is trusted again only when somebody agrees to it. It returns how
// many items that are.
func (j *Judge) Revoke(subject string) (int, error) {
	j.mu.Lock()
	b, err := j.book()
	var entries []Entry
	if err == nil && j.ledgerInCheckout() {
		err = ErrLedgerInCheckout
	}
	if err == nil {
		entries, _, err = j.Ledger.Entries(j.repo)
	}
	j.mu.Unlock()
	if err != nil {
		return 0, err
	}
	taken := map[string]bool{}
	var revoked []Entry
	for _, e := range entries {
		if how, known := b.how[e.ID]; e.Subject == subject && known && how != Revoked && !taken[e.ID] {
			taken[e.ID] = true
			e.How = Revoked
			revoked = append(revoked, e)
		}
	}
	return len(revoked), j.add(revoked)
}

// List returns the entries of the ledger about this repository, the oldest first, and the problems with invalid lines.
func (j *Judge) List() ([]Entry, []trellis.Problem, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.book(); err != nil || j.ledgerInCheckout() {
		return nil, nil, err
	}
	return j.Ledger.Entries(j.repo)
}

func (j *Judge) add(entries []Entry) error {
	if j.Everything || len(entries) == 0 {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.book(); err != nil {
		return err
	}
	return j.addLocked(entries)
}

func (j *Judge) addLocked(entries []Entry) error {
	if len(entries) > 0 && j.ledgerInCheckout() {
		return ErrLedgerInCheckout
	}
	for n := range entries {
		entries[n].Repo = j.repo
	}
	return j.Ledger.Add(entries...)
}

func entry(how How, subject string, i Item) Entry {
	const shown = 120
	text := normalise(i.Text)
	if len(text) > shown {
		text = text[:shown] + "…"
	}
	return Entry{ID: i.ID(), How: how, Subject: subject, Kind: i.Kind, Text: text, Setting: i.settingName()}
}
