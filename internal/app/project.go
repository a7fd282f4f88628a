package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Project is the repository to work in, with the settings that are in force there.
type Project struct {
	Env      *Env
	Repo     *git.Repo
	Root     string // the main checkout, even if Env.Dir is in a linked worktree
	Store    taskdir.Store
	Settings Settings
	Gate     *TrustGate
	News     *Notifications
	Traces   *Traces

	sharedRemote string // the remote that a person named for sharing tasks, "" if none
}

// Open finds the repository and checks that it is usable: that it has a commit and a .trellis folder.
func (e *Env) Open(ctx context.Context) (*Project, error) {
	p, err := e.OpenRepository()
	if err != nil {
		return nil, err
	}
	if _, err := p.Repo.Refs().Head(ctx, p.Root); errors.Is(err, git.ErrNoCommit) {
		return nil, WithHints(Usagef("the repository %s has no commit yet, and a task begins at one", p.Root), `git add -A && git commit -m "first commit"`)
	} else if err != nil {
		return nil, err
	}
	if err := durable.FolderBelow(p.Root, ".trellis"); errors.Is(err, fs.ErrNotExist) {
		return nil, WithHints(Usagef("there is no .trellis in %s", p.Root), "trellis init")
	} else if err != nil {
		return nil, trellis.UnreadableProblem(".trellis", err)
	}
	return p, nil
}

// OpenRepository finds the repository without those checks.
func (e *Env) OpenRepository() (*Project, error) {
	repo, err := git.Open(e.Dir)
	var bare *git.BareError
	switch {
	case errors.As(err, &bare):
		beside := strings.TrimSuffix(strings.TrimSuffix(bare.GitDir, "/.git"), ".git") + "-checkout"
		return nil, WithHints(AsKind(ErrUsage, err), fmt.Sprintf("git clone %s %s && cd %[2]s", trellis.ShellWord(bare.GitDir), trellis.ShellWord(beside)))
	case errors.Is(err, git.ErrBare):
		return nil, AsKind(ErrUsage, err)
	case errors.Is(err, git.ErrNoRepository):
		return nil, WithHints(AsKind(ErrUsage, err), "git init")
	case err != nil:
		return nil, err
	}
	repo.Env = e.Vars
	store := taskdir.Store{Root: repo.Main, Disk: e.Disk, Now: e.Now}
	p := &Project{Env: e, Repo: repo, Root: repo.Main, Store: store, Settings: Settings{Root: repo.Main, UserFile: e.UserFile()}, Gate: &TrustGate{env: e, repo: repo, store: store}}
	p.Store.CheckChange = SharingOf(p).checkChange
	p.News, p.Traces = &Notifications{p: p}, &Traces{env: e}
	p.Store.Changed = p.News.notifyChange
	return p, nil
}

// Find returns the directory of the task that ref names: a path, a directory name, or a task's name.
func (p *Project) Find(ref string) (string, error) {
	typed := ref
	if path := filepath.Join(p.Env.Dir, ref); !filepath.IsAbs(ref) && strings.Contains(ref, "/") {
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
		return "", WithHints(Usagef("%q may be any of %d tasks", ref, len(names)), names...)
	case errors.Is(err, taskdir.ErrNotFound):
		if mayBeSteps(p, ref) {
			return "", WithHints(&noTaskError{fmt.Sprintf("%q is a file, and no task", typed), err}, "trellis run "+trellis.ShellWord(typed)+" --dry-run")
		}
		if runner.IsRunID(ref) {
			return "", WithHints(&noTaskError{ref + " is the id of a run of a file, and no task", err}, "trellis status "+trellis.ShellWord(ref))
		}
		if near := nearTasks(p.Store, ref); len(near) > 0 {
			err = &noTaskError{fmt.Sprintf("no task %q; did you mean %s?", ref, strings.Join(near, " or ")), err}
		}
		return "", WithHints(err, "trellis list")
	}
	return dir, err
}

// mayBeSteps reports whether ref is a file that could be a file of steps, which has a different command than tasks.
func mayBeSteps(p *Project, ref string) bool {
	if !filepath.IsAbs(ref) {
		ref = filepath.Join(p.Env.Dir, ref)
	}
	st, err := os.Stat(ref)
	return err == nil && st.Mode().IsRegular() && slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(ref)) && !strings.HasPrefix(ref, p.Store.Tasks())
}

// noTaskError is the error for a task that doesn't exist, naming what may be meant.
type noTaskError struct {
	text string
	err  error
}

func (e *noTaskError) Error() string { return e.text }
func (e *noTaskError) Unwrap() error { return e.err }

// minPartLength is the minimum length of a part of a name that finds tasks, maxPartMatches the maximum number of matches.
const minPartLength, maxPartMatches = 3, 4

// nearTasks returns the task whose directory, or name without the day, is spelled almost like ref, or else those whose name
// contains ref. It returns none if too many match.
func nearTasks(store taskdir.Store, ref string) []string {
	entries, err := os.ReadDir(store.Tasks())
	if err != nil {
		return nil // reported by whoever reads the task
	}
	ref = strings.ToLower(strings.TrimRight(ref, "/"))
	var names, parts []string
	dirs := map[string]string{}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && e.Name() != "archive" {
			_, name := taskdir.SplitID(e.Name())
			names = append(names, name, e.Name())
			dirs[name], dirs[e.Name()] = e.Name(), e.Name()
			if len(ref) >= minPartLength && strings.Contains(e.Name(), ref) {
				parts = append(parts, e.Name())
			}
		}
	}
	if near := dirs[trellis.Nearest(ref, names)]; near != "" {
		return []string{near}
	}
	if len(parts) > maxPartMatches {
		return nil
	}
	return parts
}

// Reader returns a reader of the state of tasks. Invalid settings hide no task: defaults replace them.
func (p *Project) Reader() status.Reader {
	c, _ := p.Config()
	r := status.Reader{Store: p.Store, Merged: c.DependsOnMerged, Watcher: pulse.Look(p.Root, p.Env.Now()), Now: p.Env.Now()}
	r.Approvers = c.Planning.Approvers
	r.Agreement = func(dir string) (g pipeline.Agreement) {
		if _, err := p.Gate.Judge(); err != nil { // the judge loads the keys whose decisions count
			return g
		}
		g, err := p.Wire(context.Background(), c, p).Approvals().Agreement(dir)
		if err != nil {
			return pipeline.Agreement{}
		}
		return g
	}
	SharingOf(p).addToReader(&r)
	return r
}

// Developer returns the name of who works below root, as written by `trellis init -u`; "" if there is none.
func Developer(root string) (string, error) {
	data, err := durable.ReadBelow(root, ".trellis/.developer", durable.MaxDocument)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading who works here: %w", err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	if key, value, ok := strings.Cut(first, "="); ok && strings.TrimSpace(key) == "name" { // the format of earlier versions
		first = value
	}
	return strings.TrimSpace(first), nil
}
