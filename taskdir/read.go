package taskdir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// MaxRequirement is the longest requirement that is taken.
const MaxRequirement = 4 << 20

// ReadFile reads a file of the task directory dir, where others can put anything in its place: see durable.ReadBelow. How
// much of it is read follows from its name; docs/reference/formats.md has the table.
func ReadFile(dir, name string) ([]byte, error) {
	if filepath.Ext(name) == ".jsonl" {
		return durable.ReadRecords(dir, name)
	}
	return durable.ReadBelow(dir, name, maxOf(name))
}

// ReadOptional is ReadFile of a file that need not be there: it is nil then.
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

// CheckFile says why a file of dir can't be read, nil when it can, or is not there. What is in it is not looked at.
func CheckFile(dir, name string) error {
	f, err := durable.OpenBelow(dir, name, maxOf(name))
	if err == nil {
		err = f.Close()
	}
	return err
}

func maxOf(name string) int64 {
	switch base := filepath.Base(name); {
	case strings.HasPrefix(base, "requirement"):
		return MaxRequirement
	case base == Plan, base == TaskJSON, base == PlanLog, filepath.Ext(base) == ".jsonl":
		return durable.MaxRecords
	}
	return durable.MaxDocument
}
