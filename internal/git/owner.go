package git

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// ownerFile is where git's folder of a worktree says for whom Trellis made it. It goes when the worktree does.
const ownerFile = "trellis.json"

// owner is what stands there.
type owner struct {
	Task string `json:"task"`
	Mark string `json:"mark"` // made anew with each worktree: what is put in its place has another, or none
}

// Owner is the task that the worktree was made for, "" when nothing says so.
func (w Worktree) Owner() string {
	o, _ := readOwner(w.admin) // what can't be read says nothing
	return o.Task
}

// readOwner is the zero owner of a worktree that Trellis did not make.
func readOwner(admin string) (o owner, err error) {
	data, err := os.ReadFile(filepath.Join(admin, ownerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err != nil {
		return owner{}, fmt.Errorf("reading whose worktree %s is: %w", filepath.Base(admin), err)
	}
	return o, nil
}

// claimFor writes down whose worktree it is, unless that is written already.
func claimFor(task, admin string) error {
	if o, err := readOwner(admin); task == "" || err == nil && o.Task == task && o.Mark != "" {
		return nil
	}
	mark := make([]byte, 8)
	rand.Read(mark) // never fails
	data, err := json.Marshal(owner{task, hex.EncodeToString(mark)})
	if err == nil {
		err = new(durable.Disk).WriteFile(filepath.Join(admin, ownerFile), data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("noting whose worktree it is: %w", err)
	}
	return nil
}
