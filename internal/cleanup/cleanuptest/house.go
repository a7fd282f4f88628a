// Package cleanuptest has a repository in which tasks left things.
package cleanuptest

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/taskdir"
)

// House is a repository in which tasks left things.
type House struct {
	*testing.T
	Dir, Trees string
	Cleaner    *cleanup.Cleaner
}

// New makes one with a first commit on main.
func New(t *testing.T, initArgs ...string) *House {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &House{T: t, Dir: filepath.Join(root, "repo"), Trees: filepath.Join(root, "trees")}
	h.Write("a.txt", "a\n")
	h.Write(".gitignore", "*.secret\nnode_modules/\n")
	h.Write(".trellis/.gitignore", ".runtime/\n.current-task\ntasks/\n")
	h.Git(append([]string{"init", "-q", "-b", "main"}, initArgs...)...)
	h.Git("add", "-A")
	h.Git("commit", "-qm", "first")
	repo, err := git.Open(h.Dir)
	if err != nil {
		t.Fatal(err)
	}
	repo.Env = h.Env()
	now := func() time.Time { return time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC) }
	h.Cleaner = &cleanup.Cleaner{Store: taskdir.Store{Root: h.Dir, Now: now}, Repo: repo, Folder: h.Trees, Copied: []string{".env"}, Now: now}
	return h
}

// Env is the environment of its commands.
func (h *House) Env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(h.Dir), "TMPDIR=" + h.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.org", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.org"}
}

// At runs git in a folder.
func (h *House) At(dir string, args ...string) string {
	h.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, h.Env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Git runs git in the main checkout.
func (h *House) Git(args ...string) string { h.Helper(); return h.At(h.Dir, args...) }

// Path is below the main checkout, unless it is absolute.
func (h *House) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(h.Dir, filepath.FromSlash(name))
}

// Write writes a file, with the folders that it is in.
func (h *House) Write(name, text string) {
	h.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(h.Path(name)), 0o755), os.WriteFile(h.Path(name), []byte(text), 0o644)); err != nil {
		h.Fatal(err)
	}
}

// There reports whether something is at a path.
func (h *House) There(name string) bool {
	_, err := os.Lstat(h.Path(name))
	return err == nil
}

// TaskDir is the directory of a task.
func (h *House) TaskDir(id string) string { return h.Path(".trellis/tasks/" + id) }

// Task writes a task.json: status, branch and whatever else.
func (h *House) Task(id, status string, more map[string]any) {
	h.Helper()
	t := map[string]any{"status": status, "base_branch": "main", "branch": "feature/" + id[6:], "name": id[6:]}
	for key, value := range more {
		t[key] = value
	}
	data, err := json.Marshal(t)
	if err != nil {
		h.Fatal(err)
	}
	h.Write(".trellis/tasks/"+id+"/task.json", string(data))
}

// Done makes a task in review whose worktree has one commit, as runs leave it, and returns the worktree.
func (h *House) Done(id string) string {
	h.Helper()
	base, branch := h.Git("rev-parse", "main"), "feature/"+id[6:]
	dir := filepath.Join(h.Trees, branch)
	h.Git("worktree", "add", "-q", "--no-track", "-b", branch, dir, "main")
	h.Write(dir+"/"+id+".txt", "done\n")
	h.Write(dir+"/.trellis/.runtime/task/prd.md", "a copy\n")
	h.At(dir, "add", "-A")
	h.At(dir, "commit", "-qm", "feat: "+id, "-m", "Trellis-Task: "+id)
	h.Task(id, "review", map[string]any{"worktree_path": dir, "commit": h.At(dir, "rev-parse", "HEAD"), "pipeline": map[string]any{"base_commit": base, "attempt": 2, "outcome": "delivered"}})
	return dir
}

// Load reads a task.
func (h *House) Load(id string) *taskdir.Task {
	h.Helper()
	t, err := h.Cleaner.Store.Load(h.TaskDir(id))
	if err != nil {
		h.Fatal(err)
	}
	return t
}

// Keeps makes sure that nothing of a task is taken away.
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
