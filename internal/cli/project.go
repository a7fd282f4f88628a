package cli

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/status"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// project is the repository that a command works in. Commands that need one open it; the others don't pay.
type project struct {
	Repo     *git.Repo
	Root     string // the main checkout, also when trellis was called in a linked worktree
	Store    taskdir.Store
	UserFile string // the person's settings for all projects
	Settings string // the folder that those of the project are read below; "": Root

	judged *config.Files       // the settings that were judged, which count whatever stands there by now; nil: those on the disk
	judge  *trust.Judge        // see app.judge
	keys   []ed25519.PublicKey // of trust.keys, once it is there
}

// open finds the repository and checks that it can be worked with: there is a commit, and .trellis.
func (a *console) open(ctx context.Context) (*project, error) {
	p, err := a.openRepository()
	if err != nil {
		return nil, err
	}
	if _, err := p.Repo.Head(ctx, p.Root); errors.Is(err, git.ErrNoCommit) {
		return nil, app.WithHints(app.Usagef("the repository %s has no commit yet, and a task begins at one", p.Root), `git add -A && git commit -m "first commit"`)
	} else if err != nil {
		return nil, err
	}
	if st, err := os.Stat(filepath.Join(p.Root, ".trellis")); err != nil || !st.IsDir() {
		return nil, app.WithHints(app.Usagef("there is no .trellis in %s", p.Root), "trellis init")
	}
	return p, nil
}

// openRepository finds the repository alone.
func (a *console) openRepository() (*project, error) {
	repo, err := git.Open(a.Dir)
	switch {
	case errors.Is(err, git.ErrBare):
		return nil, app.WithHints(app.AsKind(app.ErrUsage, err), "git worktree add ../main && cd ../main")
	case errors.Is(err, git.ErrNoRepository):
		return nil, app.WithHints(app.AsKind(app.ErrUsage, err), "git init")
	case err != nil:
		return nil, err
	}
	repo.Env = a.Env
	p := &project{Repo: repo, Root: repo.Main, Store: taskdir.Store{Root: repo.Main, Disk: a.Disk, Now: a.Now}, UserFile: a.userFile()}
	a.news = &newsroom{a: a, p: p}
	p.Store.Changed = a.news.changed
	return p, nil
}

// find is the directory of the task that ref names: a path, a directory name, or a task's name.
func (a *console) find(p *project, ref string) (string, error) {
	if path := filepath.Join(a.Dir, ref); !filepath.IsAbs(ref) && strings.Contains(ref, "/") {
		if _, err := os.Stat(path); err == nil {
			ref = path
		}
	}
	dir, err := p.Store.Find(ref)
	var many *taskdir.AmbiguousError
	switch {
	case errors.As(err, &many):
		var names []string
		for _, c := range many.Candidates {
			names = append(names, p.Store.Rel(c))
		}
		return "", app.WithHints(app.Usagef("%q may be any of %d tasks", ref, len(names)), names...)
	case errors.Is(err, taskdir.ErrNotFound):
		return "", app.WithHints(err, "trellis list")
	}
	return dir, err
}

// taskArgument opens the project and finds the task that the first of exactly n arguments names.
func (a *console) taskArgument(c *cli.Context, n int) (*project, string, error) {
	if c.NArg() != n {
		return nil, "", command.WrongArguments(c)
	}
	p, err := a.open(c.Context)
	if err != nil {
		return nil, "", err
	}
	dir, err := a.find(p, c.Args().First())
	return p, dir, err
}

// reader reads where tasks stand. Settings that are wrong hide no task: what they do not say has its default.
func (a *console) reader(p *project) status.Reader {
	c, _ := p.config()
	return status.Reader{Store: p.Store, Merged: c.DependsOnMerged, Watcher: pulse.Look(p.Root, a.Now()), Now: a.Now()}
}
