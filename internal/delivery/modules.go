package delivery

import (
	"context"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/git"
)

// module is a submodule that the work changed, at the commit that it names.
type module struct {
	*git.Module
	remote string // "" when there is none, or nobody can tell which
	at     string // what makes git work in it, as typed at the top of the main checkout
}

type modules []module

// modules are those in which the work names a commit that its base does not.
func (d *Deliverer) modules(ctx context.Context, w Work) (list modules, err error) {
	for _, path := range w.Modules {
		named, err := d.Repo.ModuleCommit(ctx, w.Commit, path)
		if err != nil {
			return nil, err
		}
		before, err := d.Repo.ModuleCommit(ctx, w.BaseCommit, path)
		if err != nil {
			return nil, err
		}
		if named == "" || named == before && w.StackedOn == "" { // what another task did there may not be pushed yet
			continue
		}
		m := module{at: "git -C " + word(path)}
		if m.Module, err = d.Repo.Module(ctx, w.Commit, path); err != nil {
			return nil, err
		}
		if m.Main == m.Common { // the main checkout has no files of it
			m.at = "git --git-dir=" + word(m.Common)
		}
		if m.remote, err = m.Remote(ctx, w.Base); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// pushes are the commands that push them.
func (list modules) pushes(w Work) (commands []string) {
	for _, m := range list {
		remote := m.remote
		if remote == "" {
			remote = "origin"
			commands = append(commands, m.at+" remote add origin URL")
		}
		commands = append(commands, fmt.Sprintf("%s push %s %s:refs/heads/%s", m.at, word(remote), m.Base, word(w.Branch)))
	}
	return commands
}

// pushModules pushes what the work has in submodules, each to the submodule's own remote, on a branch of the same name.
// Before all of it is there the work is not ready to be pushed: nobody else could check it out.
func (d *Deliverer) pushModules(ctx context.Context, w Work, out *Delivered) (ready bool, err error) {
	list, err := d.modules(ctx, w)
	if err != nil {
		return false, d.pushFailure(ctx, err)
	}
	if out.Remote == "" {
		out.Commands = append(list.pushes(w), out.Commands...)
		return false, nil
	}
	for _, m := range list {
		if m.remote == "" {
			out.Commands = append(list.pushes(w), "trellis deliver "+word(w.Path))
			out.Notes = append(out.Notes, fmt.Sprintf("nothing was pushed: the work names commit %.12s of %s, and there is no remote to push that to", m.Base, m.Path))
			return false, nil
		}
	}
	for _, m := range list {
		o := git.PushOptions{Dir: m.checkout(w), Remote: m.remote, Branch: w.Branch, Commit: m.Base, Whose: w.Task}
		if _, err := m.Push(ctx, o); err != nil {
			return false, d.pushFailure(ctx, fmt.Errorf("pushing the submodule %s, without which nobody can check the work out: %w", m.Path, err))
		}
		out.Notes = append(out.Notes, fmt.Sprintf("branch %s of %s is at its %s, with commit %.12s", w.Branch, m.Path, m.remote, m.Base))
		if d.PR {
			out.Notes = append(out.Notes, fmt.Sprintf("Trellis opens no pull request of %s: merge that one first", m.Path))
			out.Commands = append(out.Commands, fmt.Sprintf("(cd %s && gh pr create --head %s)", word(m.Path), word(w.Branch)))
		}
	}
	return true, nil
}

// checkout is where the submodule's hook runs, see [Deliverer.checkout].
func (m module) checkout(w Work) string {
	if w.Worktree != "" {
		dir := m.Dir(w.Worktree)
		if _, err := m.Head(context.Background(), dir); err == nil {
			return dir
		}
	}
	return m.Main
}
