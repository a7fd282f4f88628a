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

// Whoever can write into a checkout can replace a file by anything: a pipe that nobody writes to, a device that never ends, a link
// to a key. Files below a checkout, a worktree or a task directory are read with the functions of this file only.

// Maximum sizes of files to be read, by kind. docs/reference/formats.md lists them.
const (
	MaxDocument = 1 << 20 // settings, and texts that people and agents write
	MaxRecords  = 8 << 20 // files of JSON lines, plans, task.json
	MaxJournal  = 64 << 20
	AnySize     = math.MaxInt64 - 1 // for callers that only read the beginning
	MaxLines    = 20_000            // in a file of JSON lines: each may become a reported problem
)

var (
	// ErrIrregular means that a path is not a file with content: it is a pipe, a socket or a device. For a folder the error is
	// EISDIR.
	ErrIrregular = errors.New("is a pipe, a socket or a device, not a file")
	// ErrTooLarge means that a file is larger than the caller's limit.
	ErrTooLarge = errors.New("is too large")
	// ErrTooManyLines means that a file of JSON lines has more than MaxLines lines.
	ErrTooManyLines = fmt.Errorf("has more than %d lines", MaxLines)
	// ErrOutside means that a link on the way leads out of the folder, or into a .git.
	ErrOutside = errors.New("leads elsewhere: out of the folder that Trellis reads here, or into .git")
	// ErrLink means that a path is a symbolic link where that is not allowed: nothing is written through links.
	ErrLink = errors.New("is a symbolic link")
)

// FileError is the reason why a file is not read or written, and how to fix that. Its causes are ErrIrregular, ErrTooLarge,
// ErrTooManyLines, ErrOutside, ErrLink and errors of the file system.
type FileError struct {
	Path string
	Err  error
	Max  int64 // maximum size of such a file, for ErrTooLarge
}

func (e *FileError) Error() string { return e.Path + ": " + e.Reason() }
func (e *FileError) Unwrap() error { return e.Err }

// Reason describes the error, in words that follow the file's name.
func (e *FileError) Reason() string {
	var errno syscall.Errno
	switch {
	case errors.Is(e.Err, ErrTooLarge):
		return fmt.Sprintf("is larger than the %s that Trellis reads", formatSize(e.Max))
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

// Mend returns advice on how to fix the error.
func (e *FileError) Mend() string {
	switch {
	case errors.Is(e.Err, ErrTooLarge):
		return "shorten it to at most " + formatSize(e.Max)
	case errors.Is(e.Err, ErrTooManyLines):
		return "take lines out of it"
	case errors.Is(e.Err, ErrOutside), errors.Is(e.Err, ErrLink), errors.Is(e.Err, syscall.ELOOP):
		return "put what it is to be in the place of the link"
	case errors.Is(e.Err, fs.ErrPermission):
		return PermissionAdvice(e.Path)
	case errors.Is(e.Err, syscall.EROFS):
		return "the disk is mounted read-only: mount it for writing, or work in a clone on another one"
	case errors.Is(e.Err, syscall.ENOTDIR):
		return "put a folder in the place of that file"
	}
	return "put a file in its place, or take it away"
}

// PermissionAdvice returns advice for a path to which the system refused access: how to change the path, or its folder. Only root can
// give away the files of another user, such as those that a container created as root; this is advised only for files, and for
// what belongs to Trellis.
func PermissionAdvice(path string) string {
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

func formatSize(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d KB", n>>10)
}

// OpenBelow opens a regular file of at most max bytes below a folder in which others write. It follows no link that leads out of
// the folder or into a .git, and does not block on a pipe. If nothing exists there, the error is fs.ErrNotExist, otherwise it is a
// *FileError. The file may grow: callers have to limit what they read.
func OpenBelow(dir, name string, max int64) (*os.File, error) {
	name = filepath.FromSlash(name)
	f, err := openBelow(dir, name, max)
	if err != nil {
		return nil, fileError(filepath.Join(dir, name), max, err)
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
	if err == nil && hasLink(root, name) && leadsIntoGit(dir, name) {
		f.Close()
		err = ErrOutside
	}
	return f, err
}

func openIn(root *os.Root, name string, max int64) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	return ifRegular(f, max, err)
}

// Exists reports whether something exists at a path, including a link that leads nowhere.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// WaitGone reports whether a folder of which something is missing is gone within a second: whoever removes it takes its files one by one.
func WaitGone(path string) bool {
	for wait := patience.New(time.Second); Exists(path); time.Sleep(5 * time.Millisecond) {
		if wait.Over() {
			return false
		}
	}
	return true
}

// ReadIn is ReadBelow in an open folder, for callers that checked that it is the right one.
func ReadIn(root *os.Root, name string, max int64) ([]byte, error) {
	path := filepath.Join(root.Name(), name)
	f, err := openIn(root, name, max)
	if err != nil {
		return nil, fileError(path, max, err)
	}
	defer f.Close()
	return ReadOpen(f, path, max)
}

// ReadBelow reads a file that it opens as OpenBelow does, with no more memory than max. If the file grows beyond max while it is
// read, the error is ErrTooLarge.
func ReadBelow(dir, name string, max int64) ([]byte, error) {
	f, err := OpenBelow(dir, name, max)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadOpen(f, filepath.Join(dir, filepath.FromSlash(name)), max)
}

// ReadHead returns the first most bytes of a regular file below dir, however large the file is.
func ReadHead(dir, name string, most int64) ([]byte, error) {
	f, err := OpenBelow(dir, name, AnySize)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// SumBelow returns the size and the SHA-256, in hex, of a file that OpenBelow opens; if the file grows meanwhile, those of up to
// max bytes.
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

// ReadRecords is ReadBelow for a file of JSON lines.
func ReadRecords(dir, name string) ([]byte, error) {
	data, err := ReadBelow(dir, name, MaxRecords)
	if err == nil && bytes.Count(data, []byte("\n")) > MaxLines {
		return nil, &FileError{filepath.Join(dir, name), ErrTooManyLines, MaxRecords}
	}
	return data, err
}

// ReadOwn is Read for a file that Trellis replaces, and that therefore must not be a link.
func ReadOwn(path string, max int64) ([]byte, error) {
	f, err := OpenOwn(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadOpen(f, path, max)
}

// ReadOpen returns the content of an open file, at most max bytes. Errors name path.
func ReadOpen(f *os.File, path string, max int64) ([]byte, error) {
	data, err := readAll(f, max)
	if err != nil {
		return nil, fileError(path, max, err)
	}
	return data, nil
}

// Read is ReadBelow for a file in its own folder.
func Read(path string, max int64) ([]byte, error) {
	return ReadBelow(filepath.Dir(path), filepath.Base(path), max)
}

// ReadDirBelow lists a folder below another one, sorted by name. It follows no link that leads out of the other one.
func ReadDirBelow(dir, name string) ([]fs.DirEntry, error) {
	f, err := openFolder(dir, filepath.FromSlash(name))
	if err != nil {
		return nil, fileError(filepath.Join(dir, name), 0, err)
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	if err != nil {
		return nil, fileError(filepath.Join(dir, name), 0, err)
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// FolderBelow returns an error unless ReadDirBelow can list the folder.
func FolderBelow(dir, name string) error {
	f, err := openFolder(dir, filepath.FromSlash(name))
	if err != nil {
		return fileError(filepath.Join(dir, name), 0, err)
	}
	return f.Close()
}

// Below returns a file system of a folder, each file of which is read as by ReadBelow.
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

// openRoot opens a folder, without blocking if there is a pipe in its place.
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

// ifRegular returns a file that was opened with err. If it is not a regular file of at most max bytes, it is closed and the error
// says why.
func ifRegular(f *os.File, max int64, err error) (*os.File, error) {
	if err == nil {
		if err = checkRegular(f, max); err != nil {
			f.Close()
		}
	}
	return f, err
}

// checkRegular returns an error unless an open file is a regular one of at most max bytes.
func checkRegular(f *os.File, max int64) error {
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

// hasLink reports whether there is a link on the way to name.
func hasLink(root *os.Root, name string) bool {
	for at := filepath.Clean(name); at != "."; at = filepath.Dir(at) {
		if st, err := root.Lstat(at); err != nil || st.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// leadsIntoGit reports whether links lead into a .git, with its settings and credentials.
func leadsIntoGit(dir, name string) bool {
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

// fileError returns the error for a file at path that can't be opened. For a link that leads out, an os.Root returns an error
// without an errno.
func fileError(path string, max int64, err error) error {
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
