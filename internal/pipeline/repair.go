package pipeline

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
)

// repairer takes back what no agent may do to git or to task directories.
type repairer struct {
	repo    *git.Repo
	guard   *guard
	modules *modules
	task    *taskDir
}

// repair takes back what no agent may do to git or to task directories.
func (r *repairer) repair(ctx context.Context, c flow.Call, j Job) (notes []string, err error) {
	if notes, err = r.guard.verifyObjects(ctx, j.BaseCommit); err != nil {
		return notes, err
	}
	strayed, err := r.repo.Backups().Reattach(ctx, j.Worktree, j.Branch, j.anchor(), r.task.backupRef(c)+"-strayed")
	if err != nil {
		return notes, err
	}
	if strayed {
		notes = append(notes, "the worktree had left its branch, or the branch its base: it was put back, the files as they were")
	}
	more, err := r.modules.repair(ctx, c, j)
	if notes = append(notes, more...); err != nil {
		return notes, err
	}
	hidden, err := r.repo.Index().Unhide(ctx, j.Worktree)
	if err != nil {
		return notes, err
	}
	if len(hidden) > 0 {
		notes = append(notes, "git had been told not to look at tracked files, which was undone: "+strings.Join(few(hidden), ", "))
	}
	if _, err := os.Lstat(filepath.Join(j.Worktree, ".trellis", "tasks")); errors.Is(err, fs.ErrNotExist) {
		return notes, nil // whether someone removed it is no matter: it is never committed
	}
	undone, err := r.repo.Backups().Discard(ctx, j.Worktree, r.task.backupRef(c), ".trellis/tasks")
	if undone {
		notes = append(notes, "changes below .trellis/tasks of the worktree were undone: a task lives in the main checkout")
	}
	return notes, err
}
