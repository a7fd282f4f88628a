package git

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Modules finds and fetches submodules.
type Modules struct{ repo *Repo }

// Module is a submodule as Trellis works in it. Its repository is that of the submodule in the main checkout; the submodule in a
// worktree is a worktree of that repository, so that its branches and backups outlive the superproject's worktree. The methods are
// those of any repository; dir is where the submodule is checked out.
type Module struct {
	*Repo
	Path string // in the checkout, slash-separated
	Base string // commit that the superproject records for it
}

// Dir returns the submodule's folder in a checkout of the superproject.
func (m *Module) Dir(checkout string) string {
	return filepath.Join(checkout, filepath.FromSlash(m.Path))
}

// Module returns the submodule that a commit has at path, and makes sure that its repository exists and has that submodule commit:
// it is the main checkout's, or is fetched into the place where git expects it. The network is used only for missing objects. The
// error contains git's message.
func (r Modules) Module(ctx context.Context, commit, path string) (*Module, error) {
	m, err := r.module(ctx, commit, path)
	if err != nil {
		return nil, fmt.Errorf("finding the submodule %s: %w", path, err)
	}
	return m, nil
}

func (r Modules) module(ctx context.Context, commit, path string) (*Module, error) {
	base, err := r.ModuleCommit(ctx, commit, path)
	if err != nil {
		return nil, err
	}
	if base == "" {
		return nil, fmt.Errorf("%w: there is no submodule %s in %s", ErrNotFound, path, commit)
	}
	m := &Module{Path: path, Base: base}
	if m.Repo, err = r.moduleRepo(ctx, commit, path); err != nil {
		return nil, err
	}
	m.Env = r.commitEnv(ctx, m.Repo)
	if there, err := m.Modules().Has(ctx, base); err != nil || there {
		return m, err
	}
	return m, m.fetch(ctx, base)
}

// ModuleCommit returns the commit that a commit records for the submodule at path, "" if there is no submodule.
func (r Modules) ModuleCommit(ctx context.Context, commit, path string) (string, error) {
	return r.GitlinkIn(ctx, Command{Dir: r.repo.Main}, commit, path)
}

// GitlinkIn returns the commit that a commit or a tree records for the submodule at path, "" if there is no submodule.
func (r Modules) GitlinkIn(ctx context.Context, c Command, tree, path string) (string, error) {
	list, err := r.repo.lsTree(ctx, c, tree, nil, path)
	if len(list) > 0 && list[0].mode == gitlinkMode {
		return hex.EncodeToString(list[0].hash), err
	}
	return "", err
}

// ModuleBranch returns the branch that .gitmodules of a commit names for the submodule at path: "" for none, "." for one with the
// name of the superproject's branch.
func (r Modules) ModuleBranch(ctx context.Context, commit, path string) (string, error) {
	name, err := r.moduleName(ctx, commit, path)
	if err != nil {
		return "", err
	}
	const none = 1
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"config", "--blob", commit + ":.gitmodules", "--get", "submodule." + name + ".branch"}, Accept: []int{none}})
	return strings.TrimSpace(out), err
}

// moduleRepo returns the repository of the submodule at path, after fetching it if it is missing.
func (r Modules) moduleRepo(ctx context.Context, commit, path string) (*Repo, error) {
	if sub, err := openAt(filepath.Join(r.repo.Main, filepath.FromSlash(path))); err != nil || sub != nil {
		return sub, err
	}
	name, err := r.moduleName(ctx, commit, path)
	if err != nil {
		return nil, err
	}
	common := filepath.Join(r.repo.Common, "modules", filepath.FromSlash(name))
	if !isGitDir(common) {
		if err := r.repo.withLock(ctx, func() error { return r.fetchModule(ctx, name, path, common) }); err != nil {
			return nil, err
		}
	}
	return r.moduleAt(common)
}

// moduleName returns the name of the submodule at path in .gitmodules of a commit.
func (r Modules) moduleName(ctx context.Context, commit, path string) (string, error) {
	const none = 1
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"config", "-z", "--blob", commit + ":.gitmodules", "--get-regexp", `^submodule\..*\.path$`}, Accept: []int{none}})
	if err != nil {
		return "", err
	}
	for entry := range strings.SplitSeq(out, "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		name := strings.TrimSuffix(strings.TrimPrefix(key, "submodule."), ".path")
		if value == path && filepath.IsLocal(filepath.FromSlash(name)) {
			return name, nil
		}
	}
	return "", fmt.Errorf("%w: .gitmodules of %s has no submodule at %s", ErrNotFound, commit, path)
}

// fetchModule creates the repository of a submodule as git does, except for a checkout in the main one, which nobody asked for. It
// appears atomically.
func (r Modules) fetchModule(ctx context.Context, name, path, common string) error {
	if isGitDir(common) {
		return nil
	}
	if err := r.repo.Do(ctx, Command{Dir: r.repo.Main, Args: []string{"submodule", "--quiet", "init", "--", path}, Write: true}); err != nil {
		return err
	}
	url, err := r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: []string{"config", "--get", "submodule." + name + ".url"}})
	if err != nil {
		return err
	}
	temp := common + ".trellis"
	if err := os.RemoveAll(temp); err != nil { // of a call that was cut off
		return err
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--", temp},
		{"--git-dir=" + temp, "config", "core.bare", "false"},
		{"--git-dir=" + temp, "remote", "add", "origin", url},
		{"--git-dir=" + temp, "fetch", "--quiet", "origin"},
	} {
		if err := r.repo.Do(ctx, Command{Dir: r.repo.Main, Args: args, Write: true, Once: true}); err != nil {
			return errors.Join(err, os.RemoveAll(temp))
		}
	}
	return os.Rename(temp, common)
}

// Has reports whether the repository has a commit.
func (r Modules) Has(ctx context.Context, commit string) (bool, error) {
	const gone, broken = 1, 128
	_, code, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"cat-file", "-e", commit + "^{commit}"}, Accept: []int{gone, broken}})
	return code == 0, err
}

// fetch fetches a commit from origin.
func (m *Module) fetch(ctx context.Context, commit string) error {
	get := func(what ...string) error {
		args := append([]string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "origin"}, what...)
		return m.Do(ctx, Command{Dir: m.Main, Args: args, Write: true, Once: true})
	}
	err := get()
	if there, hasErr := m.Modules().Has(ctx, commit); err != nil || hasErr != nil || there {
		return errors.Join(err, hasErr)
	}
	return get(commit) // no branch contains it any more
}

// commitEnv returns the environment for commits in a submodule: with the identity of the superproject, unless the submodule's own
// settings have one.
func (r Modules) commitEnv(ctx context.Context, sub *Repo) []string {
	env := r.repo.Env
	if env == nil {
		env = os.Environ()
	}
	sub.Allow = r.repo.Allow
	sub.Env = env
	if _, err := sub.Author().Identity(ctx); err == nil {
		return env
	}
	who, err := r.repo.Author().Identity(ctx)
	if err != nil {
		return env
	}
	name, mail, _ := strings.Cut(strings.TrimSuffix(who, ">"), " <")
	return append(env[:len(env):len(env)], "GIT_AUTHOR_NAME="+name, "GIT_AUTHOR_EMAIL="+mail, "GIT_COMMITTER_NAME="+name, "GIT_COMMITTER_EMAIL="+mail)
}

// moduleAt returns the repository of a submodule whose git directory is given. Its Main is the submodule in the main checkout, or
// the git directory itself if the submodule is not checked out there.
func (r Modules) moduleAt(common string) (*Repo, error) {
	common, err := filepath.EvalSymlinks(common)
	if err != nil {
		return nil, err
	}
	sub := &Repo{Main: common, Common: common, Env: r.repo.Env, Allow: r.repo.Allow}
	c, err := ReadConfig(common)
	if err != nil || c.worktree == "" {
		return sub, err
	}
	if at, err := openAt(AbsFrom(common, c.worktree)); err == nil && at != nil && at.Common == common {
		sub.Main = at.Main
	}
	return sub, nil
}

// Worktrees returns the submodules of a checkout that are worktrees, as Trellis creates them; see [Module].
func (r Modules) Worktrees(ctx context.Context, dir string) (list []Module, err error) {
	dir = resolvedPath(dir)
	err = r.eachModule(func(sub *Repo) error {
		found, err := modulesIn(ctx, sub, dir)
		list = append(list, found...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking for submodules of %s: %w", dir, err)
	}
	return list, nil
}

// eachModule calls do with the repository of each submodule that exists here, checked out or not.
func (r Modules) eachModule(do func(sub *Repo) error) error {
	root := filepath.Join(r.repo.Common, "modules")
	if _, err := os.Lstat(root); errors.Is(err, fs.ErrNotExist) {
		return nil // as in most repositories
	}
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() || !isGitDir(path) {
			return err
		}
		sub, err := r.moduleAt(path)
		if err == nil {
			err = do(sub)
		}
		if err != nil {
			return err
		}
		return fs.SkipDir // submodules of submodules are not worked in
	})
}

// modulesIn returns the worktrees of a submodule's repository that are in dir.
func modulesIn(ctx context.Context, sub *Repo, dir string) (list []Module, err error) {
	all, err := sub.Worktrees().List(ctx)
	for _, w := range all {
		if rel, relErr := filepath.Rel(dir, w.Path); relErr == nil && rel != "." && filepath.IsLocal(rel) {
			list = append(list, Module{Repo: sub, Path: filepath.ToSlash(rel)})
		}
	}
	return list, err
}

// removeWorktrees removes the worktrees of submodules that are in a worktree at path. Their branches stay.
func (r Modules) removeWorktrees(ctx context.Context, path string) error {
	list, err := r.Worktrees(ctx, path)
	for _, m := range list {
		if err == nil {
			err = m.Worktrees().Remove(ctx, m.Dir(path))
		}
	}
	return err
}

// Below returns those of the paths that are in the submodule, relative to it.
func (m *Module) Below(paths []string) (list []string) {
	for _, p := range paths {
		if rest, ok := strings.CutPrefix(p, m.Path+"/"); ok {
			list = append(list, rest)
		}
	}
	return list
}
