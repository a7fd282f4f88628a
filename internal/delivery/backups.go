package delivery

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Backup is work that was taken away.
type Backup struct {
	git.Saved
	Task, Attempt string
	Commits       int    // that nothing else has
	Restore       string // the command that brings it back as a branch
}

// Backups are those of all tasks, or of one, sorted by name.
func (c *Cleaner) Backups(ctx context.Context, task string) ([]Backup, error) {
	saved, err := c.Repo.Backups().List(ctx, task)
	if err != nil {
		return nil, err
	}
	list := make([]Backup, len(saved))
	for i, s := range saved {
		b := Backup{Saved: s}
		b.Task, b.Attempt, _ = strings.Cut(strings.TrimPrefix(s.Ref, git.BackupRefs), "/")
		b.Restore = b.restore()
		if b.Commits, err = c.Repo.History().OnlyIn(ctx, s.Commit); err != nil {
			return nil, fmt.Errorf("looking at %s: %w", s.Ref, err)
		}
		list[i] = b
	}
	return list, nil
}

// removed is what the backup of a task directory has in the place of an attempt.
const removed = "removed"

// SaveTask makes a backup of a task directory, without the record of its runs.
func (c *Cleaner) SaveTask(ctx context.Context, dir string) (b Backup, err error) {
	b = Backup{Task: strings.TrimPrefix(filepath.Base(dir), taskdir.DraftPrefix), Attempt: removed}
	if git.CheckBranchName(b.Task) != nil { // a ref can't be called so either
		b.Task = cmp.Or(trellis.Slug(b.Task), "task")
	}
	b.Ref = git.BackupRefs + b.Task + "/" + removed
	b.Commit, err = c.Repo.Backups().BackupFolder(ctx, c.Store.Rel(dir), b.Ref, "backup of "+filepath.Base(dir)+", which was removed", taskdir.Run)
	b.Restore = b.restore()
	return b, err
}

// restore is the command that brings a backup back.
func (b Backup) restore() string {
	if b.Attempt == removed {
		return fmt.Sprintf("git restore --overlay --source %s -- .trellis/tasks", b.Ref)
	}
	return fmt.Sprintf("git branch restored/%s-%s %s", b.Task, strings.ReplaceAll(b.Attempt, "/", "-"), b.Ref)
}

// Older are the backups of a list that were made at least so long ago.
func (c *Cleaner) Older(list []Backup, age time.Duration) (old []Backup) {
	for _, b := range list {
		if c.now().Sub(b.At) >= age {
			old = append(old, b)
		}
	}
	return old
}

// Prune deletes a backup for good, unless it is another one by now.
func (c *Cleaner) Prune(ctx context.Context, b Backup) error {
	if err := c.Repo.Backups().DropBackup(ctx, b.Saved); err != nil {
		return fmt.Errorf("deleting backup %s: %w", b.Ref, err)
	}
	return nil
}
