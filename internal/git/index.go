package git

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// indexFacts are what we need to know of an index, and can be told without a process.
type indexFacts struct {
	unmerged string // first path with conflicts, ""
	tree     string // that git would write of it, "" with conflicts
}

// entry is a file in an index.
type entry struct {
	path     string
	mode     uint32
	hash     []byte
	conflict bool
	meant    bool // to be added later, of which git knows no content
}

// readIndex reads an index file of version 2 or 3 with SHA-1, as git writes them by itself. It fails with
// errAskGit for another one. A file that is not there is an empty index.
func (r *Repo) readIndex(file string) (f indexFacts, err error) {
	if c, err := readConfig(r.Common); err != nil || c.extended {
		return f, errAskGit
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return indexFacts{tree: treeOf(nil, 0).String()}, nil
	}
	const header, trailer = 12, 20
	if err != nil || len(data) < header+trailer || string(data[:4]) != "DIRC" {
		return f, errAskGit
	}
	if v := binary.BigEndian.Uint32(data[4:]); v != 2 && v != 3 {
		return f, errAskGit
	}
	count := binary.BigEndian.Uint32(data[8:])
	data = data[header : len(data)-trailer]
	var list []entry
	for range count {
		e, size := indexEntry(data)
		if size == 0 || e.meant {
			return f, errAskGit
		}
		if e.conflict && f.unmerged == "" {
			f.unmerged = e.path
		}
		list = append(list, e)
		data = data[size:]
	}
	if err := extensions(data); err != nil || f.unmerged != "" {
		return f, err
	}
	f.tree = treeOf(list, 0).String()
	return f, nil
}

// indexEntry is the first entry of data and its length, 0 when it is not whole.
func indexEntry(data []byte) (e entry, size int) {
	const modeAt, hashAt, flagsAt, extended, stage, meant = 24, 40, 60, 1 << 14, 3 << 12, 1 << 13
	if len(data) < flagsAt+4 {
		return e, 0
	}
	flags, name := binary.BigEndian.Uint16(data[flagsAt:]), flagsAt+2
	if flags&extended != 0 {
		e.meant = binary.BigEndian.Uint16(data[name:])&meant != 0
		name += 2
	}
	n := bytes.IndexByte(data[name:], 0)
	size = (name + n + 8) &^ 7 // up to eight zeros behind the name
	if n < 0 || size > len(data) {
		return e, 0
	}
	e.path, e.conflict = string(data[name:name+n]), flags&stage != 0
	e.mode, e.hash = binary.BigEndian.Uint32(data[modeAt:]), data[hashAt:flagsAt]
	return e, size
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

// treeOf is the tree of entries that lie in one folder, whose path takes up the first skip bytes of theirs. An index is
// sorted so that trees come out sorted, too.
func treeOf(list []entry, skip int) plumbing.Hash {
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
			hash := treeOf(list[:n], len(folder))
			fmt.Fprintf(&b, "40000 %s\x00%s", name, hash[:])
		}
		list = list[n:]
	}
	return plumbing.ComputeHash(plumbing.TreeObject, b.Bytes())
}
