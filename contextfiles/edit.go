package contextfiles

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrDuplicate says that a context file names a path already.
var ErrDuplicate = errors.New("named already")

// Add appends a row to a context file, on a line of its own also when the last line was never ended.
// The error is [ErrDuplicate] when the path is named already, and says so when its spelling alone
// forbids it, and a *trellis.Problem of a file without a name when that is not UTF-8 text. It does not look at the disk: see [Checker.Check].
func Add(data []byte, row Row) ([]byte, error) {
	if p := encoded("", data); p != nil {
		return nil, p
	}
	clean, wrong := cleanPath(row.Path)
	if wrong != "" {
		return nil, fmt.Errorf("adding %s: it %s", printable(row.Path), wrong)
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
