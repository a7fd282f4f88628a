package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Folders of a worktree that are for agents to read and never committed.
const (
	runtimeDir  = ".trellis/.runtime"
	currentTask = ".trellis/.current-task"
)

// prepare makes the worktree on the task's branch, or finds it as it was left, and sets it up to work in.
func (a *Acts) prepare(ctx context.Context, c flow.Call, in prepareIn) (p Prepared, err error) {
	if in.Fresh {
		if p.Notes, err = a.afresh(ctx, c, in.Job); err != nil {
			return p, err
		}
	}
	if err := a.branch(ctx, in); err != nil {
		return p, err
	}
	notes, err := a.copyIn(in.Job)
	p.Notes = append(p.Notes, notes...)
	if err != nil {
		return p, err
	}
	if err := a.mark(in.Job); err != nil {
		return p, err
	}
	return p, a.setup(ctx, c, in.Job)
}

// afresh backs up what an earlier run left and takes it away.
func (a *Acts) afresh(ctx context.Context, c flow.Call, j Job) ([]string, error) {
	if _, err := os.Stat(j.Worktree); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	ref := fmt.Sprintf("refs/trellis/backup/%s/%s", filepath.Base(a.Dir), strings.ReplaceAll(c.Key()[strings.LastIndex(c.Run, "/")+1:], "#", "-"))
	if _, err := a.Repo.Backup(ctx, j.Worktree, ref, "trellis: work of "+filepath.Base(a.Dir)+" before it began afresh"); err != nil {
		return nil, flow.Fail(string(trellis.WorktreeFailed), "backing up the worktree: %v", err)
	}
	if err := a.Repo.RemoveWorktree(ctx, j.Worktree); err != nil {
		return nil, flow.Fail(string(trellis.WorktreeFailed), "%v", err)
	}
	if err := a.Repo.DeleteBranch(ctx, j.Branch); err != nil {
		return nil, flow.Fail(string(trellis.WorktreeFailed), "%v", err)
	}
	return []string{"the work so far is kept as " + ref}, nil
}

func (a *Acts) branch(ctx context.Context, in prepareIn) error {
	if err := os.MkdirAll(filepath.Dir(in.Job.Worktree), 0o755); err != nil {
		return flow.Fail(string(trellis.WorktreeFailed), "making the folder of worktrees: %v", err)
	}
	t, err := a.Store.Load(a.Dir)
	if err != nil {
		return err
	}
	own := in.Adopt || t.WorktreePath != "" && t.BranchName() == in.Job.Branch && in.Job.BaseCommit == t.Pipeline.BaseCommit
	err = a.Repo.AddWorktree(ctx, in.Job.Worktree, in.Job.Branch, in.Job.BaseCommit, own)
	var taken *git.BranchError
	if errors.As(err, &taken) {
		return flow.Fail(string(trellis.WorktreeFailed), "%v: use it with `trellis start %s --adopt-branch`, or name another with `trellis task set-branch`", err, filepath.Base(a.Dir))
	}
	if err != nil {
		return flow.Fail(string(trellis.WorktreeFailed), "%v", err)
	}
	return nil
}

// copyIn copies files that git does not have, .env say, from the main checkout.
func (a *Acts) copyIn(j Job) (notes []string, err error) {
	for _, name := range j.Setup.Copy {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return notes, flow.Fail(string(trellis.HookFailed), "worktree.copy: %s leaves the repository", name)
		}
		from, to := filepath.Join(j.Repo, filepath.FromSlash(name)), filepath.Join(j.Worktree, filepath.FromSlash(name))
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		if real, err := filepath.EvalSymlinks(from); err == nil && !within(j.Repo, real) {
			return notes, flow.Fail(string(trellis.HookFailed), "worktree.copy: %s leads out of the repository", name)
		}
		switch err := copyTree(from, to); {
		case errors.Is(err, fs.ErrNotExist):
			notes = append(notes, "worktree.copy: there is no "+name)
		case err != nil:
			return notes, flow.Fail(string(trellis.HookFailed), "copying %s: %v", name, err)
		}
	}
	return notes, nil
}

func within(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

func copyTree(from, to string) error {
	st, err := os.Stat(from)
	if err != nil {
		return err
	}
	if st.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, st.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, r); err != nil {
		return errors.Join(err, w.Close())
	}
	return w.Close()
}

// mark makes the folder for renderings, which hides itself from git, and the pointer that older agents
// look for.
func (a *Acts) mark(j Job) error {
	dir := filepath.Join(j.Worktree, filepath.FromSlash(runtimeDir))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", runtimeDir, err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o644); err != nil {
		return fmt.Errorf("hiding %s: %w", runtimeDir, err)
	}
	return os.WriteFile(filepath.Join(j.Worktree, filepath.FromSlash(currentTask)), []byte(a.Store.Rel(a.Dir)+"\n"), 0o644)
}

// setup runs the project's own commands that make a fresh worktree ready, dependencies say.
func (a *Acts) setup(ctx context.Context, c flow.Call, j Job) error {
	for i, line := range j.Setup.Run {
		res, err := a.command(ctx, c, fmt.Sprintf("setup-%d", i+1), j.Worktree, line, j.Setup.Timeout)
		if err != nil {
			return err
		}
		if res.Code != 0 {
			return flow.Fail(string(trellis.HookFailed), "worktree.setup: `%s` ended with %d: %s", line, res.Code, res.Tail)
		}
	}
	return nil
}

// discard takes away the worktree of a run that changed nothing against its base, and the branch that holds
// nothing of its own.
func (a *Acts) discard(ctx context.Context, _ flow.Call, in discardIn) (struct{}, error) {
	if err := a.Repo.RemoveWorktree(ctx, in.Job.Worktree); err != nil {
		return struct{}{}, flow.Fail(string(trellis.WorktreeFailed), "%v", err)
	}
	tip, err := a.Repo.Branch(ctx, in.Job.Branch)
	if err != nil || tip != in.Job.BaseCommit {
		return struct{}{}, err
	}
	return struct{}{}, a.Repo.DeleteBranch(ctx, in.Job.Branch)
}

// tailBytes is how much of a command's output stands in the journal.
const tailBytes = 1 << 10

// command runs one of the project's own commands in dir and keeps its output.
func (a *Acts) command(ctx context.Context, c flow.Call, name, dir, line string, limit time.Duration) (Check, error) {
	folder, err := a.folder(c)
	if err != nil {
		return Check{}, err
	}
	out := proc.NewCapped(maxOutput)
	res, err := proc.Run(ctx, proc.Command{Argv: proc.Shell(line), Dir: dir, Env: a.Environ, Stdout: out, Stderr: out, Marker: a.Marker, Wall: limit})
	if err != nil {
		return Check{}, err
	}
	text := a.redact(out.String())
	file := name + ".log"
	if err := a.Disk.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
		return Check{}, err
	}
	ref, err := a.ref(filepath.Join(folder, file), text)
	return Check{Command: line, Code: res.Code, Seconds: res.Seconds, Tail: tail(text, tailBytes), Output: ref}, err
}
