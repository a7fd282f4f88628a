package app

import (
	"errors"
	"io/fs"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Document is the text of a file of a task's directory, such as prd.md or report.md; "" when there is none.
func (p *Project) Document(dir, name string) (string, error) {
	data, err := durable.ReadBelow(dir, name, durable.MaxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(data), err
}
