package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Folders of a worktree that are for agents to read and never committed.
const (
	runtimeDir  = ".trellis/.runtime"
	currentTask = ".trellis/.current-task"
)

// prepare makes the worktree on the task's branch, or finds it as it was left, sets it up to work in, and makes
// sure of what must hold before the work.
func (pp *preparer) prepare(ctx context.Context, c flow.Call, in prepareIn) (p Prepared, err error) {
	if in.Fresh {
		if err := pp.worktrees.checkOwner(ctx, c, in); err != nil {
			return p, err
		}
		if p.Notes, err = pp.worktrees.backUpAndRemove(ctx, c, in.Job); err != nil {
			return p, err
		}
	}
	_, missing := pp.repo.Made(in.Job.Worktree)
	if p.Notes, err = pp.worktrees.resumeUpdate(ctx, c, in, p.Notes); err != nil {
		return p, err
	}
	made, err := pp.repo.Made(in.Job.Worktree)
	if err != nil {
		return p, pp.guard.explain(err)
	}
	pp.guard.Made(&made)
	p.Made = &made
	before := in.Borrowed
	if in.Fresh {
		before = nil
	}
	if p.Borrowed, err = pp.guard.beginObjects(before); err != nil {
		return p, err
	}
	if missing == nil { // else its trees were hashed when it was made
		if err := pp.repo.VerifyTrees(ctx, in.Job.BaseCommit); err != nil {
			return p, pp.guard.explain(err)
		}
	}
	if p.Hooks = in.Hooks; p.Hooks == nil || in.Fresh {
		if p.Hooks, err = pp.repo.HookState(in.Job.Worktree); err != nil {
			return p, err
		}
	}
	pp.guard.Hooks(p.Hooks)
	if ctx, err = pp.guard.confine(ctx, in.Job.BaseCommit); err != nil {
		return p, err
	}
	if err := pp.modules.enter(ctx, in); err != nil {
		return p, err
	}
	if p.Lost, err = pp.worktrees.lost(ctx, in); err != nil {
		return p, err
	}
	settled, err := pp.restorer.finishEarlier(ctx, c, in)
	if err != nil {
		return p, err
	}
	notes, err := pp.setup.copyFiles(ctx, in.Job)
	p.Notes = append(append(p.Notes, settled...), notes...)
	if why := pp.box.Lacking(ctx); why != "" {
		p.Notes = append(p.Notes, "agents and commands ran without a sandbox: "+why)
	}
	if err != nil {
		return p, err
	}
	if err := pp.setup.writePointer(in.Job); err != nil {
		return p, err
	}
	if err := pp.setup.runCommands(ctx, c, in.Job); err != nil {
		return p, err
	}
	if p.Footing, err = pp.environment.fingerprint(ctx, in.Job); err != nil || in.Begun {
		return p, err
	}
	p.Results, err = pp.checkPreconditions(ctx, c, in.Job)
	return p, err
}

// lost reports whether the worktree of an earlier run was taken away, with work that was not committed: in the new one
// no phase has been, and nothing is on its branch.
func (wt *worktrees) lost(ctx context.Context, in prepareIn) (bool, error) {
	if _, err := os.Stat(filepath.Join(in.Job.Worktree, filepath.FromSlash(runtimeDir), "task")); !in.Begun || err == nil || in.Job.Clash != nil {
		return false, nil
	}
	tip, err := wt.repo.Branch(ctx, in.Job.Branch)
	return tip == in.Job.BaseCommit, err
}

// backUpAndRemove backs up what an earlier run left, worktree and branch, and takes it away. Each step looks for
// itself what there is, since the one before may have been the last before a crash.
func (wt *worktrees) backUpAndRemove(ctx context.Context, c flow.Call, j Job) (notes []string, err error) {
	ref := wt.task.backupRef(c)
	if err := wt.repo.EndUpdate(ctx, filepath.Base(wt.task.dir)); err != nil {
		return nil, err
	}
	failed := func(what string, err error) ([]string, error) {
		return notes, flow.Fail(string(trellis.WorktreeFailed), "%s: %v", what, err)
	}
	if _, err := os.Stat(j.Worktree); err == nil {
		if _, err := wt.repo.Backup(ctx, j.Worktree, ref, "trellis: work of "+filepath.Base(wt.task.dir)+" that was taken away"); err != nil {
			return failed("backing up the worktree", err)
		}
		notes = append(notes, "the work so far is kept as "+ref)
		if err := wt.repo.RemoveWorktree(ctx, j.Worktree); err != nil {
			return failed("removing the worktree", err)
		}
	}
	kept, err := wt.modules.remove(ctx, j, ref+"-branch")
	if notes = append(notes, kept...); err != nil {
		return failed("backing up submodules", err)
	}
	tip, err := wt.repo.Branch(ctx, j.Branch)
	if err != nil || tip == "" {
		return notes, err
	}
	if tip != j.BaseCommit {
		if _, err := wt.repo.Keep(ctx, j.Branch, ref+"-branch"); err != nil {
			return failed("backing up the branch", err)
		}
		notes = append(notes, "the branch so far is kept as "+ref+"-branch")
	}
	if err := wt.repo.DeleteBranch(ctx, j.Branch); err != nil {
		return failed("deleting the branch", err)
	}
	return notes, nil
}

// makeWorktree makes the worktree on the task's branch, or finds it.
func (wt *worktrees) makeWorktree(ctx context.Context, c flow.Call, in prepareIn) error {
	if err := os.MkdirAll(filepath.Dir(in.Job.Worktree), 0o755); err != nil {
		return flow.Fail(string(trellis.WorktreeFailed), "making the folder of worktrees: %v", err)
	}
	own, err := ownBranch(ctx, wt.repo, in, wt.task.id())
	if err != nil {
		return err
	}
	n := git.NewWorktree{Path: in.Job.Worktree, Branch: in.Job.Branch, Base: in.Job.BaseCommit, Adopt: own, Owner: wt.task.id(),
		Takes: func(owner string) bool { return wt.mayAdopt(c, in, owner, own) }}
	if err = wt.repo.AddWorktree(ctx, n); errors.As(err, new(*git.PathError)) && wt.leftBranch(ctx, in) {
		if _, err = wt.repo.Reattach(ctx, in.Job.Worktree, in.Job.Branch, in.Job.BaseCommit, wt.task.backupRef(c)+"-strayed"); err == nil {
			err = wt.repo.AddWorktree(ctx, n)
		}
	}
	return wt.failure(in.Job.Worktree, err)
}

// failure is the failure of a worktree that can't be made.
func (wt *worktrees) failure(worktree string, err error) error {
	var taken *git.BranchError
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*git.SwappedError)):
		return wt.guard.explain(err)
	case !errors.As(err, &taken):
		return flow.Fail(string(trellis.WorktreeFailed), "%v", err)
	}
	if taken.Owner == "" {
		taken.Owner = wt.claimedBy(worktree)
	}
	if taken.Owner != "" {
		return flow.Fail(string(trellis.WorktreeFailed), "making a worktree: %v: name another branch with `trellis task set-branch %s BRANCH`", taken, wt.task.id())
	}
	return flow.Fail(string(trellis.WorktreeFailed), "%v: use it with `trellis start %s --adopt-branch`, or name another with `trellis task set-branch`", err, wt.task.id())
}

// id is the task's directory name.
func (d *taskDir) id() string { return filepath.Base(d.dir) }

// mayAdopt reports whether a worktree that was made for nobody (an older Trellis made it, or one that was cut off before it
// could write that down), or for a task that is no longer there, is this task's: an earlier run, or an earlier entry of
// this call, was here, its pointer names the task, its branch has the task's commits, or a person said so. It is not when
// another task names it.
func (wt *worktrees) mayAdopt(c flow.Call, in prepareIn, owner string, ownBranch bool) bool {
	if owner != "" && wt.isTask(owner) || wt.claimedBy(in.Job.Worktree) != "" {
		return false
	}
	return ownBranch || in.Begun || c.Attempt > 1 || wt.namesTask(in.Job.Worktree)
}

// checkOwner is a failure when the worktree at the task's place is another's.
func (wt *worktrees) checkOwner(ctx context.Context, c flow.Call, in prepareIn) error {
	all, err := wt.repo.Worktrees(ctx)
	for _, w := range all {
		if !w.At(in.Job.Worktree) || w.Gone || w.HalfMade() {
			continue
		}
		if err := wt.repo.Check(w); err != nil {
			return wt.guard.explain(err)
		}
		if by := w.Owner(); by != wt.task.id() && !wt.mayAdopt(c, in, by, false) {
			return wt.failure(in.Job.Worktree, &git.BranchError{Branch: in.Job.Branch, Taken: in.Job.Branch, Worktree: w.Path, Owner: by})
		}
	}
	return err
}

// isTask reports whether there is, or was, a task of that name. One that can't be looked for may be there.
func (wt *worktrees) isTask(id string) bool {
	if _, err := os.Lstat(filepath.Join(wt.store.Tasks(), filepath.Base(id))); err == nil {
		return true
	}
	archived, err := wt.store.Archived(id)
	return archived || err != nil
}

// claimedBy is another task whose task.json names the worktree, "" for none.
func (wt *worktrees) claimedBy(worktree string) string {
	entries, _ := wt.store.List() // what can't be read names nothing
	for _, e := range entries {
		if e.Task != nil && e.Task.ID != wt.task.id() && e.Task.WorktreePath == worktree && e.Task.Status != trellis.Completed {
			return e.Task.ID
		}
	}
	return ""
}

// namesTask reports whether the pointer that mark leaves in a worktree names the task.
func (wt *worktrees) namesTask(worktree string) bool {
	const long = 1 << 10
	data, err := durable.ReadBelow(worktree, currentTask, long)
	return err == nil && strings.TrimSpace(string(data)) == wt.store.Rel(wt.task.dir)
}

// leftBranch reports whether the worktree of an earlier run has left its branch, which nobody else has checked out: an agent
// switched away, and the run ended before that was put right.
func (wt *worktrees) leftBranch(ctx context.Context, in prepareIn) bool {
	all, err := wt.repo.Worktrees(ctx)
	main, merr := wt.repo.CurrentBranch(ctx, wt.repo.Main)
	now, nerr := wt.repo.CurrentBranch(ctx, in.Job.Worktree)
	free := main != in.Job.Branch && !slices.ContainsFunc(all, func(w git.Worktree) bool { return w.Branch == in.Job.Branch })
	return in.Begun && free && now != in.Job.Branch && errors.Join(err, merr, nerr) == nil
}

// ownBranch reports whether a branch that is there may be used: it holds a commit of this task, or a person
// said so. One that holds nothing, or is checked out where it belongs, needs no leave.
func ownBranch(ctx context.Context, repo *git.Repo, in prepareIn, task string) (bool, error) {
	tip, err := repo.Branch(ctx, in.Job.Branch)
	if in.Adopt || err != nil || tip == "" {
		return in.Adopt, err
	}
	made, err := repo.FindTrailer(ctx, in.Job.BaseCommit, tip, TaskTrailer+": "+task)
	return made != "", err
}

// copyFiles copies files that git does not have, .env say, from the main checkout. Where git has them there, the commit that is checked
// out has to be trusted, as another one may be by the time they were copied.
func (su *setup) copyFiles(ctx context.Context, j Job) (notes []string, err error) {
	if err := su.trust.trustedCopies(ctx, j); err != nil {
		return nil, err
	}
	var copied []string
	for _, name := range j.Setup.Copy {
		to, note, err := copyOne(j, name)
		if err != nil {
			return notes, err
		}
		if note != "" {
			notes = append(notes, note)
		}
		if to != "" {
			copied = append(copied, to)
		}
	}
	if err = su.trust.trustedCopies(ctx, j); err != nil {
		for _, to := range copied {
			err = errors.Join(err, os.RemoveAll(to))
		}
	}
	return notes, err
}

// copyOne copies one of them, and returns where, "" when it is there already.
func copyOne(j Job, name string) (copied, note string, err error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", "", flow.Fail(string(trellis.HookFailed), "worktree.copy: %s leaves the repository", name)
	}
	from, to := filepath.Join(j.Repo, filepath.FromSlash(name)), filepath.Join(j.Worktree, filepath.FromSlash(name))
	if _, err := os.Lstat(to); err == nil {
		return "", "", nil
	}
	if real, err := filepath.EvalSymlinks(from); err == nil && !inside(j.Repo, real) {
		return "", "", flow.Fail(string(trellis.HookFailed), "worktree.copy: %s leads out of the repository", name)
	}
	if real, err := filepath.EvalSymlinks(filepath.Dir(to)); err == nil && !inside(j.Worktree, real) {
		return "", "", flow.Fail(string(trellis.HookFailed), "worktree.copy: the folder of %s leads out of the worktree", name)
	}
	switch err := copyTree(from, to); {
	case errors.Is(err, fs.ErrNotExist):
		return "", "worktree.copy: there is no " + name, nil
	case err != nil:
		return "", "", flow.Fail(string(trellis.HookFailed), "copying %s: %v", name, err)
	}
	return to, "", nil
}

// inside reports whether a path without links is below root.
func inside(root, path string) bool {
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

// copyTree copies a file or a folder, which appears at once and whole.
func copyTree(from, to string) error {
	st, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(to), durable.TempPrefix+filepath.Base(to))
	if err := os.RemoveAll(temp); err != nil { // of a copy that was cut off
		return err
	}
	if st.IsDir() {
		err = os.CopyFS(temp, os.DirFS(from))
	} else {
		err = copyFile(from, temp, st.Mode().Perm())
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	return os.Rename(temp, to)
}

func copyFile(from, to string, mode fs.FileMode) error {
	real, err := filepath.EvalSymlinks(from) // the caller has looked that it is inside
	if err != nil {
		return err
	}
	r, err := durable.OpenBelow(filepath.Dir(real), filepath.Base(real), durable.AnySize)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, r); err != nil {
		return errors.Join(err, w.Close())
	}
	return w.Close()
}

// writePointer makes the folder for renderings, which hides itself from git, and the pointer that older agents
// look for.
func (su *setup) writePointer(j Job) error {
	root, err := ownFolder(j.Worktree)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{runtimeDir + "/.gitignore", currentTask} { // an agent may have put a pipe there
		if err := root.RemoveAll(name); err != nil {
			return fmt.Errorf("clearing %s: %w", name, err)
		}
	}
	if err := root.WriteFile(runtimeDir+"/.gitignore", []byte("*\n"), 0o644); err != nil {
		return fmt.Errorf("hiding %s: %w", runtimeDir, err)
	}
	return root.WriteFile(currentTask, []byte(su.store.Rel(su.task.dir)+"\n"), 0o644)
}

// runCommands runs the project's own commands that make a fresh worktree ready, dependencies say.
func (su *setup) runCommands(ctx context.Context, c flow.Call, j Job) error {
	for i, line := range j.Setup.Run {
		res, err := su.commands.run(ctx, c, sandbox.Setup, fmt.Sprintf("setup-%d", i+1), j.Worktree, line, j.Setup.Timeout)
		if err != nil {
			return err
		}
		if res.Code != 0 {
			said, err := su.task.output(res.Output)
			if err != nil {
				return err
			}
			return flow.Fail(string(trellis.HookFailed), "worktree.setup: `%s` ended with %d: %s", line, res.Code, tail(said, 2<<10))
		}
	}
	return nil
}

// discard takes away the worktree and the branch of a run that changed nothing against its base. What is not
// of the base all the same (a commit that was taken back) is kept.
func (wt *worktrees) discard(ctx context.Context, c flow.Call, in discardIn) (struct{}, error) {
	tip, err := wt.repo.Branch(ctx, in.Job.Branch)
	if err != nil {
		return struct{}{}, err
	}
	left, err := wt.restorer.uncommitted(ctx, in.Job)
	if err != nil {
		return struct{}{}, err
	}
	if tip != in.Job.BaseCommit || len(left) > 0 {
		_, err := wt.backUpAndRemove(ctx, c, in.Job)
		return struct{}{}, err
	}
	if err := wt.repo.RemoveWorktree(ctx, in.Job.Worktree); err != nil {
		return struct{}{}, flow.Fail(string(trellis.WorktreeFailed), "%v", err)
	}
	if _, err := wt.modules.remove(ctx, in.Job, wt.task.backupRef(c)+"-branch"); err != nil {
		return struct{}{}, err
	}
	return struct{}{}, wt.repo.DeleteBranch(ctx, in.Job.Branch)
}

// uncommitted are the paths of the worktree that are not committed, our own left out.
func (r *restorer) uncommitted(ctx context.Context, j Job) (paths []string, err error) {
	if _, err := os.Stat(j.Worktree); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	entries, err := r.repo.Status(ctx, j.Worktree, Outside(j)...)
	for _, e := range entries {
		if e.Path != ".trellis/" { // which git names for what is left out in it
			paths = append(paths, e.Path)
		}
	}
	return paths, err
}

// tailBytes is how much of a command's output stands in the journal.
const tailBytes = 300

// run runs one of the project's own commands in dir, in the sandbox of its kind, and keeps its output.
func (cs *commands) run(ctx context.Context, c flow.Call, kind, name, dir, line string, limit time.Duration) (Check, error) {
	return cs.runIn(ctx, c, sandbox.Need{Kind: kind, Dir: dir, Edit: true}, name, line, limit)
}

// runIn is command with what the sandbox has to know.
func (cs *commands) runIn(ctx context.Context, c flow.Call, need sandbox.Need, name, line string, limit time.Duration) (Check, error) {
	folder, err := cs.task.folder(c)
	if err != nil {
		return Check{}, err
	}
	cell, err := cs.box.Enter(ctx, need)
	if err != nil {
		return Check{}, err
	}
	out := proc.NewCapped(maxOutput)
	res, err := proc.Run(ctx, proc.Command{Argv: proc.Shell(line), Launcher: cell.Launcher, Files: cell.Files, Dir: need.Dir, Env: append(cs.box.Environment(cs.environ), cell.Env...), Stdout: out, Stderr: out, Marker: cs.marker, Wall: limit})
	refused, unfit := cell.Leave()
	if err == nil && res.Code != 0 {
		err = unfit
	}
	if err != nil {
		return Check{}, err
	}
	text := cs.task.redact(out.String())
	if why := cell.Explain(res.Code, []byte(text)); why != "" {
		text = strings.TrimRight(text, "\n") + "\ntrellis: " + why + "\n"
	}
	for _, host := range refused {
		text = strings.TrimRight(text, "\n") + "\ntrellis: it asked for " + host + "\n"
	}
	file := name + ".log"
	if err := cs.task.disk.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
		return Check{}, err
	}
	ref, err := cs.task.ref(filepath.Join(folder, file), text)
	return Check{Command: line, Code: res.Code, Seconds: res.Seconds, Tail: tail(text, tailBytes), Output: ref, Sandbox: cell.Name, Isolated: new(cell.Offline != ""), Offline: cell.Explain(res.Code, []byte(text)) != ""}, err
}
