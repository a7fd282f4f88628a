package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/internal/patience"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Whoever can write into a checkout can put anything in the place of a file: a pipe that nobody writes to, a device that
// never ends, a link to a key. Below a checkout, a worktree or a task's directory files are read by this and by nothing else.

// The most that is read of a file, by its kind. docs/reference/formats.md lists them.
const (
	MaxDocument = 1 << 20 // settings, and texts that people and agents write
	MaxRecords  = 8 << 20 // files of JSON lines, plans, task.json
	MaxJournal  = 64 << 20
	AnySize     = math.MaxInt64 - 1 // for who reads the beginning alone
	MaxLines    = 20_000            // of a file of JSON lines: each may become a problem that is told
)

var (
	// ErrIrregular says that a path is no file with content: a pipe, a socket, a device. A folder is EISDIR.
	ErrIrregular = errors.New("is a pipe, a socket or a device, not a file")
	// ErrTooLarge says that a file is larger than whoever reads it wants to have in memory.
	ErrTooLarge = errors.New("is too large")
	// ErrTooManyLines says that a file of JSON lines has more of them than MaxLines.
	ErrTooManyLines = fmt.Errorf("has more than %d lines", MaxLines)
	// ErrOutside says that a link on the way leads out of the folder, or into git's own.
	ErrOutside = errors.New("leads elsewhere: out of the folder that Trellis reads here, or into .git")
	// ErrLink says that a link stands where only the thing itself may: what is written follows none.
	ErrLink = errors.New("is a symbolic link")
)

// FileError says why a file is not read or written, and how to mend that. Its causes are ErrIrregular, ErrTooLarge,
// ErrOutside, ErrLink and those of the file system.
type FileError struct {
	Path string
	Err  error
	Max  int64 // that is read of such a file; with ErrTooLarge
}

func (e *FileError) Error() string { return e.Path + ": " + e.Reason() }
func (e *FileError) Unwrap() error { return e.Err }

// Reason is what is wrong, as what follows the file's name.
func (e *FileError) Reason() string {
	var errno syscall.Errno
	switch {
	case errors.Is(e.Err, ErrTooLarge):
		return fmt.Sprintf("is larger than the %s that Trellis reads", size(e.Max))
	case errors.Is(e.Err, syscall.EISDIR):
		return "is a folder, not a file"
	case errors.Is(e.Err, syscall.ENOTDIR):
		return "is not a folder, or is below a file"
	case errors.Is(e.Err, syscall.ELOOP):
		return "is a symbolic link that leads in a circle"
	case errors.As(e.Err, &errno):
		return "can't be opened: " + errno.Error()
	}
	return e.Err.Error()
}

// Mend says what to do about it.
func (e *FileError) Mend() string {
	switch {
	case errors.Is(e.Err, ErrTooLarge):
		return "shorten it to at most " + size(e.Max)
	case errors.Is(e.Err, ErrTooManyLines):
		return "take lines out of it"
	case errors.Is(e.Err, ErrOutside), errors.Is(e.Err, ErrLink), errors.Is(e.Err, syscall.ELOOP):
		return "put what it is to be in the place of the link"
	case errors.Is(e.Err, fs.ErrPermission):
		return MakeYours(e.Path)
	case errors.Is(e.Err, syscall.EROFS):
		return "the disk is mounted read-only: mount it for writing, or work in a clone on another one"
	case errors.Is(e.Err, syscall.ENOTDIR):
		return "put a folder in the place of that file"
	}
	return "put a file in its place, or take it away"
}

// MakeYours says how to mend that the system refused a path: by what stands in the way there, or in the folder that it is
// in. What belongs to somebody else, as what a container made does to root, only root gives away: a file, or what is Trellis' own.
func MakeYours(path string) string {
	for _, p := range []string{path, filepath.Dir(path)} {
		info, err := os.Lstat(p)
		if err != nil {
			continue
		}
		own, need := strings.Contains(p+"/", "/.trellis/") || info.Mode().IsRegular(), fs.FileMode(0o600)
		if info.IsDir() {
			need = 0o700
		}
		switch stat, known := info.Sys().(*syscall.Stat_t); {
		case known && int(stat.Uid) != os.Geteuid() && own:
			return fmt.Sprintf("make it yours: sudo chown -R %d %s", os.Geteuid(), trellis.ShellWord(p))
		case known && int(stat.Uid) != os.Geteuid():
			return fmt.Sprintf("it is not yours: ls -ld %s says who can let you in", trellis.ShellWord(p))
		case info.Mode()&need != need:
			return "make it yours: chmod u+rwX " + trellis.ShellWord(p)
		}
	}
	return "make it yours: chmod u+rwX " + trellis.ShellWord(path)
}

func size(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d KB", n>>10)
}

// OpenBelow opens a regular file of at most max bytes below a folder in which others write. It follows no link that leads
// out of the folder or into a .git, and waits for nobody at the other end of a pipe. What is not there is fs.ErrNotExist,
// everything else a *FileError. The file may grow: who reads it stops at what they want.
func OpenBelow(dir, name string, max int64) (*os.File, error) {
	name = filepath.FromSlash(name)
	f, err := openBelow(dir, name, max)
	if err != nil {
		return nil, unfitFile(filepath.Join(dir, name), max, err)
	}
	return f, nil
}

func openBelow(dir, name string, max int64) (*os.File, error) {
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := openIn(root, name, max)
	if err == nil && linked(root, name) && throughGit(dir, name) {
		f.Close()
		err = ErrOutside
	}
	return f, err
}

func openIn(root *os.Root, name string, max int64) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	return ifRegular(f, max, err)
}

// Exists reports whether something is at a path, a link that leads nowhere too.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Goes reports whether a folder of which something is missing is gone within a second: whoever removes it takes its files one by one.
func Goes(path string) bool {
	for wait := patience.New(time.Second); Exists(path); time.Sleep(5 * time.Millisecond) {
		if wait.Over() {
			return false
		}
	}
	return true
}

// ReadIn is ReadBelow in a folder that is open, for who has looked that it is the right one.
func ReadIn(root *os.Root, name string, max int64) ([]byte, error) {
	path := filepath.Join(root.Name(), name)
	f, err := openIn(root, name, max)
	if err != nil {
		return nil, unfitFile(path, max, err)
	}
	defer f.Close()
	return ReadOpen(f, path, max)
}

// ReadBelow is OpenBelow and what is in the file: it takes no more memory than max. A file that grows beyond that while it is
// read is ErrTooLarge.
func ReadBelow(dir, name string, max int64) ([]byte, error) {
	f, err := OpenBelow(dir, name, max)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadOpen(f, filepath.Join(dir, filepath.FromSlash(name)), max)
}

// ReadHead is the beginning of a regular file below dir, however large the whole is.
func ReadHead(dir, name string, most int64) ([]byte, error) {
	f, err := OpenBelow(dir, name, AnySize)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// SumBelow is the size and the SHA-256, in hex, of a file that OpenBelow opens; of one that grows meanwhile, up to max.
func SumBelow(dir, name string, max int64) (size int64, sum string, err error) {
	f, err := OpenBelow(dir, name, max)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, io.LimitReader(f, max)); err != nil {
		return 0, "", err
	}
	return size, hex.EncodeToString(h.Sum(nil)), nil
}

// ReadRecords is ReadBelow of a file of JSON lines.
func ReadRecords(dir, name string) ([]byte, error) {
	data, err := ReadBelow(dir, name, MaxRecords)
	if err == nil && bytes.Count(data, []byte("\n")) > MaxLines {
		return nil, &FileError{filepath.Join(dir, name), ErrTooManyLines, MaxRecords}
	}
	return data, err
}

// ReadOwn is Read of a file that Trellis replaces, and so may be no link at all.
func ReadOwn(path string, max int64) ([]byte, error) {
	f, err := OpenOwn(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadOpen(f, path, max)
}

// ReadOpen is what a file has that OpenOwn opened at path, at most max bytes.
func ReadOpen(f *os.File, path string, max int64) ([]byte, error) {
	data, err := readAll(f, max)
	if err != nil {
		return nil, unfitFile(path, max, err)
	}
	return data, nil
}

// Read is ReadBelow of a file in its folder.
func Read(path string, max int64) ([]byte, error) {
	return ReadBelow(filepath.Dir(path), filepath.Base(path), max)
}

// ReadDirBelow lists a folder below another as OpenBelow opens a file there.
func ReadDirBelow(dir, name string) ([]fs.DirEntry, error) {
	f, err := openFolder(dir, filepath.FromSlash(name))
	if err != nil {
		return nil, unfitFile(filepath.Join(dir, name), 0, err)
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	if err != nil {
		return nil, unfitFile(filepath.Join(dir, name), 0, err)
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// FolderBelow says why a folder below another is not one that ReadDirBelow lists.
func FolderBelow(dir, name string) error {
	f, err := openFolder(dir, filepath.FromSlash(name))
	if err != nil {
		return unfitFile(filepath.Join(dir, name), 0, err)
	}
	return f.Close()
}

// Below is a folder of which each file is read as ReadBelow reads it.
func Below(dir string, max int64) fs.FS { return below{dir, max} }

type below struct {
	dir string
	max int64
}

func (b below) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := OpenBelow(b.dir, name, b.max)
	if errors.Is(err, syscall.EISDIR) {
		f, err = openFolder(b.dir, name)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (b below) ReadFile(name string) ([]byte, error) { return ReadBelow(b.dir, name, b.max) }

func openFolder(dir, name string) (*os.File, error) {
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
}

// openRoot does not wait for a pipe that stands in the place of the folder.
func openRoot(dir string) (*os.Root, error) {
	if st, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !st.IsDir() {
		return nil, syscall.ENOTDIR
	}
	return os.OpenRoot(dir)
}

func readAll(f *os.File, max int64) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() > max {
		return nil, ErrTooLarge
	}
	data := make([]byte, 0, st.Size()+1)
	for {
		n, err := f.Read(data[len(data):min(int64(cap(data)), max+1)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > max:
			return nil, ErrTooLarge
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, err
		case len(data) == cap(data):
			data = slices.Grow(data, 512)
		}
	}
}

// ifRegular is a file that was opened with err, unless regular says why not: then it is closed.
func ifRegular(f *os.File, max int64, err error) (*os.File, error) {
	if err == nil {
		if err = regular(f, max); err != nil {
			f.Close()
		}
	}
	return f, err
}

// regular says why an open file is not one to read: it has no content that ends, or more than max bytes of it.
func regular(f *os.File, max int64) error {
	st, err := f.Stat()
	switch {
	case err != nil:
		return err
	case st.IsDir():
		return syscall.EISDIR
	case !st.Mode().IsRegular():
		return ErrIrregular
	case st.Size() > max:
		return ErrTooLarge
	}
	return nil
}

// linked reports whether a link stands on the way to name.
func linked(root *os.Root, name string) bool {
	for at := filepath.Clean(name); at != "."; at = filepath.Dir(at) {
		if st, err := root.Lstat(at); err != nil || st.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// throughGit reports whether links lead to what git keeps for itself, its settings and credentials.
func throughGit(dir, name string) bool {
	base, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return true
	}
	real, err := filepath.EvalSymlinks(filepath.Join(dir, name))
	if err != nil {
		return true
	}
	rel, err := filepath.Rel(base, real)
	return err != nil || slices.Contains(strings.Split(strings.ToLower(rel), string(filepath.Separator)), ".git")
}

// unfitFile is why the file at path is not read. An os.Root says that a link leads out with an error of no number.
func unfitFile(path string, max int64, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	var errno syscall.Errno
	for _, known := range []error{ErrIrregular, ErrTooLarge, ErrOutside, ErrLink} {
		if errors.Is(err, known) {
			return &FileError{path, known, max}
		}
	}
	switch {
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.EOPNOTSUPP): // a socket
		return &FileError{path, ErrIrregular, max}
	case errors.As(err, &errno):
		return &FileError{path, errno, max}
	}
	return &FileError{path, ErrOutside, max}
}
