package delivery

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Record is what the deliveries of a task opened, and gave to pull requests.
type Record struct {
	Modules map[string]string   `json:"submodule_prs"` // addresses by the paths of submodules
	Given   map[string][]string `json:"given"`         // labels and reviewers by address: who takes one off doesn't get it back
}

// RecordFile is where it stands for the task in dir.
func RecordFile(dir string) string { return filepath.Join(dir, taskdir.Run, "delivered.json") }

// ReadRecord is what it says, nothing when there is none.
func ReadRecord(dir string) (Record, error) {
	r := Record{Modules: map[string]string{}, Given: map[string][]string{}}
	data, err := durable.Read(RecordFile(dir), durable.MaxRecords)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return r, fmt.Errorf("reading what was delivered: %w", err)
	}
	return r, nil
}

func (r Record) given(url, what string) bool { return slices.Contains(r.Given[url], what) }

func (d *Deliverer) remember(change func(*Record)) error {
	r, err := ReadRecord(d.Dir)
	if err != nil {
		return err
	}
	change(&r)
	data, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = d.Disk.WriteFile(RecordFile(d.Dir), append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("remembering what was delivered: %w", err)
	}
	return nil
}
