package contextfiles

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Correction is a change to a row that could not be used.
type Correction struct {
	Problem trellis.Problem
	Was     string
	Now     string // "" if the row was dropped
}

// Fix mends every faulty row whose meaning is beyond doubt, and drops every other line that is not a valid row. Everything else
// (valid rows, examples, blank lines, line endings) stays unchanged. Rows with only warnings are not changed, and neither is a
// file that is not UTF-8 text. If the repository can't be opened, Fix returns that problem and changes nothing.
func Fix(name string, data []byte, c Checker) (fixed []byte, mends []Correction) {
	if encodingProblem(name, data) != nil {
		return data, nil
	}
	root, err := os.OpenRoot(c.Root)
	if err != nil {
		return data, []Correction{{Problem: trellis.Problem{File: name, Message: "opening the repository: " + err.Error()}}}
	}
	defer root.Close()
	rows, problems := Parse(name, data)
	valid, found := c.Check(name, rows)
	m := mender{Checker: c, tree: tree{c.Root, root}, usedPaths: map[string]bool{}}
	for _, row := range valid {
		m.usedPaths[row.Path] = true
	}
	list := lines(data)
	for _, p := range trellis.Errors(append(problems, found...)) {
		at := list[p.Line-1:]
		_, n := joinSpreadRow(at)
		was := bytes.Join(at[:n], nil)
		now := m.mend(at[:n])
		clear(at[:n])
		at[0] = now
		mends = append(mends, Correction{p, strings.TrimRight(string(was), "\r\n"), strings.TrimRight(string(now), "\r\n")})
	}
	return bytes.Join(list, nil), mends
}

// mender rewrites rows. usedPaths are the paths of rows that are kept.
type mender struct {
	Checker
	tree      tree
	usedPaths map[string]bool
}

// mend returns the row on these lines as it is meant, with the last line's ending, or nil if the meaning is uncertain.
func (m mender) mend(at [][]byte) []byte {
	last := at[len(at)-1]
	ending := last[len(bytes.TrimRight(last, "\r\n")):]
	was := bytes.TrimRight(bytes.TrimPrefix(at[0], []byte("\ufeff")), "\r\n")
	object, _ := joinSpreadRow(at)
	if object == nil && json.Valid(was) {
		object = was
	} else if object == nil {
		object = extraCommas().ReplaceAll(was, []byte("$1"))
	}
	row, _ := parseLine(object)
	if row == nil {
		return nil
	}
	object = m.intendedRow(*row).rewriteObject(object, *row)
	if row, _ = parseLine(object); row == nil || bytes.Equal(object, was) {
		return nil
	}
	valid, _ := m.Check("", []Row{*row})
	if len(valid) == 0 || m.usedPaths[valid[0].Path] {
		return nil
	}
	m.usedPaths[valid[0].Path] = true
	return append(object, ending...)
}

// extraCommas matches commas after the last value of an object and after the object, as in a list.
var extraCommas = trellis.Pattern(`,?(\s*\})\s*,?\s*$`)

// intendedRow returns a row with the path and type that row means, judging by the files that exist.
func (m mender) intendedRow(row Row) Row {
	p := strings.ReplaceAll(row.Path, `\`, "/")
	real, _ := filepath.EvalSymlinks(m.Root)
	for _, root := range []string{m.Root, cmp.Or(real, m.Root)} {
		p = strings.TrimPrefix(p, filepath.ToSlash(root)+"/")
	}
	clean, wrong := cleanPath(p)
	if wrong != "" {
		return row
	}
	switch _, wrong := m.tree.checkFile(m.tree.currentPath(clean)); {
	case wrong == isDirectory:
		return Row{Path: strings.TrimSuffix(clean, "/") + "/", Type: Directory}
	case wrong == "":
		return Row{Path: clean, Type: File}
	}
	return row
}

// rewriteObject returns the object of the row old with the path and the type of r.
func (r Row) rewriteObject(object []byte, old Row) []byte {
	if r.Path == old.Path && r.Type == old.Type {
		return object
	}
	path := quote(r.Path)
	typed, said := replaceValue(object, "type", quote(r.Type))
	if !said && r.Type == Directory {
		path = append(path, `, "type": "directory"`...)
	}
	written, ok := replaceValue(typed, "file", path)
	if !ok {
		written, _ = replaceValue(typed, "path", path)
	}
	return written
}

// replaceValue replaces the value of a key, and reports whether the object has the key.
func replaceValue(object []byte, key string, value []byte) ([]byte, bool) {
	for _, m := range members(object) {
		if m.key == key {
			return slices.Concat(object[:m.from], value, object[m.to:]), true
		}
	}
	return object, false
}

// maxSpreadRow is the maximum length of a row on several lines, in bytes.
const maxSpreadRow = 16 << 10

// joinSpreadRow returns a row that begins in the first of these lines and ends in a later one, joined to one line, and its number of
// lines; nil and 1 if there is no such row.
func joinSpreadRow(at [][]byte) (object []byte, n int) {
	if first := bytes.TrimSpace(at[0]); len(first) == 0 || first[0] != '{' || json.Valid(first) {
		return nil, 1
	}
	for n < len(at) && len(object) < maxSpreadRow {
		object = append(object, at[n][:min(len(at[n]), maxSpreadRow)]...)
		n++
	}
	d := json.NewDecoder(io.LimitReader(bytes.NewReader(object), maxSpreadRow))
	var whole json.RawMessage
	if d.Decode(&whole) != nil {
		return nil, 1
	}
	end := int(d.InputOffset())
	behind, _, _ := bytes.Cut(object[end:], []byte("\n"))
	n = 1 + bytes.Count(object[:end], []byte("\n"))
	var line bytes.Buffer
	_ = json.Compact(&line, whole) // it was just decoded
	if row, _ := parseLine(line.Bytes()); n == 1 || row == nil || len(bytes.Trim(behind, ", \t\r")) > 0 {
		return nil, 1
	}
	return line.Bytes(), n
}
