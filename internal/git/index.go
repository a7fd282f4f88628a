package git

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// indexFacts are what we need to know of an index, and can be told without a process.
type indexFacts struct {
	unmerged string // first path with conflicts, ""
	tree     string // that git would write of it, "" with conflicts
}

// entry is a file in an index.
type entry struct {
	path  string
	mode  uint32
	hash  []byte
	stat  []byte // of the file when its content had that hash, as git writes it down; nil when nothing is known of it
	flags uint16
	more  uint16 // flags of version 3
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

func (e entry) conflict() bool { return e.flags&stages != 0 }
func (e entry) meant() bool    { return e.more&meant != 0 }
func (e entry) hidden() bool   { return e.flags&unchanged != 0 || e.more&skipped != 0 }

// readIndex reads an index file of version 2 or 3 with SHA-1, as git writes them by itself. It fails with
// errAskGit for another one. A file that is not there is an empty index.
func (r Index) readIndex(file string) (f indexFacts, err error) {
	if c, err := ReadConfig(r.Common); err != nil || c.extended {
		return f, errAskGit
	}
	list, err := entriesOf(file, sha1.Size)
	if err != nil {
		return f, err
	}
	for _, e := range list {
		if e.meant() {
			return f, errAskGit
		}
		if e.conflict() && f.unmerged == "" {
			f.unmerged = e.path
		}
	}
	if f.unmerged == "" {
		f.tree = hex.EncodeToString(treeOf(list, 0, sha1.New))
	}
	return f, nil
}

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
	if long < 0 || n > len(data) {
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

// treeOf is the name of the tree of entries that lie in one folder, whose path takes up the first skip bytes of theirs. An index is
// sorted so that trees come out sorted, too.
func treeOf(list []entry, skip int, newHash func() hash.Hash) []byte {
	var b bytes.Buffer
	for len(list) > 0 {
		e, n := list[0], 1
		name, _, deeper := strings.Cut(e.path[skip:], "/")
		if !deeper {
			fmt.Fprintf(&b, "%o %s\x00%s", e.mode, name, e.hash)
		} else {
			folder := e.path[:skip+len(name)+1]
			for n < len(list) && strings.HasPrefix(list[n].path, folder) {
				n++
			}
			fmt.Fprintf(&b, "40000 %s\x00%s", name, treeOf(list[:n], len(folder), newHash))
		}
		list = list[n:]
	}
	return nameOf("tree", b.Bytes(), newHash)
}

// nameOf is what git calls an object.
func nameOf(kind string, data []byte, newHash func() hash.Hash) []byte {
	h := newHash()
	fmt.Fprintf(h, "%s %d\x00", kind, len(data))
	h.Write(data)
	return h.Sum(nil)
}

// hashes is how objects get their names in a repository, and how long those are.
func (r *Repo) hashes() (newHash func() hash.Hash, size int) {
	if c, err := ReadConfig(r.Common); err == nil && c.sha256 {
		return sha256.New, sha256.Size
	}
	return sha1.New, sha1.Size
}
