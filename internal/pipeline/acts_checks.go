package pipeline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/trellis-tasks/trellis/internal/ask"
	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/git"
)

// maxOutput is how much of a command's output is kept.
const maxOutput = 10 << 20

// taskState are the paths of a worktree that are Trellis' own and never part of the work.
var taskState = []string{".trellis/tasks", runtimeDir, currentTask}

// freed are the paths below .trellis that a task may change although .trellis is protected.
var freed = []string{".trellis/spec/", ".trellis/tasks/", runtimeDir + "/", currentTask}

// checks runs the commands that decide, in order, and looks at what was changed. It serves baseline, verify
// and final verify.
func (a *Acts) checks(ctx context.Context, c flow.Call, in checksIn) (out Checks, err error) {
	if out.Notes, err = a.undoTaskState(ctx, in.Job); err != nil {
		return out, err
	}
	changes, err := a.lookAt(ctx, in.Job, &out)
	if err != nil {
		return out, err
	}
	for _, ch := range changes {
		if protects(in.Job.Protected, ch.Path) {
			out.Protected = append(out.Protected, ch.Path)
		}
		if defines(in.Job.Verify, ch.Path) {
			out.Defining = append(out.Defining, ch.Path)
		}
	}
	for i, line := range in.Job.Verify {
		res, err := a.command(ctx, c, fmt.Sprintf("check-%d", i+1), in.Job.Worktree, line, in.Job.Limits.Command)
		if err != nil {
			return out, err
		}
		res.Known = res.Code != 0 && slices.Contains(in.Known, line)
		out.Results = append(out.Results, res)
	}
	return out, nil
}

// lookAt says what tree the commands are about to judge, and what it changes of the base.
func (a *Acts) lookAt(ctx context.Context, j Job, out *Checks) ([]git.Change, error) {
	snap, err := a.Repo.Snapshot(ctx, j.Worktree, a.outside(j)...)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	changes, err := snap.Changes(ctx, j.BaseCommit)
	if err != nil {
		return nil, err
	}
	out.Tree, out.Unchanged, out.Stat = snap.Tree, len(changes) == 0, stat(changes)
	return changes, nil
}

// outside are the paths that stay out of commits.
func (a *Acts) outside(j Job) []string { return append(slices.Clone(taskState), j.Setup.Copy...) }

// undoTaskState takes back changes of committed task directories, which have their one home in the main
// checkout.
func (a *Acts) undoTaskState(ctx context.Context, j Job) ([]string, error) {
	undone, err := a.Repo.Discard(ctx, j.Worktree, ".trellis/tasks")
	if err != nil || !undone {
		return nil, err
	}
	return []string{"changes below .trellis/tasks of the worktree were undone: a task lives in the main checkout"}, nil
}

// protects reports whether a changed path falls under the globs.
func protects(globs []string, path string) bool {
	for _, g := range globs {
		if strings.HasPrefix(g, ".trellis/") && slices.ContainsFunc(freed, func(f string) bool { return strings.HasPrefix(path, f) }) {
			continue
		}
		if ok, err := doublestar.Match(g, path); err == nil && ok || g == path || strings.HasPrefix(path, strings.TrimSuffix(g, "/")+"/") {
			return true
		}
	}
	return false
}

// defining are files that say what a check does.
var defining = []string{"Makefile", "GNUmakefile", "makefile", "package.json", "justfile", "Taskfile.yml", "tox.ini", "noxfile.py", "pyproject.toml", "Cargo.toml", "build.gradle", "pom.xml"}

func defines(commands []string, path string) bool {
	if slices.Contains(defining, filepath.Base(path)) {
		return true
	}
	return slices.ContainsFunc(commands, func(c string) bool {
		return slices.ContainsFunc(strings.Fields(c), func(w string) bool { return strings.TrimPrefix(w, "./") == path })
	})
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
		fmt.Fprintf(&b, "%c %s +%d -%d\n", ch.Kind, ch.Path, max(ch.Added, 0), max(ch.Deleted, 0))
	}
	return b.String()
}

// prove runs the command of each criterion that has one.
func (a *Acts) prove(ctx context.Context, c flow.Call, in proveIn) ([]Judged, error) {
	var out []Judged
	for _, cr := range in.Criteria {
		j := Judged{Criterion: cr}
		if cr.Verify != "" {
			res, err := a.command(ctx, c, cr.ID, in.Job.Worktree, cr.Verify, in.Job.Limits.Command)
			if err != nil {
				return nil, err
			}
			j.Verdict, j.Proven = "met", res.Code == 0
			if res.Code != 0 {
				j.Verdict = "unmet"
			}
			j.Evidence = fmt.Sprintf("`%s` ended with %d", cr.Verify, res.Code)
			if res.Code != 0 && res.Tail != "" {
				j.Evidence += ": " + res.Tail
			}
		}
		out = append(out, j)
	}
	return out, nil
}

// ground names the criteria that nothing but a claim says are met: no command proved them, and their
// evidence names no file of the tree.
func (a *Acts) ground(_ context.Context, _ flow.Call, in proveIn) (bare []string, err error) {
	for _, j := range in.Judged {
		if !j.Should && !j.Proven && !namesFile(in.Job.Worktree, j.Evidence) {
			bare = append(bare, j.ID)
		}
	}
	return bare, nil
}

func namesFile(root, evidence string) bool {
	for _, w := range strings.Fields(evidence) {
		w = strings.Trim(w, "`*_,;()[]\"'.")
		w, _, _ = strings.Cut(w, ":")
		if w == "" || !filepath.IsLocal(filepath.FromSlash(w)) {
			continue
		}
		if st, err := os.Stat(filepath.Join(root, filepath.FromSlash(w))); err == nil && st.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// folder is where an entry of an activity keeps its files.
func (a *Acts) folder(c flow.Call) (string, error) {
	dir := filepath.Join(a.RunDir, ask.Folder(c), fmt.Sprint(c.Attempt))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the folder of %s: %w", c.ID, err)
	}
	return dir, nil
}

// ref names a file below run/.
func (a *Acts) ref(path, text string) (ask.Ref, error) {
	rel, err := filepath.Rel(a.RunDir, path)
	return ask.Ref{Path: filepath.ToSlash(rel), SHA256: ask.Sum([]byte(text)), Bytes: len(text)}, err
}

func (a *Acts) redact(s string) string {
	if a.Redact == nil {
		return s
	}
	return a.Redact(s)
}

func tail(s string, n int) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "�"))
	if len(s) <= n {
		return s
	}
	return "…" + strings.ToValidUTF8(s[len(s)-n:], "")
}
