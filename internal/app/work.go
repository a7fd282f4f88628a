package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Next returns the command to type next for a task, "" if nothing is left to do. It is returned even if the settings can't be
// read.
func (p *Project) Next(ctx context.Context, dir string) (string, error) {
	cfg, _ := p.Config()
	_, _ = p.Gate.Judge() // nor do unreadable user settings prevent it
	return p.Wire(ctx, cfg, p).Assessor().Next(ctx, dir)
}

// MergeCommand returns the command that merges the branch of a task into its base branch, wherever that is checked out.
func MergeCommand(p *Project, t *taskdir.Task) string {
	command, merge := p.Repo.CommandPrefix(), " merge "+trellis.ShellWord(t.BranchName())
	if p.Repo == nil || t.BaseBranch == "" {
		return command + merge
	}
	ctx := context.Background() // for a hint, after the command was interrupted too
	current, err := p.Repo.Refs().CurrentBranch(ctx, p.Repo.Main)
	if err != nil || current == t.BaseBranch {
		return command + merge
	}
	linked, _ := p.Repo.Worktrees().List(ctx) // without it, git says where the branch is checked out
	for _, w := range linked {
		if w.Branch == t.BaseBranch && !w.Gone {
			return "git -C " + trellis.ShellWord(w.Path) + merge
		}
	}
	return command + " switch " + trellis.ShellWord(t.BaseBranch) + " && " + command + merge
}

// TaskStatus returns the state of a task. For a task that is to run it includes the problems that would prevent the run.
func TaskStatus(ctx context.Context, p *Project, dir string) (status.Task, error) {
	t, err := p.Reader().Task(dir)
	if err != nil || t.Status != trellis.Ready && t.Status != trellis.Waiting {
		return t, err
	}
	in := p.Readiness(dir)
	in.Repo, in.Status = nil, trellis.Ready // showing a state runs no git
	problems, err := ready.Check(ctx, in)
	wrongs := trellis.Errors(problems)
	if len(wrongs) > 0 && strings.HasPrefix(t.WaitingFor, "watcher") {
		t.WaitingFor = status.ForPerson // as a watcher would report
	}
	for _, wrong := range wrongs {
		if !slices.Contains(t.Problems, wrong) {
			t.Problems = append(t.Problems, wrong)
		}
	}
	return t, err
}

// Uncommitted returns how many of these files, relative to the top of the repository, have changes to commit and are not
// ignored by git. first reports that there is no commit at all yet.
func Uncommitted(ctx context.Context, p *Project, files []string) (n int, first bool, err error) {
	if len(files) == 0 {
		return 0, false, nil
	}
	open, err := p.Repo.Index().StatusOf(ctx, p.Root, files)
	if err != nil {
		return 0, false, err
	}
	if _, err = p.Repo.Refs().Head(ctx, p.Root); errors.Is(err, git.ErrNoCommit) {
		return len(open), true, nil
	}
	return len(open), false, err
}

// Readiness returns the input for checking a task directory with everything that a run checks before it begins.
func (p *Project) Readiness(dir string) ready.Input {
	c, _ := p.Config() // its problems are reported by `trellis validate --all`, and by whoever runs something
	return ready.Input{Store: p.Store, Dir: dir, Repo: p.Repo, Begins: p.Repo, MaxSteps: c.Planning.MaxSteps, LookPath: p.Env.LookPath, CheckPackage: c.CheckPackage}
}

// Cleaner returns a cleaner with the settings cfg, which removes what tasks left behind.
func (p *Project) Cleaner(cfg *config.Config) *cleanup.Cleaner {
	return &cleanup.Cleaner{Store: p.Store, Repo: p.Repo, Folder: cfg.Worktree.Dir, Copied: cfg.Worktree.Copy, Now: p.Env.Now}
}

// Worktree returns the folder with a task's work, "" if it no longer exists.
func (p *Project) Worktree(t *taskdir.Task) string {
	dir := t.WorktreePath
	if dir == "" {
		return ""
	}
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil {
		return ""
	}
	return dir
}

// RuntimeDir creates and returns the folder for machine state of the whole repository. Git ignores its contents.
func (p *Project) RuntimeDir() (string, error) {
	dir := filepath.Join(p.Root, ".trellis", ".runtime")
	if err := p.Store.Disk.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	ignore := filepath.Join(dir, ".gitignore")
	if _, err := os.Stat(ignore); errors.Is(err, os.ErrNotExist) {
		return dir, p.Store.Disk.WriteFile(ignore, []byte("*\n"), 0o644)
	}
	return dir, nil
}

// WorkSoFar returns the progress that runs of a task made, empty if it can't be read, and whether the directory is a copy of
// the one that those runs belong to.
func WorkSoFar(store taskdir.Store, dir string) (done pipeline.Progress, copied bool) {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if copied = err == nil && ready.CopyOf(store, dir, h) != ""; err == nil && h.Flow == pipeline.Flow && !copied {
		done, _ = pipeline.ReadProgress(h) // the next run reports the error
	}
	return done, copied
}
