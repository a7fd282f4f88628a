package git

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
)

// indexFacts are what we need to know of an index, and can be told without a process.
type indexFacts struct {
	unmerged string // first path with conflicts, ""
	tree     string // tree of the whole index, "" when git has yet to compute it
	entries  string // the same for two indexes of one tree
}

// readIndex reads an index file of version 2 or 3 with SHA-1, as git writes them by itself. It fails with
// errAskGit for another one. A file that is not there is an empty index.
func (r *Repo) readIndex(file string) (f indexFacts, err error) {
	if c, err := readConfig(r.Common); err != nil || c.extended {
		return f, errAskGit
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
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
	sum := sha256.New()
	for range count {
		path, conflict, size := indexEntry(data)
		if size == 0 {
			return f, errAskGit
		}
		if conflict && f.unmerged == "" {
			f.unmerged = path
		}
		sum.Write(data[24:28]) // mode
		sum.Write(data[40:size])
		data = data[size:]
	}
	f.entries = string(sum.Sum(nil))
	f.tree, err = indexTree(data)
	return f, err
}

// indexEntry is the first entry of data and its length, 0 when it is not whole.
func indexEntry(data []byte) (path string, conflict bool, size int) {
	const flagsAt, extended, stage = 60, 1 << 14, 3 << 12
	if len(data) < flagsAt+2 {
		return "", false, 0
	}
	flags, name := binary.BigEndian.Uint16(data[flagsAt:]), flagsAt+2
	if flags&extended != 0 {
		name += 2
	}
	if len(data) < name {
		return "", false, 0
	}
	n := bytes.IndexByte(data[name:], 0)
	size = (name + n + 8) &^ 7 // up to eight zeros behind the name
	if n < 0 || size > len(data) {
		return "", false, 0
	}
	return string(data[name : name+n]), flags&stage != 0, size
}

// indexTree finds the whole's tree in the extensions behind the entries.
func indexTree(data []byte) (tree string, err error) {
	for len(data) > 0 {
		if len(data) < 8 || data[0] < 'A' || data[0] > 'Z' { // small letters: not to be understood without it
			return "", errAskGit
		}
		name, size := string(data[:4]), int(binary.BigEndian.Uint32(data[4:]))
		if size > len(data)-8 {
			return "", errAskGit
		}
		if name == "TREE" {
			tree = rootTree(data[8 : 8+size])
		}
		data = data[8+size:]
	}
	return tree, nil
}

// rootTree is the first hash of a cache of trees: an empty path, zero, the number of entries (-1 when the tree is
// not known), a space, the number of trees below, a newline and the hash.
func rootTree(data []byte) string {
	const hash = 20
	head, rest, ok := bytes.Cut(data, []byte("\n"))
	if !ok || len(rest) < hash || len(head) < 2 || head[0] != 0 || head[1] == '-' {
		return ""
	}
	return hex.EncodeToString(rest[:hash])
}
