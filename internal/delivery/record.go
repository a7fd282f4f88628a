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

// Record lists the pull requests that deliveries of a task opened in submodules, and what pull requests were given.
type Record struct {
	Modules map[string]string   `json:"submodule_prs"` // addresses, by path of the submodule
	Given   map[string][]string `json:"given"`         // labels, reviewers and comments, by address: a person who removes one doesn't get it back
}

// RecordFile returns the path of the record of the task in dir.
func RecordFile(dir string) string { return filepath.Join(dir, taskdir.Run, "delivered.json") }

// ReadRecord reads the record of the task in dir, an empty one if there is none.
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

func (r Record) wasGiven(url, what string) bool { return slices.Contains(r.Given[url], what) }

func (d *Deliverer) updateRecord(change func(*Record)) error {
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
