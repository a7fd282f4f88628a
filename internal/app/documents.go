package app

import (
	"errors"
	"io/fs"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Document is the first of some files of a task's directory, such as prd.md or report.md, that says something; "" when none does.
func (p *Project) Document(dir string, names ...string) (name, text string, err error) {
	for _, name := range names {
		data, err := durable.ReadBelow(dir, name, durable.MaxDocument)
		if err == nil && len(data) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return name, string(data), err
		}
	}
	return "", "", nil
}
