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
func (a *Acts) prepare(ctx context.Context, c flow.Call, in prepareIn) (p Prepared, err error) {
	if in.Fresh {
		if err := a.mayTakeAway(ctx, c, in); err != nil {
			return p, err
		}
		if p.Notes, err = a.afresh(ctx, c, in.Job); err != nil {
			return p, err
		}
	}
	_, missing := a.Repo.Made(in.Job.Worktree)
	if p.Notes, err = a.onItsWay(ctx, c, in, p.Notes); err != nil {
		return p, err
	}
	made, err := a.Repo.Made(in.Job.Worktree)
	if err != nil {
		return p, a.asSwapped(err)
	}
	a.Made(&made)
	p.Made = &made
	before := in.Borrowed
	if in.Fresh {
		before = nil
	}
	if p.Borrowed, err = a.objects.begin(a.Repo, before); err != nil {
		return p, err
	}
	if missing == nil { // else its trees were hashed when it was made
		if err := a.Repo.VerifyTrees(ctx, in.Job.BaseCommit); err != nil {
			return p, a.asSwapped(err)
		}
	}
	if p.Hooks = in.Hooks; p.Hooks == nil || in.Fresh {
		if p.Hooks, err = a.Repo.HookState(in.Job.Worktree); err != nil {
			return p, err
		}
	}
	a.Hooks(p.Hooks)
	if ctx, err = a.bounded(ctx, in.Job.BaseCommit); err != nil {
		return p, err
	}
	if err := a.enterModules(ctx, in); err != nil {
		return p, err
	}
	if p.Lost, err = a.lost(ctx, in); err != nil {
		return p, err
	}
	settled, err := a.settle(ctx, c, in)
	if err != nil {
		return p, err
	}
	notes, err := a.copyIn(ctx, in.Job)
	p.Notes = append(append(p.Notes, settled...), notes...)
	if why := a.Box.Lacking(ctx); why != "" {
		p.Notes = append(p.Notes, "agents and commands ran without a sandbox: "+why)
	}
	if err != nil {
		return p, err
	}
	if err := a.mark(in.Job); err != nil {
		return p, err
	}
	if err := a.setup(ctx, c, in.Job); err != nil {
		return p, err
	}
	if p.Footing, err = a.footing(ctx, in.Job); err != nil || in.Begun {
		return p, err
	}
	p.Results, err = a.hold(ctx, c, in.Job)
	return p, err
}

// lost reports whether the worktree of an earlier run was taken away, with work that was not committed: in the new one
// no phase has been, and nothing is on its branch.
func (a *Acts) lost(ctx context.Context, in prepareIn) (bool, error) {
	if _, err := os.Stat(filepath.Join(in.Job.Worktree, filepath.FromSlash(runtimeDir), "task")); !in.Begun || err == nil || in.Job.Clash != nil {
		return false, nil
	}
	tip, err := a.Repo.Branch(ctx, in.Job.Branch)
	return tip == in.Job.BaseCommit, err
}

// afresh backs up what an earlier run left, worktree and branch, and takes it away. Each step looks for
// itself what there is, since the one before may have been the last before a crash.
func (a *Acts) afresh(ctx context.Context, c flow.Call, j Job) (notes []string, err error) {
	ref := a.backupRef(c)
	if err := a.Repo.EndUpdate(ctx, filepath.Base(a.Dir)); err != nil {
		return nil, err
	}
	failed := func(what string, err error) ([]string, error) {
		return notes, flow.Fail(string(trellis.WorktreeFailed), "%s: %v", what, err)
	}
	if _, err := os.Stat(j.Worktree); err == nil {
		if _, err := a.Repo.Backup(ctx, j.Worktree, ref, "trellis: work of "+filepath.Base(a.Dir)+" that was taken away"); err != nil {
			return failed("backing up the worktree", err)
		}
		notes = append(notes, "the work so far is kept as "+ref)
		if err := a.Repo.RemoveWorktree(ctx, j.Worktree); err != nil {
			return failed("removing the worktree", err)
		}
	}
	kept, err := a.keepModules(ctx, j, ref+"-branch")
	if notes = append(notes, kept...); err != nil {
		return failed("backing up submodules", err)
	}
	tip, err := a.Repo.Branch(ctx, j.Branch)
	if err != nil || tip == "" {
		return notes, err
	}
	if tip != j.BaseCommit {
		if _, err := a.Repo.Keep(ctx, j.Branch, ref+"-branch"); err != nil {
			return failed("backing up the branch", err)
		}
		notes = append(notes, "the branch so far is kept as "+ref+"-branch")
	}
	if err := a.Repo.DeleteBranch(ctx, j.Branch); err != nil {
		return failed("deleting the branch", err)
	}
	return notes, nil
}

// branch makes the worktree on the task's branch, or finds it.
func (a *Acts) branch(ctx context.Context, c flow.Call, in prepareIn) error {
	if err := os.MkdirAll(filepath.Dir(in.Job.Worktree), 0o755); err != nil {
		return flow.Fail(string(trellis.WorktreeFailed), "making the folder of worktrees: %v", err)
	}
	own, err := ownBranch(ctx, a.Repo, in, a.id())
	if err != nil {
		return err
	}
	n := git.NewWorktree{Path: in.Job.Worktree, Branch: in.Job.Branch, Base: in.Job.BaseCommit, Adopt: own, Owner: a.id(),
		Takes: func(owner string) bool { return a.takes(c, in, owner, own) }}
	if err = a.Repo.AddWorktree(ctx, n); errors.As(err, new(*git.PathError)) && a.astray(ctx, in) {
		if _, err = a.Repo.Reattach(ctx, in.Job.Worktree, in.Job.Branch, in.Job.BaseCommit, a.backupRef(c)+"-strayed"); err == nil {
			err = a.Repo.AddWorktree(ctx, n)
		}
	}
	return a.taken(in.Job.Worktree, err)
}

// taken is the failure of a worktree that can't be made.
func (a *Acts) taken(worktree string, err error) error {
	var taken *git.BranchError
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*git.SwappedError)):
		return a.asSwapped(err)
	case !errors.As(err, &taken):
		return flow.Fail(string(trellis.WorktreeFailed), "%v", err)
	}
	if taken.Owner == "" {
		taken.Owner = a.claimant(worktree)
	}
	if taken.Owner != "" {
		return flow.Fail(string(trellis.WorktreeFailed), "making a worktree: %v: name another branch with `trellis task set-branch %s BRANCH`", taken, a.id())
	}
	return flow.Fail(string(trellis.WorktreeFailed), "%v: use it with `trellis start %s --adopt-branch`, or name another with `trellis task set-branch`", err, a.id())
}

// id is the task's directory name.
func (a *Acts) id() string { return filepath.Base(a.Dir) }

// takes reports whether a worktree that was made for nobody (an older Trellis made it, or one that was cut off before it
// could write that down), or for a task that is no longer there, is this task's: an earlier run, or an earlier entry of
// this call, was here, its pointer names the task, its branch has the task's commits, or a person said so. It is not when
// another task names it.
func (a *Acts) takes(c flow.Call, in prepareIn, owner string, ownBranch bool) bool {
	if owner != "" && a.isTask(owner) || a.claimant(in.Job.Worktree) != "" {
		return false
	}
	return ownBranch || in.Begun || c.Attempt > 1 || a.pointsHere(in.Job.Worktree)
}

// mayTakeAway is a failure when the worktree at the task's place is another's.
func (a *Acts) mayTakeAway(ctx context.Context, c flow.Call, in prepareIn) error {
	all, err := a.Repo.Worktrees(ctx)
	for _, w := range all {
		if !w.At(in.Job.Worktree) || w.Gone || w.HalfMade() {
			continue
		}
		if err := a.Repo.Check(w); err != nil {
			return a.asSwapped(err)
		}
		if by := w.Owner(); by != a.id() && !a.takes(c, in, by, false) {
			return a.taken(in.Job.Worktree, &git.BranchError{Branch: in.Job.Branch, Taken: in.Job.Branch, Worktree: w.Path, Owner: by})
		}
	}
	return err
}

// isTask reports whether there is, or was, a task of that name. One that can't be looked for may be there.
func (a *Acts) isTask(id string) bool {
	if _, err := os.Lstat(filepath.Join(a.Store.Tasks(), filepath.Base(id))); err == nil {
		return true
	}
	archived, err := a.Store.Archived(id)
	return archived || err != nil
}

// claimant is another task whose task.json names the worktree, "" for none.
func (a *Acts) claimant(worktree string) string {
	entries, _ := a.Store.List() // what can't be read names nothing
	for _, e := range entries {
		if e.Task != nil && e.Task.ID != a.id() && e.Task.WorktreePath == worktree && e.Task.Status != trellis.Completed {
			return e.Task.ID
		}
	}
	return ""
}

// pointsHere reports whether the pointer that mark leaves in a worktree names the task.
func (a *Acts) pointsHere(worktree string) bool {
	const long = 1 << 10
	data, err := durable.ReadBelow(worktree, currentTask, long)
	return err == nil && strings.TrimSpace(string(data)) == a.Store.Rel(a.Dir)
}

// astray reports whether the worktree of an earlier run has left its branch, which nobody else has checked out: an agent
// switched away, and the run ended before that was put right.
func (a *Acts) astray(ctx context.Context, in prepareIn) bool {
	all, err := a.Repo.Worktrees(ctx)
	main, merr := a.Repo.CurrentBranch(ctx, a.Repo.Main)
	now, nerr := a.Repo.CurrentBranch(ctx, in.Job.Worktree)
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

// copyIn copies files that git does not have, .env say, from the main checkout. Where git has them there, the commit that is checked
// out has to be trusted, as another one may be by the time they were copied.
func (a *Acts) copyIn(ctx context.Context, j Job) (notes []string, err error) {
	if err := a.trustedCopies(ctx, j); err != nil {
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
	if err = a.trustedCopies(ctx, j); err != nil {
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

// mark makes the folder for renderings, which hides itself from git, and the pointer that older agents
// look for.
func (a *Acts) mark(j Job) error {
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
	return root.WriteFile(currentTask, []byte(a.Store.Rel(a.Dir)+"\n"), 0o644)
}

// setup runs the project's own commands that make a fresh worktree ready, dependencies say.
func (a *Acts) setup(ctx context.Context, c flow.Call, j Job) error {
	for i, line := range j.Setup.Run {
		res, err := a.command(ctx, c, sandbox.Setup, fmt.Sprintf("setup-%d", i+1), j.Worktree, line, j.Setup.Timeout)
		if err != nil {
			return err
		}
		if res.Code != 0 {
			said, err := a.output(res.Output)
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
func (a *Acts) discard(ctx context.Context, c flow.Call, in discardIn) (struct{}, error) {
	tip, err := a.Repo.Branch(ctx, in.Job.Branch)
	if err != nil {
		return struct{}{}, err
	}
	left, err := a.leftovers(ctx, in.Job)
	if err != nil {
		return struct{}{}, err
	}
	if tip != in.Job.BaseCommit || len(left) > 0 {
		_, err := a.afresh(ctx, c, in.Job)
		return struct{}{}, err
	}
	if err := a.Repo.RemoveWorktree(ctx, in.Job.Worktree); err != nil {
		return struct{}{}, flow.Fail(string(trellis.WorktreeFailed), "%v", err)
	}
	if _, err := a.keepModules(ctx, in.Job, a.backupRef(c)+"-branch"); err != nil {
		return struct{}{}, err
	}
	return struct{}{}, a.Repo.DeleteBranch(ctx, in.Job.Branch)
}

// leftovers are the paths of the worktree that are not committed, our own left out.
func (a *Acts) leftovers(ctx context.Context, j Job) (paths []string, err error) {
	if _, err := os.Stat(j.Worktree); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	entries, err := a.Repo.Status(ctx, j.Worktree, a.outside(j)...)
	for _, e := range entries {
		if e.Path != ".trellis/" { // which git names for what is left out in it
			paths = append(paths, e.Path)
		}
	}
	return paths, err
}

// tailBytes is how much of a command's output stands in the journal.
const tailBytes = 300

// command runs one of the project's own commands in dir, in the sandbox of its kind, and keeps its output.
func (a *Acts) command(ctx context.Context, c flow.Call, kind, name, dir, line string, limit time.Duration) (Check, error) {
	return a.commandIn(ctx, c, sandbox.Need{Kind: kind, Dir: dir, Edit: true}, name, line, limit)
}

// commandIn is command with what the sandbox has to know.
func (a *Acts) commandIn(ctx context.Context, c flow.Call, need sandbox.Need, name, line string, limit time.Duration) (Check, error) {
	folder, err := a.folder(c)
	if err != nil {
		return Check{}, err
	}
	cell, err := a.Box.Enter(ctx, need)
	if err != nil {
		return Check{}, err
	}
	out := proc.NewCapped(maxOutput)
	res, err := proc.Run(ctx, proc.Command{Argv: proc.Shell(line), Launcher: cell.Launcher, Files: cell.Files, Dir: need.Dir, Env: append(a.Box.Environment(a.Environ), cell.Env...), Stdout: out, Stderr: out, Marker: a.Marker, Wall: limit})
	refused, unfit := cell.Leave()
	if err == nil && res.Code != 0 {
		err = unfit
	}
	if err != nil {
		return Check{}, err
	}
	text := a.redact(out.String())
	if why := cell.Explain(res.Code, []byte(text)); why != "" {
		text = strings.TrimRight(text, "\n") + "\ntrellis: " + why + "\n"
	}
	for _, host := range refused {
		text = strings.TrimRight(text, "\n") + "\ntrellis: it asked for " + host + "\n"
	}
	file := name + ".log"
	if err := a.Disk.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
		return Check{}, err
	}
	ref, err := a.ref(filepath.Join(folder, file), text)
	return Check{Command: line, Code: res.Code, Seconds: res.Seconds, Tail: tail(text, tailBytes), Output: ref, Sandbox: cell.Name, Isolated: new(cell.Offline != ""), Offline: cell.Explain(res.Code, []byte(text)) != ""}, err
}
