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

// inBase tells what the commit that a worktree would begin at has; nil when nobody can tell. All paths are
// looked up at once: git costs more for each call than for each path.
func (c *check) inBase(ctx context.Context) func(string) (bool, error) {
	paths := c.named()
	if c.Repo == nil || len(paths) == 0 {
		return nil
	}
	var there map[string]bool
	base, err := c.base(ctx)
	if err == nil {
		there, err = c.Repo.History().FilesAt(ctx, base, paths)
	}
	if err != nil && c.baseless {
		return nil // which is said
	}
	if err != nil {
		c.at("base_branch", "trellis task set-base-branch "+trellis.ShellWord(c.As)+" BRANCH", "reading the base of the work: %v", err).Warning = true
		return nil
	}
	return func(clean string) (bool, error) { return there[clean], nil }
}

// base is the commit that the task's worktree begins at, or would begin at now.
func (c *check) base(ctx context.Context) (string, error) {
	switch {
	case c.task.Pipeline.BaseCommit != "":
		return c.task.Pipeline.BaseCommit, nil
	case c.task.BaseBranch != "":
		return c.Repo.Refs().Resolve(ctx, c.task.BaseBranch)
	}
	return c.Repo.Refs().Head(ctx, c.Store.Root)
}

// named are the paths that the context files name and a worktree must have.
func (c *check) named() []string {
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
