package delivery

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// module is a submodule that the work changed, at the commit that the superproject names.
type module struct {
	*git.Module
	remote      string // "" if there is none, or it isn't clear which
	folder      string // where commands for it are typed, relative to the top of the main checkout
	gitCommand  string // the git command for it, as typed at the top of the main checkout
	pushedOnTop string // commit that people pushed on top of the work in it, "" if there is none
}

// ModuleDelivery is the result of delivering the work in one submodule.
type ModuleDelivery struct {
	pipeline.ModulePR        // its URL is "" if there is no pull request
	Branch            string // has the same name as the task's branch
	Commit            string
	Into              string // branch that its pull request is for, "" if none is to be opened
	Title, Body       string

	merged bool      // Into contains the commit
	pr     *forge.PR // as it was found or created
}

type modules []module

// changedModules returns the submodules for which the work names another commit than its base does.
func (d *Deliverer) changedModules(ctx context.Context, w Work) (list modules, err error) {
	for _, path := range w.Job.Modules {
		named, err := d.Repo.Modules().ModuleCommit(ctx, w.Report.Commit, path)
		if err != nil {
			return nil, err
		}
		before, err := d.Repo.Modules().ModuleCommit(ctx, w.Job.BaseCommit, path)
		if err != nil {
			return nil, err
		}
		if named == "" || named == before && w.Report.Stacked == "" { // what another task did there may not be pushed yet
			continue
		}
		m := module{folder: path, gitCommand: "git -C " + trellis.ShellWord(path)}
		if m.Module, err = d.Repo.Modules().Module(ctx, w.Report.Commit, path); err != nil {
			return nil, err
		}
		if m.Main == m.Common { // the main checkout doesn't contain the submodule's files
			m.folder, m.gitCommand = m.Common, "git --git-dir="+trellis.ShellWord(m.Common)
		}
		if m.remote, err = m.Remotes().Remote(ctx, w.Job.BaseBranch); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// pushCommands returns the commands that push the submodules' commits.
func (list modules) pushCommands(w Work) (commands []string) {
	for _, m := range list {
		remote := m.remote
		if remote == "" {
			remote = "origin"
			commands = append(commands, m.gitCommand+" remote add origin URL")
		}
		commands = append(commands, fmt.Sprintf("%s push %s %s:refs/heads/%s", m.gitCommand, trellis.ShellWord(remote), m.Base, trellis.ShellWord(w.Job.Branch)))
	}
	return commands
}

// pushModules pushes what the work changed in submodules, each to the submodule's own remote, on a branch of the same name.
// Until all of that is pushed ready is false: nobody else could check the work out.
func (d *Deliverer) pushModules(ctx context.Context, w Work, out *Delivered) (list modules, ready bool, err error) {
	if list, err = d.changedModules(ctx, w); err != nil {
		return nil, false, d.Redact.pushFailure(ctx, w, err)
	}
	if out.Remote == "" {
		out.Commands = append(list.pushCommands(w), out.Commands...)
		return list, false, nil
	}
	for _, m := range list {
		if m.remote == "" {
			out.Commands = append(list.pushCommands(w), "trellis deliver "+trellis.ShellWord(w.Path))
			out.Notes = append(out.Notes, fmt.Sprintf("nothing was pushed: the work names commit %.12s of %s, and there is no remote to push that to", m.Base, m.Path))
			return list, false, nil
		}
	}
	for i, m := range list {
		o := git.PushOptions{Dir: m.hookDir(ctx, w), Remote: m.remote, Branch: w.Job.Branch, Commit: m.Base, Whose: w.Task}
		if list[i].pushedOnTop, err = (branches{m.Repo, d.Redact}).push(ctx, o, out); err != nil {
			w.Report.Worktree = o.Dir // where to type the commands that repair it
			return list, false, d.Redact.pushFailure(ctx, w, fmt.Errorf("pushing the submodule %s, without which nobody can check the work out: %w", m.Path, err))
		}
		out.Notes = append(out.Notes, fmt.Sprintf("branch %s of %s is at its %s, with commit %.12s", w.Job.Branch, m.Path, m.remote, m.Base))
	}
	return list, true, nil
}

// openModules finds or opens the pull requests of the pushed submodules. Where it can't open one, out gets the commands to type.
func (d *Deliverer) openModules(ctx context.Context, w Work, list modules, out *Delivered) error {
	if !w.Job.Delivery.PR {
		return nil
	}
	for _, m := range list {
		f, err := d.Forges.ForRemote(ctx, m.Repo, m.remote)
		if err != nil {
			return err
		}
		p, err := d.describePart(ctx, f, w, m, out)
		if err == nil && p.Into != "" {
			err = d.openModule(ctx, f, w, m, &p, out)
		}
		if err != nil {
			return fmt.Errorf("opening the pull request of the submodule %s: %w", m.Path, err)
		}
		if out.Parts = append(out.Parts, p); p.URL != "" {
			out.Modules = append(out.Modules, p.ModulePR)
		}
	}
	return nil
}

func (d *Deliverer) openModule(ctx context.Context, f Forge, w Work, m module, p *ModuleDelivery, out *Delivered) error {
	last := len(out.Commands) - 1 // the command that opens the pull request by hand
	known, err := ReadRecord(d.Dir)
	if err != nil {
		return err
	}
	pr, err := findOrCreate(ctx, f, forge.NewPR{Title: p.Title, Body: p.Body, Base: p.Into, Head: p.Branch, Draft: w.Job.Delivery.Draft}, []string{p.Commit, m.pushedOnTop}, known.Modules[p.Path], out)
	if pullRequestsUnavailable(err) {
		out.Notes = append(out.Notes, fmt.Sprintf("no pull request of %s was opened: %s", p.Path, d.Redact.message(err)))
		return nil
	}
	if err != nil {
		return err
	}
	out.Commands = slices.Delete(out.Commands, last, last+1)
	p.URL, p.Number, p.pr = pr.URL, pr.Number, pr
	if pr.State != forge.Open {
		out.Notes = append(out.Notes, fmt.Sprintf("pull request %d of %s was %s: no other one is opened", pr.Number, p.Path, strings.ToLower(pr.State)))
	}
	if pr.State == forge.Closed {
		out.Commands = append(out.Commands, m.inFolder(f.ReopenCommand(pr.Number)))
	}
	return d.updateRecord(func(r *Record) { r.Modules[p.Path] = p.URL })
}

// describePart describes the pull request to open for a submodule, and adds the command that does so. It is for the branch that
// the work is stacked on there, else the one in .gitmodules, else the remote's default branch.
func (d *Deliverer) describePart(ctx context.Context, f Forge, w Work, m module, out *Delivered) (p ModuleDelivery, err error) {
	p = ModuleDelivery{ModulePR: pipeline.ModulePR{Path: m.Path}, Branch: w.Job.Branch, Commit: m.Base, Title: out.Title}
	if m.remote == "" {
		return p, nil
	}
	base, tip, err := d.moduleBase(ctx, w, m, out.Remote)
	if err != nil {
		return p, err
	}
	if tip == "" {
		out.Notes = append(out.Notes, fmt.Sprintf("no pull request of %s was opened: its %s has no branch %s", m.Path, m.remote, base))
		return p, nil
	}
	if p.merged, err = contains(ctx, m.Repo, tip, m.Base); err != nil || p.merged {
		return p, err
	}
	p.Into, p.Body = base, d.Redact.hide(appendTemplate(p.section(w, w.PR), template(m.Main)))
	out.Commands = append(out.Commands, m.inFolder(f.CreateCommand(forge.NewPR{Title: p.Title, Body: "Belongs to the task " + w.Path, Base: base, Head: w.Job.Branch, Draft: w.Job.Delivery.Draft}, "")))
	return p, nil
}

// moduleBase returns the branch of a submodule's remote that the work is meant for, and its tip, "" if the branch doesn't exist.
func (d *Deliverer) moduleBase(ctx context.Context, w Work, m module, remote string) (base, tip string, err error) {
	base, err = d.Repo.Modules().ModuleBranch(ctx, w.Report.Commit, m.Path)
	switch {
	case err == nil && base == ".": // the branch with the same name as the superproject's
		base = strings.TrimPrefix(w.Job.BaseBranch, remote+"/")
	case err == nil && base == "":
		base, err = m.Remotes().RemoteHead(ctx, m.remote)
	}
	if err != nil {
		return "", "", err
	}
	tips, err := m.Remotes().RemoteBranches(ctx, m.remote, slices.DeleteFunc([]string{base, w.StackedBranch}, func(name string) bool { return name == "" })...)
	if err == nil && w.StackedBranch != "" && tips[w.StackedBranch] != "" {
		base = w.StackedBranch
	}
	return base, tips[base], err
}

// linkModules adds the superproject's pull request to the texts of the submodules' pull requests, which are to be merged first.
func (d *Deliverer) linkModules(ctx context.Context, w Work, list modules, out *Delivered) error {
	for i, m := range list {
		p := &out.Parts[i]
		if p.pr == nil || p.pr.State != forge.Open {
			continue
		}
		f, err := d.Forges.ForRemote(ctx, m.Repo, m.remote)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("pull request %d of %s", p.Number, p.Path)
		p.Body = d.Redact.updateBody(ctx, f, p.pr, name, func(int) string { return p.section(w, out.PRURL) }, out)
	}
	return nil
}

// inFolder returns command as it is typed at the top of the main checkout in order to run in the submodule.
func (m module) inFolder(command string) string {
	return "(cd " + trellis.ShellWord(m.folder) + " && " + command + ")"
}

// hookDir returns the directory in which the submodule's hook runs.
func (m module) hookDir(ctx context.Context, w Work) string {
	if w.Report.Worktree == "" {
		return m.Main
	}
	return hookDir(ctx, m.Repo, m.Dir(w.Report.Worktree))
}

// section returns our part of the text of a submodule's pull request. It doesn't say what the task is about: other people may
// read the submodule's pull requests than those of the superproject.
func (p ModuleDelivery) section(w Work, url string) string {
	if url == "" {
		url = "the branch " + code(w.Job.Branch) + " of the repository that has this one as " + code(filepath.ToSlash(p.Path))
	}
	return fmt.Sprintf("%s\nMerge this before %s, and don't squash or rebase it: commit %s is named there.\n\n- Task: %s\n%s", beginMark, url, p.Commit, code(w.Path), endMark)
}

// mention returns what the superproject's pull request says about the part.
func (p ModuleDelivery) mention() string {
	name := "the submodule " + code(p.Path)
	switch {
	case p.merged:
		return ""
	case p.pr == nil:
		return fmt.Sprintf("Merge first: branch %s of %s.\n\n", code(p.Branch), name)
	case p.pr.State != forge.Open:
		return fmt.Sprintf("%s of %s was %s.\n\n", p.URL, name, strings.ToLower(p.pr.State))
	}
	return fmt.Sprintf("Merge first: %s of %s.\n\n", p.URL, name)
}
