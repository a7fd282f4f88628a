package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/sandbox"
)

// maxOutput is how much of a command's output is kept.
const maxOutput = 10 << 20

// taskState are the paths of a worktree that are Trellis' own and never part of the work.
var taskState = []string{".trellis/tasks", runtimeDir, currentTask}

// verify runs the commands that decide, in order, and looks at what was changed. What the commands themselves
// leave behind is undone: the tree that is committed is the tree that they judged.
func (v *verifier) verify(ctx context.Context, c flow.Call, in checksIn) (out Checks, err error) {
	if err := v.checkEnvironment(ctx, c, in, &out); err != nil || len(out.Bent) > 0 {
		return out, err
	}
	snap, notes, end, err := v.restorer.begin(ctx, c, in.Job)
	if err != nil {
		return out, err
	}
	defer end(&err)
	out.Notes = append(out.Notes, notes...)
	if err := v.describeChange(ctx, in, snap, &out); err != nil {
		return out, err
	}
	if out.Results, err = v.runAll(ctx, c, in); err != nil || len(out.Results) == 0 {
		return out, err
	}
	undone, err := snap.Restore(ctx, v.task.backupRef(c))
	var paths []string
	for _, ch := range undone {
		paths = append(paths, ch.Path)
	}
	return out.undone(paths), err
}

// baseline runs the commands in the worktree, which holds nothing but what is committed. What is not committed is
// named, and nothing is run.
func (v *verifier) baseline(ctx context.Context, c flow.Call, in checksIn) (out Checks, err error) {
	if out.Notes, err = v.repairer.repair(ctx, c, in.Job); err != nil {
		return out, err
	}
	m := v.task.checkpoint(c)
	stray, err := v.restorer.strayPaths(ctx, c, in.Job, m, &out)
	if out.Stray = few(stray); err != nil || len(stray) > 0 {
		return out, err
	}
	if err := m.write(allCommitted); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, m.end(err)) }()
	if out.Results, err = v.runAll(ctx, c, in); err != nil || len(out.Results) == 0 {
		return out, err
	}
	left, err := v.restorer.uncommitted(ctx, in.Job)
	if err != nil || len(left) == 0 {
		return out, err
	}
	_, err = v.repo.Discard(ctx, in.Job.Worktree, v.task.backupRef(c), left...)
	return out.undone(left), err
}

// allCommitted is what recheck notes when nothing stands in the worktree that is not committed.
const allCommitted = "committed"

// strayPaths are the paths that are not committed. Those that the commands of an entry left that was cut off are taken away.
func (r *restorer) strayPaths(ctx context.Context, c flow.Call, j Job, m checkpoint, out *Checks) ([]string, error) {
	left, err := r.uncommitted(ctx, j)
	if err != nil || len(left) == 0 {
		return nil, err
	}
	if was, err := m.read(); err != nil || was != allCommitted {
		return left, err
	}
	notes, err := r.backUp(ctx, c, j)
	if err == nil {
		_, err = r.repo.Discard(ctx, j.Worktree, "", left...)
	}
	out.Notes = append(out.Notes, notes...)
	return nil, err
}

// decidingCommands are the commands to run.
func (v *verifier) decidingCommands(in checksIn) ([]string, error) {
	if !in.Plan {
		return in.Job.Verify, nil
	}
	p, err := v.inputs.frozenPlan(in.Content)
	return withPlan(in.Job.Verify, p), err
}

func (v *verifier) runAll(ctx context.Context, c flow.Call, in checksIn) (list []Check, err error) {
	commands, err := v.decidingCommands(in)
	if err != nil {
		return nil, err
	}
	for i, line := range commands {
		res, err := v.commands.run(ctx, c, sandbox.Verify, fmt.Sprintf("check-%d", i+1), in.Job.Worktree, line, in.Job.Limits.Command)
		if err != nil {
			return nil, err
		}
		res.Known = res.Code != 0 && slices.Contains(in.Known, line)
		list = append(list, res)
	}
	return list, nil
}

// undone notes what the commands left behind.
func (c Checks) undone(paths []string) Checks {
	if len(paths) > 0 {
		c.Notes = append(c.Notes, "the checks changed files, which was undone: "+strings.Join(few(paths), ", "))
	}
	return c
}

// describeChange says what tree the commands are about to judge, and what it changes of the base.
func (v *verifier) describeChange(ctx context.Context, in checksIn, snap *git.Snapshot, out *Checks) error {
	j := in.Job
	changes, err := snap.Changes(ctx, j.BaseCommit)
	if err != nil {
		return err
	}
	allowed, err := v.inputs.allowed(j, in.Content)
	if err != nil {
		return err
	}
	out.Tree, out.Unchanged, out.Stat = snap.Tree, len(changes) == 0, stat(changes)
	by := judgesOf(j.Worktree, j.Verify)
	for _, ch := range changes {
		if config.Protects(j.Protected, ch.Path) && !slices.Contains(allowed, ch.Path) {
			out.Protected = append(out.Protected, ch.Path)
		}
		if what := by.decides(ch); what != "" {
			out.Defining = append(out.Defining, what)
		}
	}
	out.Protected, out.Defining = few(out.Protected), few(out.Defining)
	return nil
}

// changed says what a phase has made of the worktree.
func (v *verifier) changed(ctx context.Context, _ flow.Call, in checksIn) (out Checks, err error) {
	snap, err := v.repo.Snapshot(ctx, in.Job.Worktree, Outside(in.Job)...)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	err = v.describeChange(ctx, in, snap, &out)
	return out, err
}

// few is a list that fits into a record: the first paths, cut where they are long, and how many more there are.
func few(paths []string) []string {
	const most, long = 20, 200
	if len(paths) > most {
		paths = append(paths[:most:most], fmt.Sprintf("and %d more", len(paths)-most))
	}
	for i, p := range paths {
		if len(p) > long {
			paths[i] = strings.ToValidUTF8(p[:long], "") + "…"
		}
	}
	return paths
}

// repair takes back what no agent may do to git or to task directories.
func (r *repairer) repair(ctx context.Context, c flow.Call, j Job) (notes []string, err error) {
	if notes, err = r.guard.verifyObjects(ctx, j.BaseCommit); err != nil {
		return notes, err
	}
	strayed, err := r.repo.Reattach(ctx, j.Worktree, j.Branch, j.anchor(), r.task.backupRef(c)+"-strayed")
	if err != nil {
		return notes, err
	}
	if strayed {
		notes = append(notes, "the worktree had left its branch, or the branch its base: it was put back, the files as they were")
	}
	more, err := r.modules.repair(ctx, c, j)
	if notes = append(notes, more...); err != nil {
		return notes, err
	}
	hidden, err := r.repo.Unhide(ctx, j.Worktree)
	if err != nil {
		return notes, err
	}
	if len(hidden) > 0 {
		notes = append(notes, "git had been told not to look at tracked files, which was undone: "+strings.Join(few(hidden), ", "))
	}
	if _, err := os.Lstat(filepath.Join(j.Worktree, ".trellis", "tasks")); errors.Is(err, fs.ErrNotExist) {
		return notes, nil // whether someone removed it is no matter: it is never committed
	}
	undone, err := r.repo.Discard(ctx, j.Worktree, r.task.backupRef(c), ".trellis/tasks")
	if undone {
		notes = append(notes, "changes below .trellis/tasks of the worktree were undone: a task lives in the main checkout")
	}
	return notes, err
}

// statLines is how many changed files a summary names.
const statLines = 50

func stat(changes []git.Change) string {
	var b strings.Builder
	for i, ch := range changes {
		if i == statLines {
			fmt.Fprintf(&b, "… and %d more files\n", len(changes)-i)
			break
		}
		fmt.Fprintf(&b, "%c %s +%d -%d\n", ch.Kind, few([]string{ch.Path})[0], max(ch.Added, 0), max(ch.Deleted, 0))
	}
	return b.String()
}

// folder is where an entry of an activity keeps its files.
func (d *taskDir) folder(c flow.Call) (string, error) {
	if _, err := os.Stat(d.dir); err != nil {
		return "", fmt.Errorf("making the folder of %s: %w", c.ID, err) // the task is gone, and is not made anew
	}
	dir := filepath.Join(d.runDir, agentcall.Folder(c), fmt.Sprint(c.Attempt))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the folder of %s: %w", c.ID, err)
	}
	return dir, nil
}

// ref names a file below run/.
func (d *taskDir) ref(path, text string) (agentcall.Ref, error) {
	rel, err := filepath.Rel(d.runDir, path)
	return agentcall.Ref{Path: filepath.ToSlash(rel), SHA256: agentcall.Sum([]byte(text)), Bytes: len(text)}, err
}

func (d *taskDir) redact(s string) string {
	if d.redactor == nil {
		return s
	}
	return d.redactor(s)
}

func tail(s string, n int) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "�"))
	if len(s) <= n {
		return s
	}
	return "…" + strings.ToValidUTF8(s[len(s)-n:], "")
}
