package contextfiles

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrDuplicate means that a context file already names a path.
var ErrDuplicate = errors.New("named already")

// Add appends a row to a context file, on a new line even if the last line is not terminated. The error matches [ErrDuplicate]
// if the path is named already. It is also an error if the spelling of the path forbids it, and a *trellis.Problem without a
// file name if data is not UTF-8 text. Add does not read the disk: see [Checker.Check].
func Add(data []byte, row Row) ([]byte, error) {
	if p := encodingProblem("", data); p != nil {
		return nil, p
	}
	clean, wrong := cleanPath(row.Path)
	if wrong != "" {
		return nil, fmt.Errorf("adding %s: it %s", printablePath(row.Path), wrong)
	}
	rows, _ := Parse("", data)
	for _, r := range rows {
		if have, _ := cleanPath(r.Path); have == clean {
			return nil, fmt.Errorf("adding %s: %w in line %d", clean, ErrDuplicate, r.Line)
		}
	}
	row.Path = clean
	end := []byte("\n")
	if bytes.Contains(data, []byte("\r\n")) {
		end = []byte("\r\n")
	}
	added := bytes.Clone(data)
	if len(added) > 0 && added[len(added)-1] != '\n' {
		added = append(added, end...)
	}
	return append(append(added, row.line()...), end...), nil
}
