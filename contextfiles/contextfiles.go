// Package contextfiles reads, checks, mends and assembles context files: the implement.jsonl, check.jsonl and debug.jsonl of a
// task, which name the files that an agent gets to read with its prompt.
//
// A context file has one JSON object per line:
//
//	{"file": ".trellis/spec/backend/index.md", "reason": "conventions"}
//	{"file": "docs/api/", "type": "directory", "reason": "the format"}
//
// Context files are written by people, programs and models. The paths in them are checked before anything is opened, and
// nothing outside the repository is ever read.
package contextfiles

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// The types of a row. Artifact never occurs in a file: callers of [Assemble] use it for the task's own documents (prd.md,
// info.md, design.md), which may be larger than other files.
const (
	File      = "file"
	Directory = "directory"
	Artifact  = "artifact"
)

// Row is one entry of a context file.
type Row struct {
	Line   int    // from 1; 0 if it was not read from a file
	Path   string // as written if from Parse, cleaned if from Check; directories then end in /
	Reason string
	Type   string // File (also when empty) or Directory
	Unread string // a second path, which is ignored
	Raw    []byte // the line as read, without its line ending; includes unknown keys
}

// LikelyContextFile returns the context file of a phase that name is probably meant to be, "" for any other name. Other files may be
// next to the context files.
func LikelyContextFile(name string) string {
	phases := []string{"implement.jsonl", "check.jsonl", "debug.jsonl"}
	if slices.Contains(phases, name) {
		return ""
	}
	if near := trellis.Nearest(strings.ToLower(strings.TrimSuffix(name, ".jsonl")), []string{"implement", "check", "debug"}); near != "" {
		return near + ".jsonl"
	}
	return ""
}

// Parse reads a context file called name. It returns rows in order, even after an invalid line, and skips blank lines and rows
// that only hold an example. Every problem is an error with its line. A file in another encoding is one problem: its rows are
// not guessed at. Parse does not read the disk: see [Checker.Check].
func Parse(name string, data []byte) ([]Row, []trellis.Problem) {
	if p := encodingProblem(name, data); p != nil {
		return nil, []trellis.Problem{*p}
	}
	var rows []Row
	var problems []trellis.Problem
	list := lines(data)
	for i, n := 0, 1; i < len(list); i += n {
		row, err := parseLine(bytes.TrimPrefix(list[i], []byte("\ufeff")))
		if n = 1; err != nil {
			if _, n = joinSpreadRow(list[i:]); n > 1 {
				err = &trellis.Problem{Message: fmt.Sprintf("this row spans %d lines: write it on one", n)}
			}
			err.File, err.Line, err.Hint = name, i+1, cmp.Or(err.Hint, fixHint(name))
			problems = append(problems, *err)
		} else if row != nil {
			row.Line = i + 1
			rows = append(rows, *row)
		}
	}
	return rows, problems
}

// encodingProblem returns the problem of a file in an encoding other than UTF-8, else nil.
func encodingProblem(name string, data []byte) *trellis.Problem {
	if text.Valid(data) {
		return nil
	}
	return &trellis.Problem{File: name, Line: 1 + bytes.Count(data[:text.InvalidUTF8(string(data))], []byte("\n")), Message: "is not UTF-8 text", Hint: "save the file as UTF-8"}
}

// lines splits data into lines with their endings.
func lines(data []byte) [][]byte { return bytes.SplitAfter(data, []byte("\n")) }

// parseLine returns nil, nil for a line that is neither a row nor a mistake.
func parseLine(line []byte) (*Row, *trellis.Problem) {
	line = bytes.TrimRight(line, "\r\n")
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(line, &keys); err != nil {
		if row, ok := bytes.CutSuffix(bytes.TrimSpace(line), []byte(",")); ok && json.Valid(row) { // as in a JSON list
			return nil, &trellis.Problem{Column: bytes.LastIndexByte(line, ',') + 1, Message: "there is a comma behind the object"}
		}
		if trellis.IsConflictMark(string(line)) {
			return nil, &trellis.Problem{Message: trellis.MergeConflict, Hint: trellis.MendMergeConflict}
		}
		return nil, objectProblem(err)
	}
	if keys == nil {
		return nil, &trellis.Problem{Message: "not a JSON object, but null"}
	}
	if p := duplicateKeyProblem(line); p != nil {
		return nil, p
	}
	return rowFromKeys(keys, line)
}

// duplicateKeyProblem returns a problem if an object has one of our keys twice, as nobody knows which of the two was meant.
func duplicateKeyProblem(object []byte) *trellis.Problem {
	seen := map[string]bool{}
	for _, m := range members(object) {
		if seen[m.key] && slices.Contains([]string{"file", "path", "reason", "type"}, m.key) {
			at := bytes.LastIndexByte(object[:m.keyEnd-1], '"') + 1 // our keys contain no quotes
			return &trellis.Problem{Column: at, Message: fmt.Sprintf("%q appears twice in this row", m.key), Hint: "remove one of the two, or write two rows"}
		}
		seen[m.key] = true
	}
	return nil
}

// member is a key of an object with the offset of its end, and those of its value.
type member struct {
	key              string
	keyEnd, from, to int
}

// members returns the members of an object in their order, as far as they can be read.
func members(object []byte) (list []member) {
	d := json.NewDecoder(bytes.NewReader(object))
	_, _ = d.Token() // the opening brace
	for d.More() {
		token, _ := d.Token()
		key, _ := token.(string)
		keyEnd := int(d.InputOffset())
		var value json.RawMessage
		if d.Decode(&value) != nil {
			break
		}
		to := int(d.InputOffset())
		list = append(list, member{key, keyEnd, to - len(value), to})
	}
	return list
}

func objectProblem(err error) *trellis.Problem {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return &trellis.Problem{Column: int(max(syntax.Offset, 1)), Message: "not one whole JSON object: " + syntax.Error()}
	case errors.As(err, &kind):
		return &trellis.Problem{Message: "not a JSON object, but " + kind.Value}
	}
	return &trellis.Problem{Message: "not a JSON object: " + err.Error()}
}

func rowFromKeys(keys map[string]json.RawMessage, line []byte) (*Row, *trellis.Problem) {
	path, ok := keys["file"]
	if !ok {
		path, ok = keys["path"]
	}
	if _, seed := keys["_example"]; seed && !ok {
		return nil, nil
	}
	row := Row{Type: File, Raw: bytes.Clone(line)}
	for _, k := range []struct {
		name string
		raw  json.RawMessage
		to   *string
	}{{"file", path, &row.Path}, {"reason", keys["reason"], &row.Reason}, {"type", keys["type"], &row.Type}} {
		if k.raw != nil && json.Unmarshal(k.raw, k.to) != nil {
			return nil, &trellis.Problem{Message: fmt.Sprintf("%q is not a string", k.name)}
		}
	}
	switch {
	case row.Path == "":
		return nil, &trellis.Problem{Message: `names no file: expected {"file": "path", "reason": "why"}`}
	case row.Type != "" && row.Type != File && row.Type != Directory:
		return nil, &trellis.Problem{Message: fmt.Sprintf("unknown type %q (%q, or none for a file)", row.Type, Directory)}
	case row.Type == "":
		row.Type = File
	}
	if json.Unmarshal(keys["path"], &row.Unread) == nil && row.Unread == row.Path {
		row.Unread = ""
	}
	return &row, nil
}

// Render formats rows as a context file. A row that was read is written unchanged.
func Render(rows []Row) []byte {
	var b bytes.Buffer
	for _, r := range rows {
		b.Write(r.line())
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func (r Row) line() []byte {
	if r.Raw != nil {
		return r.Raw
	}
	if r.Type == Directory {
		return fmt.Appendf(nil, `{"file": %s, "type": "directory", "reason": %s}`, quote(strings.TrimSuffix(r.Path, "/")+"/"), quote(r.Reason))
	}
	return fmt.Appendf(nil, `{"file": %s, "reason": %s}`, quote(r.Path), quote(r.Reason))
}

// quote returns s as a JSON string without escaping characters such as <.
func quote(s string) []byte {
	raw, err := text.JSON(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return raw
}
