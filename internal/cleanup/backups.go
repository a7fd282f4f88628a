package cleanup

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Backup is work that was removed.
type Backup struct {
	Ref     string    `json:"ref"`
	Task    string    `json:"task"`
	Attempt string    `json:"attempt"`
	Commit  string    `json:"commit"`
	Subject string    `json:"subject"`
	At      time.Time `json:"at"`      // UTC; not before it was made
	Commits int       `json:"commits"` // how many commits nothing else has
	Restore string    `json:"restore"` // command that restores it: a branch, or the files of a task directory
}

// Backups are the backups of a repository.
type Backups struct {
	Store taskdir.Store
	Repo  *git.Repo
}

// List returns the backups of all tasks, or of one, sorted by name.
func (r Backups) List(ctx context.Context, task string) ([]Backup, error) {
	saved, err := snapshot.NewBackups(r.Repo).List(ctx, task)
	if err != nil {
		return nil, err
	}
	list := make([]Backup, len(saved))
	for i, s := range saved {
		b := Backup{Ref: s.Ref, Commit: s.Commit, Subject: s.Subject, At: s.At.UTC()}
		b.Task, b.Attempt, _ = strings.Cut(strings.TrimPrefix(s.Ref, snapshot.BackupRefs), "/")
		b.Restore = b.restoreCommand(r.Repo, b.Ref)
		if b.Commits, err = r.Repo.History().CountUnreferenced(ctx, s.Commit); err != nil {
			return nil, fmt.Errorf("looking at %s: %w", s.Ref, err)
		}
		list[i] = b
	}
	return list, nil
}

// removed takes the place of the attempt in the backup of a task directory.
const removed = "removed"

// SaveTask makes a backup of a task directory, without the record of its runs.
func (r Backups) SaveTask(ctx context.Context, dir string) (b Backup, err error) {
	b = Backup{Task: strings.TrimPrefix(filepath.Base(dir), taskdir.DraftPrefix), Attempt: removed}
	if git.CheckBranchName(b.Task) != nil { // a ref can't have such a name either
		b.Task = cmp.Or(trellis.Slug(b.Task), "task")
	}
	b.Ref = snapshot.BackupRefs + b.Task + "/" + removed
	b.Commit, err = snapshot.NewBackups(r.Repo).BackupFolder(ctx, r.Store.Rel(dir), b.Ref, "backup of "+filepath.Base(dir)+", which was removed", taskdir.Run)
	b.Restore = b.restoreCommand(r.Repo, b.Ref)
	return b, err
}

// restoreCommand returns the command that restores a backup from a ref or a commit that has it, in any folder of the repository.
func (b Backup) restoreCommand(repo *git.Repo, from string) string {
	if b.Attempt == removed || strings.HasPrefix(b.Attempt, snapshot.DirectoryBackup) {
		return fmt.Sprintf("%s restore --overlay --source %s -- :/.trellis/tasks", repo.CommandPrefix(), from)
	}
	return fmt.Sprintf("git branch restored/%s-%s %s", b.Task, strings.ReplaceAll(b.Attempt, "/", "-"), from)
}

// Prune deletes a backup for good, unless another one has taken its place. Until git collects its commit, the Backup that
// Prune returns says how to restore it.
func (r Backups) Prune(ctx context.Context, b Backup) (Backup, error) {
	if err := snapshot.NewBackups(r.Repo).DropBackup(ctx, snapshot.Backup{Ref: b.Ref, Commit: b.Commit}); err != nil {
		return b, fmt.Errorf("deleting backup %s: %w", b.Ref, err)
	}
	b.Restore = b.restoreCommand(r.Repo, b.Commit) // the ref is gone
	return b, nil
}
