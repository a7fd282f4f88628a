package git

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// ownerFile is where git's folder of a worktree says for whom Trellis made it. It goes when the worktree does.
const ownerFile = "trellis.json"

// owner is what stands there.
type owner struct {
	Task string `json:"task"`
	Mark string `json:"mark"` // made anew with each worktree: what is put in its place has another, or none

	Folder     FileID `json:"folder,omitzero"` // of the worktree
	Repository FileID `json:"repository,omitzero"`
}

// Owner is the task that the worktree was made for, "" when nothing says so.
func (w Worktree) Owner() string {
	o, _ := readOwner(w.admin) // what can't be read says nothing
	return o.Task
}

// readOwner is the zero owner of a worktree that Trellis did not make.
func readOwner(admin string) (o owner, err error) {
	const long = 1 << 10
	data, err := durable.ReadBelow(admin, ownerFile, long)
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
func (r Worktrees) claimFor(task, path, admin string) error {
	if task == "" {
		return nil
	}
	folder, err := idOf(path)
	if err == nil {
		err = r.writeOwner(owner{Task: task, Folder: folder}, admin)
	}
	if err != nil {
		return fmt.Errorf("noting whose worktree %s is: %w", path, err)
	}
	return nil
}

func (r Worktrees) writeOwner(o owner, admin string) (err error) {
	if o.Repository, err = idOf(r.Common); err != nil {
		return err
	}
	old, err := readOwner(admin)
	if o.Mark = old.Mark; err == nil && o.Mark != "" && o == old {
		return nil
	}
	mark := make([]byte, 8)
	rand.Read(mark) // never fails
	o.Mark = hex.EncodeToString(mark)
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return new(durable.Disk).WriteFile(filepath.Join(admin, ownerFile), data, 0o644)
}
