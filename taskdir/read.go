package taskdir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// MaxRequirement is the maximum size of a requirement, in bytes.
const MaxRequirement = 4 << 20

// ReadFile reads a file of the task directory dir, where others may replace it by anything: see durable.ReadBelow. Its size
// limit depends on its name; docs/reference/formats.md has the table.
func ReadFile(dir, name string) ([]byte, error) {
	if filepath.Ext(name) == ".jsonl" {
		return durable.ReadRecords(dir, name)
	}
	return durable.ReadBelow(dir, name, maxSize(name))
}

// ReadOptional is ReadFile for an optional file: it returns nil if the file does not exist.
func ReadOptional(dir, name string) ([]byte, error) {
	data, err := ReadFile(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return data, nil
}

// CheckFile returns an error if a file of dir can't be opened, fs.ErrNotExist if there is none. It does not check the contents.
func CheckFile(dir, name string) error {
	f, err := durable.OpenBelow(dir, name, maxSize(name))
	if err == nil {
		err = f.Close()
	}
	return err
}

func maxSize(name string) int64 {
	switch base := filepath.Base(name); {
	case strings.HasPrefix(base, "requirement"):
		return MaxRequirement
	case base == Plan, base == TaskJSON, base == PlanLog, filepath.Ext(base) == ".jsonl":
		return durable.MaxRecords
	}
	return durable.MaxDocument
}
