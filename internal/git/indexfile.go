package git

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// entry is a file in an index.
type entry struct {
	path  string
	mode  uint32
	hash  []byte
	stat  []byte // of the file when its content had that hash, as git writes it down; nil when nothing is known of it
	flags uint16
	more  uint16 // flags of version 3
}

func (e entry) conflict() bool { return e.flags&stages != 0 }

func (e entry) meant() bool { return e.more&meant != 0 }

func (e entry) hidden() bool { return e.flags&unchanged != 0 || e.more&skipped != 0 }

func (e entry) append(b []byte) []byte {
	begin, stat := len(b), e.stat
	if stat == nil {
		stat = binary.BigEndian.AppendUint32(make([]byte, 24, statSize), e.mode)[:statSize]
	}
	b = append(append(b, stat...), e.hash...)
	flags := e.flags&(unchanged|stages) | uint16(min(len(e.path), nameMask))
	if e.more != 0 {
		b = binary.BigEndian.AppendUint16(b, flags|longEntry)
		flags = e.more
	}
	b = append(binary.BigEndian.AppendUint16(b, flags), e.path...)
	return append(b, make([]byte, padded(len(b)-begin)-(len(b)-begin))...)
}

// isIn reports whether a checkout has an entry's content, and notes how the file looks, nil for what is no file with that content.
func (e *entry) isIn(dir string, h hash.Hash, buffer []byte) (bool, error) {
	e.stat = nil
	if e.mode == gitlinkMode || e.more&skipped != 0 {
		return true, nil
	}
	path := filepath.Join(dir, e.path)
	h.Reset()
	if e.mode == linkMode {
		target, err := os.Readlink(path)
		fmt.Fprintf(h, "blob %d\x00%s", len(target), target)
		return err == nil && bytes.Equal(h.Sum(nil), e.hash), nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return false, err
	}
	fmt.Fprintf(h, "blob %d\x00", st.Size())
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, buffer); err != nil {
		return false, err
	}
	if !bytes.Equal(h.Sum(nil), e.hash) {
		return false, nil
	}
	e.stat = statOf(st, e.mode)
	return true, nil
}

// statOf is how a file looks, as git writes it down.
func statOf(st fs.FileInfo, mode uint32) []byte {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	changed, b := changedAt(sys), make([]byte, 0, statSize)
	for _, v := range []int64{changed.Unix(), int64(changed.Nanosecond()), st.ModTime().Unix(), int64(st.ModTime().Nanosecond()),
		int64(sys.Dev), int64(sys.Ino), int64(mode), int64(sys.Uid), int64(sys.Gid), st.Size()} {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// Flags of an entry.
const (
	unchanged = 1 << 15 // git was told not to look at it
	longEntry = 1 << 14 // it has more flags
	stages    = 3 << 12 // not 0: a side of a conflict
	nameMask  = 1<<12 - 1

	skipped = 1 << 14 // in more: a sparse checkout leaves it out, or git was told so
	meant   = 1 << 13 // in more: to be added later, of which git knows no content
)

const statSize = 40 // bytes

// entriesOf are those of an index file of version 2 or 3, of a repository whose hashes have so many bytes; errAskGit for another
// one. One that is not there has none.
func entriesOf(file string, size int) ([]entry, error) {
	data, err := durable.ReadBelow(filepath.Dir(file), filepath.Base(file), maxOutput)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	const header = 12
	if err != nil || len(data) < header+size || string(data[:4]) != "DIRC" {
		return nil, errAskGit
	}
	if v := binary.BigEndian.Uint32(data[4:]); v != 2 && v != 3 {
		return nil, errAskGit
	}
	count := binary.BigEndian.Uint32(data[8:])
	data = data[header : len(data)-size]
	list := make([]entry, 0, min(int(count), len(data)/statSize))
	for range count {
		e, n := indexEntry(data, size)
		if n == 0 {
			return nil, errAskGit
		}
		list = append(list, e)
		data = data[n:]
	}
	return list, extensions(data)
}

// indexEntry is the first entry of data and its length, 0 when it is not whole.
func indexEntry(data []byte, size int) (e entry, n int) {
	const modeAt = 24
	name := statSize + size + 2
	if len(data) < name+2 {
		return e, 0
	}
	e.stat, e.mode, e.hash = data[:statSize], binary.BigEndian.Uint32(data[modeAt:]), data[statSize:statSize+size]
	if e.flags = binary.BigEndian.Uint16(data[name-2:]); e.flags&longEntry != 0 {
		e.more = binary.BigEndian.Uint16(data[name:])
		name += 2
	}
	long := bytes.IndexByte(data[name:], 0)
	n = padded(name + long)
	if long < 0 || n > len(data) || min(long, nameMask) != int(e.flags&nameMask) { // git goes by the length that is written there
		return e, 0
	}
	e.path = string(data[name : name+long])
	return e, n
}

// padded is the length of an entry with the zeros behind it: one to eight.
func padded(n int) int { return (n + 8) &^ 7 }

// indexOf is the file of an index with those entries and nothing else.
func indexOf(list []entry, newHash func() hash.Hash) []byte {
	version := uint32(2)
	if slices.ContainsFunc(list, func(e entry) bool { return e.more != 0 }) {
		version = 3
	}
	b := binary.BigEndian.AppendUint32([]byte("DIRC"), version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(list)))
	for _, e := range list {
		b = e.append(b)
	}
	h := newHash()
	h.Write(b)
	return h.Sum(b)
}

// extensions looks whether those behind the entries can be left aside.
func extensions(data []byte) error {
	for len(data) > 0 {
		if len(data) < 8 || data[0] < 'A' || data[0] > 'Z' { // small letters: not to be understood without it
			return errAskGit
		}
		size := int(binary.BigEndian.Uint32(data[4:]))
		if size > len(data)-8 {
			return errAskGit
		}
		data = data[8+size:]
	}
	return nil
}

// parseStaged reads what git ls-files -v --stage -z says: a letter, which is a small one where git was told not to look at a file,
// mode, hash, stage and path.
func parseStaged(out string) (list []entry, err error) {
	for _, line := range nulls(out) {
		about, path, ok := strings.Cut(line, "\t")
		f := strings.Fields(about)
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
	return list, nil
}
