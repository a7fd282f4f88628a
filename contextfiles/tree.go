package contextfiles

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/text"
)

// maxInDirectory is the maximum number of files shown for a directory row.
const maxInDirectory = 20

// Faults of a path on disk, as the rest of a sentence that begins with the path.
const (
	isDirectory = "is a directory"
	isFile      = "is a file, not a directory"
	isSpecial   = "is not a regular file"
	isBinary    = "is not UTF-8 text"
	isMissing   = "does not exist"
	isOutside   = "leads through a symlink that is absolute or points out of the repository"
)

// tree is a folder that no path leads out of: [os.Root] refuses .., absolute symlinks, and symlinks that climb out, even if
// they are created between a check and a read.
type tree struct {
	dir  string
	root *os.Root
}

// open returns an open regular file and its size. It does not wait for the other end of a pipe.
func (t tree) open(clean string) (*os.File, int, string) {
	f, err := durable.OpenBelow(t.dir, clean, durable.AnySize)
	if err != nil {
		return nil, 0, pathFault(err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, pathFault(err)
	}
	return f, int(info.Size()), ""
}

// checkFile returns a file's size, or the reason why it can't be shown. Of a large file it checks only the beginning.
func (t tree) checkFile(clean string) (int, string) {
	f, size, wrong := t.open(clean)
	if wrong != "" {
		return 0, wrong
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, int64(DefaultCaps().File)))
	if err != nil {
		return 0, pathFault(err)
	}
	if !isText(head, len(head) < size) {
		return 0, isBinary
	}
	return size, ""
}

// read returns the content of a file, or the first limit bytes of a larger one, with its size.
func (t tree) read(clean string, limit int) (content []byte, size int, wrong string) {
	f, size, wrong := t.open(clean)
	if wrong != "" {
		return nil, size, wrong
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	cut := len(content) > limit
	switch {
	case err != nil:
		return nil, size, pathFault(err)
	case !isText(content, cut):
		return nil, size, isBinary
	case cut:
		return truncateText(content, limit), max(size, len(content)), ""
	}
	return content, len(content), ""
}

// truncateText returns the part of a text within limit, up to the end of a line; if no line ends there, whole characters.
func truncateText(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	begin := text[:max(limit, 0)]
	if end := bytes.LastIndexByte(begin, '\n'); end >= 0 {
		return begin[:end+1]
	}
	for len(begin) > 0 && !utf8.RuneStart(text[len(begin)]) {
		begin = begin[:len(begin)-1]
	}
	return begin
}

// markdownFiles returns the *.md files directly in a folder, sorted, at most maxInDirectory, and how many more there are.
func (t tree) markdownFiles(clean string) (files []string, more int, wrong string) {
	info, err := t.root.Stat(filepath.FromSlash(clean))
	if err != nil {
		return nil, 0, pathFault(err)
	}
	if !info.IsDir() {
		return nil, 0, isFile
	}
	entries, err := durable.ReadDirBelow(t.dir, clean)
	if err != nil {
		return nil, 0, pathFault(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".md") && !e.IsDir() && !strings.ContainsFunc(e.Name(), isUnprintable) {
			files = append(files, path.Join(clean, e.Name()))
		}
	}
	slices.Sort(files)
	shown := files[:min(len(files), maxInDirectory)]
	return shown, len(files) - len(shown), ""
}

// pathFault describes why a path could not be opened. Errors of the kernel speak for themselves; a path that the tree itself
// refuses leads out of it.
func pathFault(err error) string {
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return isMissing
	case errors.Is(err, syscall.EISDIR):
		return isDirectory
	case errors.Is(err, durable.ErrIrregular):
		return isSpecial
	case errors.Is(err, fs.ErrPermission):
		return "can't be read: permission denied"
	case errors.As(err, &errno):
		return "can't be read: " + errno.Error()
	}
	return isOutside
}

// isText reports whether b is UTF-8 without a NUL. If b was cut off, it may end with an incomplete character.
func isText(b []byte, cut bool) bool {
	if cut {
		for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
			if utf8.RuneStart(b[len(b)-i]) {
				if !utf8.FullRune(b[len(b)-i:]) {
					b = b[:len(b)-i]
				}
				break
			}
		}
	}
	return text.Valid(b)
}
