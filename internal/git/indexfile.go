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
	path     string
	mode     uint32
	hash     []byte
	stat     []byte // stat data, in git's format, of the file when its content had that hash; nil if unknown
	flags    uint16
	extFlags uint16 // extended flags, of index version 3
}

func (e entry) conflict() bool { return e.flags&stageMask != 0 }

func (e entry) intentToAdd() bool { return e.extFlags&intentToAddFlag != 0 }

func (e entry) hidden() bool { return e.flags&assumeUnchanged != 0 || e.extFlags&skipWorktree != 0 }

func (e entry) append(b []byte) []byte {
	begin, stat := len(b), e.stat
	if stat == nil {
		stat = binary.BigEndian.AppendUint32(make([]byte, 24, statSize), e.mode)[:statSize]
	}
	b = append(append(b, stat...), e.hash...)
	flags := e.flags&(assumeUnchanged|stageMask) | uint16(min(len(e.path), nameMask))
	if e.extFlags != 0 {
		b = binary.BigEndian.AppendUint16(b, flags|longEntry)
		flags = e.extFlags
	}
	b = append(binary.BigEndian.AppendUint16(b, flags), e.path...)
	return append(b, make([]byte, padded(len(b)-begin)-(len(b)-begin))...)
}

// compareFile reports whether a checkout's file has the content of the entry. It sets e.stat to the file's stat data, or nil.
func (e *entry) compareFile(dir string, h hash.Hash, buffer []byte) (bool, error) {
	e.stat = nil
	if e.mode == gitlinkMode || e.extFlags&skipWorktree != 0 {
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

// statOf returns the stat data of a file in git's format.
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
	assumeUnchanged = 1 << 15 // assume-unchanged: git was told not to check the file
	longEntry       = 1 << 14 // has extended flags
	stageMask       = 3 << 12 // not 0: a side of a conflict
	nameMask        = 1<<12 - 1

	skipWorktree    = 1 << 14 // in extFlags: skip-worktree, set by a sparse checkout or by hand
	intentToAddFlag = 1 << 13 // in extFlags: intent to add, git has no content for it
)

const statSize = 40 // bytes

// readIndex returns the entries of an index file of version 2 or 3, in a repository whose hashes have size bytes, and none if the
// file doesn't exist. It returns errAskGit for any other file.
func readIndex(file string, size int) ([]entry, error) {
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
		e, n := parseEntry(data, size)
		if n == 0 {
			return nil, errAskGit
		}
		list = append(list, e)
		data = data[n:]
	}
	return list, checkExtensions(data)
}

// parseEntry returns the first entry of data and its length, which is 0 if the entry is incomplete.
func parseEntry(data []byte, size int) (e entry, n int) {
	const modeAt = 24
	name := statSize + size + 2
	if len(data) < name+2 {
		return e, 0
	}
	e.stat, e.mode, e.hash = data[:statSize], binary.BigEndian.Uint32(data[modeAt:]), data[statSize:statSize+size]
	if e.flags = binary.BigEndian.Uint16(data[name-2:]); e.flags&longEntry != 0 {
		e.extFlags = binary.BigEndian.Uint16(data[name:])
		name += 2
	}
	long := bytes.IndexByte(data[name:], 0)
	n = padded(name + long)
	if long < 0 || n > len(data) || min(long, nameMask) != int(e.flags&nameMask) { // git uses the length in the flags
		return e, 0
	}
	e.path = string(data[name : name+long])
	return e, n
}

// padded returns the length of an entry of n bytes with its padding of one to eight zeros.
func padded(n int) int { return (n + 8) &^ 7 }

// encodeIndex returns an index file with these entries and nothing else.
func encodeIndex(list []entry, newHash func() hash.Hash) []byte {
	version := uint32(2)
	if slices.ContainsFunc(list, func(e entry) bool { return e.extFlags != 0 }) {
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

// checkExtensions returns errAskGit unless the extensions behind the entries can be ignored.
func checkExtensions(data []byte) error {
	for len(data) > 0 {
		if len(data) < 8 || data[0] < 'A' || data[0] > 'Z' { // lower case: the index can't be understood without it
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

// parseStaged parses the output of git ls-files -v --stage -z: a letter, in lower case where git was told not to check the file,
// mode, hash, stage and path.
func parseStaged(out string) (list []entry, err error) {
	for _, line := range splitNull(out) {
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
			e.extFlags = skipWorktree
		}
		if f[0] != strings.ToUpper(f[0]) {
			e.flags |= assumeUnchanged
		}
		list = append(list, e)
	}
	return list, nil
}
