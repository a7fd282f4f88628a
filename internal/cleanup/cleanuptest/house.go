// Package cleanuptest provides a repository in which tasks left worktrees and branches.
package cleanuptest

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/taskdir"
)

// House is a repository in which tasks left worktrees and branches.
type House struct {
	*testing.T
	*gittest.Box
	Trees   string
	Cleaner *cleanup.Cleaner
}

// New returns a House with a first commit on main.
func New(t *testing.T, initArgs ...string) *House {
	t.Helper()
	b := gittest.Empty(t, initArgs...)
	b.Write("a.txt", "a\n")
	b.Write(".gitignore", "*.secret\nnode_modules/\n")
	b.Write(".trellis/.gitignore", ".runtime/\n.current-task\ntasks/\n")
	b.Git("add", "-A")
	b.Git("commit", "-qm", "first")
	trees := filepath.Join(filepath.Dir(b.Dir), "trees")
	now := func() time.Time { return time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC) }
	return &House{t, b, trees, &cleanup.Cleaner{Store: taskdir.Store{Root: b.Dir, Now: now}, Repo: b.Repo, Folder: trees, Copied: []string{".env"}, Now: now}}
}

// There reports whether something is at a path.
func (h *House) There(name string) bool {
	_, err := os.Lstat(h.Path(name))
	return err == nil
}

// TaskDir returns the directory of a task.
func (h *House) TaskDir(id string) string { return h.Path(".trellis/tasks/" + id) }

// Task writes a task.json with this status, a branch named after the id, and the keys of more.
func (h *House) Task(id, status string, more map[string]any) {
	h.Helper()
	t := map[string]any{"status": status, "base_branch": "main", "branch": "feature/" + id[6:], "name": id[6:]}
	maps.Copy(t, more)
	data, err := json.Marshal(t)
	if err != nil {
		h.Fatal(err)
	}
	h.Write(".trellis/tasks/"+id+"/task.json", string(data))
}

// Done creates a task in review whose worktree has one commit, as runs leave it, and returns the worktree.
func (h *House) Done(id string) string {
	h.Helper()
	base, branch := h.Git("rev-parse", "main"), "feature/"+id[6:]
	dir := filepath.Join(h.Trees, branch)
	h.Git("worktree", "add", "-q", "--no-track", "-b", branch, dir, "main")
	h.Write(dir+"/"+id+".txt", "done\n")
	h.Write(dir+"/.trellis/.runtime/task/prd.md", "a copy\n")
	h.GitIn(dir, "add", "-A")
	h.GitIn(dir, "commit", "-qm", "feat: "+id, "-m", "Trellis-Task: "+id)
	h.Task(id, "review", map[string]any{"worktree_path": dir, "commit": h.GitIn(dir, "rev-parse", "HEAD"), "pipeline": map[string]any{"base_commit": base, "attempt": 2, "outcome": "delivered"}})
	return dir
}

func (h *House) Load(id string) *taskdir.Task {
	h.Helper()
	t, err := h.Cleaner.Store.Load(h.TaskDir(id))
	if err != nil {
		h.Fatal(err)
	}
	return t
}

// Keeps checks that Remove refuses with an error that contains why, and that no ref and no worktree changes.
func (h *House) Keeps(id string, merged bool, why string) {
	h.Helper()
	before := h.Git("for-each-ref") + h.Git("worktree", "list")
	_, err := h.Cleaner.Remove(h.Context(), h.TaskDir(id), merged)
	if !errors.As(err, new(*cleanup.KeptError)) && !errors.As(err, new(*durable.HeldError)) || !strings.Contains(err.Error(), why) {
		h.Errorf("%s: got %v, want %q", id, err, why)
	}
	if after := h.Git("for-each-ref") + h.Git("worktree", "list"); after != before {
		h.Errorf("%s: it changed\n%s\nto\n%s", id, before, after)
	}
}
