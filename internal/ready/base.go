package ready

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/contextfiles"
)

// inBase tells what the commit that a worktree would begin at has. All paths are looked up at once, when the
// first is asked for: git costs more for each call than for each path.
func (c *check) inBase(ctx context.Context) func(string) (bool, error) {
	if c.Repo == nil {
		return nil
	}
	var there map[string]bool
	return func(clean string) (bool, error) {
		if there == nil {
			base, err := c.base(ctx)
			if err != nil {
				return false, err
			}
			if there, err = c.Repo.FilesAt(ctx, base, c.named()); err != nil {
				return false, fmt.Errorf("reading the base commit: %w", err)
			}
		}
		return there[clean], nil
	}
}

// base is the commit that the task's worktree begins at, or would begin at now.
func (c *check) base(ctx context.Context) (string, error) {
	switch {
	case c.task.Pipeline.BaseCommit != "":
		return c.task.Pipeline.BaseCommit, nil
	case c.task.BaseBranch != "":
		return c.Repo.Resolve(ctx, c.task.BaseBranch)
	}
	return c.Repo.Head(ctx, c.Store.Root)
}

// named are the paths that the context files name and a worktree must have.
func (c *check) named() []string {
	names, _ := contextfiles.Names(c.Dir) // contexts reports what can't be read
	var paths []string
	for _, name := range names {
		data, _ := os.ReadFile(filepath.Join(c.Dir, name))
		rows, _ := contextfiles.Parse(name, data)
		for _, r := range rows {
			if p := path.Clean(r.Path); filepath.IsLocal(p) && !strings.HasPrefix(p, ".trellis/") {
				paths = append(paths, p)
			}
		}
	}
	return paths
}
