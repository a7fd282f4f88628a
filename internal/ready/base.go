package ready

import (
	"context"
	"path"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// inBase returns what reports whether the commit at which a worktree would begin has a path; nil if that is unknown. All
// paths are looked up at once, since git costs more for each call than for each path.
func (c *check) inBase(ctx context.Context) func(string) (bool, error) {
	paths := c.contextPaths()
	if c.Repo == nil || len(paths) == 0 {
		return nil
	}
	var there map[string]bool
	base, err := c.base(ctx)
	if err == nil {
		there, err = c.Repo.History().FilesAt(ctx, base, paths)
	}
	if err != nil && c.baseless {
		return nil // checkBase has reported that
	}
	if err != nil {
		c.addAt("base_branch", "trellis task set-base-branch "+trellis.ShellWord(c.As)+" BRANCH", "reading the base of the work: %v", err).Warning = true
		return nil
	}
	return func(clean string) (bool, error) { return there[clean], nil }
}

// base returns the commit at which the task's worktree begins, or would begin now.
func (c *check) base(ctx context.Context) (string, error) {
	switch {
	case c.task.Pipeline.BaseCommit != "":
		return c.task.Pipeline.BaseCommit, nil
	case c.task.BaseBranch != "":
		return c.Repo.Refs().Resolve(ctx, c.task.BaseBranch)
	}
	return c.Repo.Refs().Head(ctx, c.Store.Root)
}

// contextPaths returns the paths that the context files name and a worktree must have.
func (c *check) contextPaths() []string {
	names, _ := taskdir.ContextFiles(c.Dir) // contexts reports what can't be read
	var paths []string
	for _, name := range names {
		data, _ := taskdir.ReadFile(c.Dir, name)
		rows, _ := contextfiles.Parse(name, data)
		for _, r := range rows {
			if p := path.Clean(r.Path); filepath.IsLocal(p) && !strings.HasPrefix(p, ".trellis/") {
				paths = append(paths, p)
			}
		}
	}
	return paths
}
