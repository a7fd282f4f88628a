package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// cleanBackups lists backups, or deletes the old ones.
func (cmd *call) cleanBackups(ctx context.Context) error {
	task := ""
	if cmd.task != "" {
		task = filepath.Base(cmd.task) // the task itself may be gone
		if dir, err := cmd.project.Find(cmd.task); err == nil {
			task = filepath.Base(dir)
		}
	}
	backups := cmd.cleaner.Backups()
	list, err := backups.List(ctx, task)
	if err != nil {
		return err
	}
	if cmd.older == "" {
		return cmd.showBackups(list)
	}
	age, err := days(cmd.older)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(b cleanup.Backup) bool { return cmd.Now().Sub(b.At) < age })
	if cmd.dryRun || len(list) == 0 {
		return cmd.showBackups(list)
	}
	question := fmt.Sprintf("delete %s for good?", text.Count(len(list), "backup"))
	switch {
	case cmd.force:
	case !cmd.CanAsk():
		return app.WithHints(app.AsKind(app.ErrUnmet, errors.New("backups are deleted for good, and there is no terminal to ask on: they stay")), "trellis cleanup --backups --older "+trellis.ShellWord(cmd.older)+" --force")
	default:
		if yes, err := cmd.Confirm(question); err != nil || !yes {
			return err
		}
	}
	if list, err = cmd.prune(ctx, backups, list); err != nil {
		return err
	}
	return cmd.showBackups(list)
}

// prune deletes backups for good. A backup whose ref has moved since it was listed stays, and is not in deleted.
func (cmd *call) prune(ctx context.Context, backups cleanup.Backups, list []cleanup.Backup) (deleted []cleanup.Backup, err error) {
	for _, b := range list {
		b, err := backups.Prune(ctx, b)
		switch {
		case errors.As(err, new(*git.MovedError)):
			cmd.Say("%v; it stays", err)
			continue
		case err != nil:
			return deleted, err
		}
		cmd.Say("deleted %s; until git gc it comes back with: git update-ref %s %s", b.Ref, b.Ref, b.Commit)
		deleted = append(deleted, b)
	}
	return deleted, nil
}

// days parses a duration in days, such as 30d, or as time.ParseDuration does.
func days(text string) (time.Duration, error) {
	if n, ok := strings.CutSuffix(text, "d"); ok {
		if d, err := strconv.ParseUint(n, 10, 16); err == nil {
			return time.Duration(d) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, app.Usagef("--older %q is not a length of time, as 30d and 12h are", text)
	}
	return d, nil
}

func (cmd *call) showBackups(list []cleanup.Backup) error {
	if cmd.json {
		return terminal.JSON(cmd.Stdout, append([]cleanup.Backup{}, list...))
	}
	if len(list) == 0 {
		cmd.Say("there are no such backups")
		return nil
	}
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "%s  %s  %s  %s of its own\n  %s\n  %s\n", r.Task, r.Attempt, r.At.Format(time.RFC3339), text.Count(r.Commits, "commit"), r.Subject, r.Restore)
	}
	_, err := io.WriteString(cmd.Stdout, trellis.Visible(b.String()))
	return err
}
