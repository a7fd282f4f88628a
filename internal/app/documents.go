package app

import (
	"errors"
	"io/fs"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Document returns the first non-empty file of these in a task's directory, such as prd.md or report.md; "" if there is none.
func (p *Project) Document(dir string, names ...string) (name, text string, err error) {
	for _, name := range names {
		data, err := durable.ReadBelow(dir, name, durable.MaxDocument)
		if err == nil && len(data) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return name, string(data), err
		}
	}
	return "", "", nil
}
