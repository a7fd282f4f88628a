package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Noted is what is to be said of a pull request besides how it stands: of what was found wrong with it.
type Noted struct {
	Reacted []string `json:"reacted"` // names of what runs were begun for, oldest first
	Rounds  int      `json:"rounds"`  // that those took
	Note    string   `json:"note"`    // what is being done, or why nothing is; "": nothing is wrong
}

// pullFile is where a Pull stands in the folder of a task's run.
const pullFile = "pull.json"

// ReadPull is the pull request of the task in dir, nil when nobody saw one.
func ReadPull(dir string) (*Pull, error) {
	data, err := durable.ReadBelow(dir, filepath.Join(taskdir.Run, pullFile), durable.MaxRecords)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var p Pull
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what is known of the pull request: %w", err)
	}
	if p.Reacted == nil {
		p.Reacted = []string{}
	}
	if p.Modules == nil {
		p.Modules = []ModulePull{}
	}
	return &p, nil
}

func (p Pull) write(disk *durable.Disk, dir string) error {
	if p.Reacted == nil {
		p.Reacted = []string{} // a list, for scripts
	}
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return disk.WriteFile(filepath.Join(dir, taskdir.Run, pullFile), append(data, '\n'), 0o600)
}

// NotePull writes down what is to be said of the pull request that was seen last of the task in dir.
func NotePull(disk *durable.Disk, dir string, n Noted) error {
	p, err := ReadPull(dir)
	if err != nil || p == nil || p.Note == n.Note && p.Rounds == n.Rounds && slices.Equal(p.Reacted, n.Reacted) {
		return err
	}
	p.Noted = n
	return p.write(disk, dir)
}

// Pulls is Refresh for the tasks that have a pull request, by what that says alone: nothing is fetched. dir is one task, ""
// all.
func (r *Remote) Pulls(ctx context.Context, dir string) (out Refreshed, err error) {
	tasks, err := r.inReview(dir)
	if err != nil {
		return out, err
	}
	var list []Leftover
	for _, t := range tasks {
		if t.PRURL == "" {
			continue
		}
		l := Leftover{Dir: t.Dir, ID: t.ID, Status: trellis.Review, Base: t.BaseBranch, Branch: t.BranchName(), task: t}
		if l.Tip, err = r.Cleaner.Repo.Refs().Branch(ctx, l.Branch); err != nil {
			return out, err
		}
		list = append(list, l)
	}
	err = r.pulls(ctx, list, &out)
	return out, err
}

// Follow takes the worktree and the branch of a task from the commit that was delivered to the one at which its pull
// request is, which others pushed, and reports whether they are there. They stay where they are when something in the
// worktree is not committed, or the delivered commit is not in that one's history. may says why what was pushed, which is
// fetched by then, is not taken in; nil when it may be.
func (r *Remote) Follow(ctx context.Context, t *taskdir.Task, delivered, head string, outside []string, may func(context.Context) error) (bool, error) {
	repo := r.Cleaner.Repo
	if _, err := repo.Refs().Resolve(ctx, head); errors.Is(err, git.ErrNotFound) {
		name, err := repo.Remotes().Remote(ctx, t.BaseBranch)
		if err == nil {
			err = repo.Remotes().Fetch(ctx, name, r.Wall)
		}
		if _, known := repo.Refs().Resolve(ctx, head); err != nil || known != nil {
			return false, err
		}
	} else if err != nil {
		return false, err
	}
	if err := may(ctx); err != nil {
		return false, err
	}
	if !exists(t.WorktreePath) {
		return false, nil
	}
	return repo.Backups().Forward(ctx, t.WorktreePath, t.BranchName(), delivered, head, outside...)
}
