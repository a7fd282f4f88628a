package contextfiles

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// ErrDuplicate says that a context file names a path already.
var ErrDuplicate = errors.New("named already")

// Fix drops every line that is no valid row. All else (the rows that stay, examples, blank lines, line
// endings) keeps its bytes. Warnings are no reason to drop a row. When the repository can't be opened,
// that is the problem returned, and nothing was dropped.
func Fix(name string, data []byte, c Checker) (fixed []byte, dropped []trellis.Problem) {
	rows, problems := Parse(name, data)
	_, found := c.Check(name, rows)
	bad := map[int]bool{}
	for _, p := range append(problems, found...) {
		if !p.Warning {
			bad[p.Line] = true // line 0 is none
			dropped = append(dropped, p)
		}
	}
	for i, line := range lines(data) {
		if !bad[i+1] {
			fixed = append(fixed, line...)
		}
	}
	return fixed, dropped
}

// Add appends a row to a context file, on a line of its own also when the last line was never ended.
// The error is [ErrDuplicate] when the path is named already, and says so when its spelling alone
// forbids it. It does not look at the disk: see [Checker.Check].
func Add(data []byte, row Row) ([]byte, error) {
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
