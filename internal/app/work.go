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

// Next is the command that a person types next for a task, "" when nothing is left to do. Settings that can't be read
// hide none.
func (p *Project) Next(ctx context.Context, dir string) (string, error) {
	cfg, _ := p.Config()
	_, _ = p.Gate.Judge() // nor do those of the person
	return p.Wire(ctx, cfg, p).Assessor().Next(ctx, dir)
}

// MergeCommand returns the command that merges the branch of a task into its base branch, wherever that is checked out.
func MergeCommand(p *Project, t *taskdir.Task) string {
	command, merge := p.Repo.Typed(), " merge "+trellis.ShellWord(t.BranchName())
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

// TaskStatus is where a task stands, one that is to run with what keeps it from that, as whoever runs it would say.
func TaskStatus(ctx context.Context, p *Project, dir string) (status.Task, error) {
	t, err := p.Reader().Task(dir)
	if err != nil || t.Status != trellis.Ready && t.Status != trellis.Waiting {
		return t, err
	}
	in := p.Readiness(dir)
	in.Repo, in.Status = nil, trellis.Ready // no git for a look
	problems, err := ready.Check(ctx, in)
	wrongs := trellis.Errors(problems)
	if len(wrongs) > 0 && strings.HasPrefix(t.WaitingFor, "watcher") {
		t.WaitingFor = status.ForPerson // what a watcher would say
	}
	for _, wrong := range wrongs {
		if !slices.Contains(t.Problems, wrong) {
			t.Problems = append(t.Problems, wrong)
		}
	}
	return t, err
}

// Uncommitted is how many of these files, from the top of the repository, are to be committed: git has not got them as they are, and does
// not ignore them. first says that there is no commit at all yet.
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

// Readiness is the check of a task directory with all that a run looks at before it begins.
func (p *Project) Readiness(dir string) ready.Input {
	c, _ := p.Config() // what is wrong with it is said by `trellis validate --all`, and by whoever runs something
	return ready.Input{Store: p.Store, Dir: dir, Repo: p.Repo, Begins: p.Repo, MaxSteps: c.Planning.MaxSteps, LookPath: p.Env.LookPath, KnowsPackage: c.KnowsPackage}
}

// Cleaner removes what tasks left, with these settings.
func (p *Project) Cleaner(cfg *config.Config) *cleanup.Cleaner {
	return &cleanup.Cleaner{Store: p.Store, Repo: p.Repo, Folder: cfg.Worktree.Dir, Copied: cfg.Worktree.Copy, Now: p.Env.Now}
}

// Worktree is the folder that a task's work is in, "" when it is gone.
func (p *Project) Worktree(t *taskdir.Task) string {
	dir := t.WorktreePath
	if dir == "" {
		return ""
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(p.Root, dir)
	}
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil {
		return ""
	}
	return dir
}

// RuntimeDir is the folder of machine state of the whole repository. Git ignores what is in it.
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

// WorkSoFar is what runs of a task came to, nothing where that can't be read, and whether its directory is a copy of one whose
// runs they are.
func WorkSoFar(store taskdir.Store, dir string) (done pipeline.Progress, copied bool) {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if copied = err == nil && ready.CopyOf(store, dir, h) != ""; err == nil && h.Flow == pipeline.Flow && !copied {
		done, _ = pipeline.ReadProgress(h) // which the next run says
	}
	return done, copied
}
