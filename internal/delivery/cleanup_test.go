package delivery_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/taskdir"
)

// house is a repository in which tasks left things.
type house struct {
	*testing.T
	Dir, Trees string
	Cleaner    *delivery.Cleaner
}

func newHouse(t *testing.T, initArgs ...string) *house {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &house{T: t, Dir: filepath.Join(root, "repo"), Trees: filepath.Join(root, "trees")}
	h.write("a.txt", "a\n")
	h.write(".gitignore", "*.secret\nnode_modules/\n")
	h.write(".trellis/.gitignore", ".runtime/\n.current-task\ntasks/\n")
	h.git(append([]string{"init", "-q", "-b", "main"}, initArgs...)...)
	h.git("add", "-A")
	h.git("commit", "-qm", "first")
	repo, err := git.Open(h.Dir)
	if err != nil {
		t.Fatal(err)
	}
	repo.Env = h.env()
	now := func() time.Time { return time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC) }
	h.Cleaner = &delivery.Cleaner{Store: taskdir.Store{Root: h.Dir, Now: now}, Repo: repo, Folder: h.Trees, Copied: []string{".env"}, Now: now}
	return h
}

func (h *house) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(h.Dir), "TMPDIR=" + h.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.org", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.org"}
}

func (h *house) at(dir string, args ...string) string {
	h.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, h.env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (h *house) git(args ...string) string { h.Helper(); return h.at(h.Dir, args...) }

// path is below the main checkout, unless it is absolute.
func (h *house) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(h.Dir, filepath.FromSlash(name))
}

func (h *house) write(name, text string) {
	h.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(h.path(name)), 0o755), os.WriteFile(h.path(name), []byte(text), 0o644)); err != nil {
		h.Fatal(err)
	}
}

// there reports whether something is at a path.
func (h *house) there(name string) bool {
	_, err := os.Lstat(h.path(name))
	return err == nil
}

func (h *house) dir(id string) string { return h.path(".trellis/tasks/" + id) }

// task writes a task.json: status, branch and whatever else.
func (h *house) task(id, status string, more map[string]any) {
	h.Helper()
	t := map[string]any{"status": status, "base_branch": "main", "branch": "feature/" + id[6:], "name": id[6:]}
	for key, value := range more {
		t[key] = value
	}
	data, err := json.Marshal(t)
	if err != nil {
		h.Fatal(err)
	}
	h.write(".trellis/tasks/"+id+"/task.json", string(data))
}

// done makes a task in review whose worktree has one commit, as runs leave it, and returns the worktree.
func (h *house) done(id string) string {
	h.Helper()
	base, branch := h.git("rev-parse", "main"), "feature/"+id[6:]
	dir := filepath.Join(h.Trees, branch)
	h.git("worktree", "add", "-q", "--no-track", "-b", branch, dir, "main")
	h.write(dir+"/"+id+".txt", "done\n")
	h.write(dir+"/.trellis/.runtime/task/prd.md", "a copy\n")
	h.at(dir, "add", "-A")
	h.at(dir, "commit", "-qm", "feat: "+id, "-m", "Trellis-Task: "+id)
	h.task(id, "review", map[string]any{"worktree_path": dir, "commit": h.at(dir, "rev-parse", "HEAD"), "pipeline": map[string]any{"base_commit": base, "attempt": 2, "outcome": "delivered"}})
	return dir
}

func (h *house) squash(branch string) {
	h.Helper()
	h.write("c.txt", "meanwhile\n")
	h.git("add", "-A")
	h.git("commit", "-qm", "meanwhile")
	h.git("merge", "-q", "--squash", branch)
	h.git("commit", "-qm", "squashed")
}

func (h *house) load(id string) *taskdir.Task {
	h.Helper()
	t, err := h.Cleaner.Store.Load(h.dir(id))
	if err != nil {
		h.Fatal(err)
	}
	return t
}

// look is what is known of a task.
func (h *house) look(id string) delivery.Leftover {
	h.Helper()
	l, err := h.Cleaner.LookAt(h.Context(), h.dir(id))
	if err != nil {
		h.Fatal(err)
	}
	return l
}

func (h *house) remove(id string, merged bool) delivery.Removal {
	h.Helper()
	r, err := h.Cleaner.Remove(h.Context(), h.dir(id), merged)
	if err != nil {
		h.Fatal(err)
	}
	return r
}

// keeps makes sure that nothing of a task is taken away.
func (h *house) keeps(id string, merged bool, why string) {
	h.Helper()
	before := h.git("for-each-ref") + h.git("worktree", "list")
	_, err := h.Cleaner.Remove(h.Context(), h.dir(id), merged)
	var kept *delivery.KeptError
	var held *durable.HeldError
	if !errors.As(err, &kept) && !errors.As(err, &held) || !strings.Contains(err.Error(), why) {
		h.Errorf("%s: got %v, want %q", id, err, why)
	}
	if after := h.git("for-each-ref") + h.git("worktree", "list"); after != before {
		h.Errorf("%s: it changed\n%s\nto\n%s", id, before, after)
	}
}

// cleared makes sure that neither worktree nor branch is there any more.
func (h *house) cleared(id, dir string) {
	h.Helper()
	if h.there(dir) || strings.Contains(h.git("worktree", "list"), dir) {
		h.Errorf("%s: its worktree is there", id)
	}
	if out := h.git("for-each-ref", "refs/heads/feature/"+id[6:]); out != "" {
		h.Errorf("%s: its branch is there: %s", id, out)
	}
	if t := h.load(id); t.WorktreePath != "" {
		h.Errorf("%s: it still names its worktree %s", id, t.WorktreePath)
	}
}

// A branch that is checked out in a worktree is found when it was merged, in whatever way, and one on which nothing was
// committed is not.
func TestMergedIsFound(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	merges := map[string]string{
		"02-01-merged": h.done("02-01-merged"), "02-01-squashed": h.done("02-01-squashed"), "02-01-picked": h.done("02-01-picked"),
		"02-01-remote": h.done("02-01-remote"), "02-01-open": h.done("02-01-open"), "02-01-reset": h.done("02-01-reset"), "02-01-deleted": h.done("02-01-deleted"),
	}
	if out := h.git("branch", "--merged"); strings.Contains(out, "feature") {
		t.Fatalf("merged too early: %s", out)
	}
	h.squash("feature/squashed")
	h.git("cherry-pick", "feature/picked")
	h.git("merge", "-q", "--no-ff", "-m", "merge", "feature/merged")
	h.git("update-ref", "refs/remotes/origin/main", "feature/remote")
	h.git("merge", "-q", "--no-ff", "-m", "merge", "feature/reset")
	h.git("reset", "-q", "--hard", "HEAD~1")
	h.git("merge", "-q", "--no-ff", "-m", "merge", "feature/deleted")
	h.git("worktree", "remove", "--force", merges["02-01-deleted"])
	h.git("branch", "-D", "feature/deleted")
	// a fresh one, as a task is that was cancelled before anything was done
	fresh := filepath.Join(h.Trees, "feature/fresh")
	h.git("worktree", "add", "-q", "--no-track", "-b", "feature/fresh", fresh, "main")
	h.task("02-01-fresh", "cancelled", map[string]any{"worktree_path": fresh, "pipeline": map[string]any{"base_commit": h.git("rev-parse", "main")}})
	h.git("merge", "-q", "--ff-only", "main")
	if out := h.git("branch", "--merged"); !strings.Contains(out, "+ feature/fresh") || !strings.Contains(out, "+ feature/merged") {
		t.Fatalf("git prints these branches otherwise by now:\n%s", out)
	}
	h.git("commit", "-q", "--allow-empty", "-m", "later")
	moved := filepath.Join(h.Trees, "feature/moved") // fresh, and moved on with its base
	h.git("worktree", "add", "-q", "--no-track", "-b", "feature/moved", moved, "main")
	h.task("02-01-moved", "review", map[string]any{"worktree_path": moved, "pipeline": map[string]any{"base_commit": h.git("rev-parse", "main~1")}})

	list, _, err := h.Cleaner.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	completed, err := h.Cleaner.Settle(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"02-01-merged": "ancestor main completed", "02-01-squashed": "patches main completed", "02-01-picked": "patches main completed", "02-01-remote": "ancestor origin/main completed",
		"02-01-deleted": "ancestor main completed", "02-01-open": "  review", "02-01-reset": "  review", "02-01-fresh": "  cancelled", "02-01-moved": "  review",
	}
	for _, l := range list {
		task := h.load(l.ID)
		if got := fmt.Sprintf("%s %s %s", l.Proof, l.In, task.Status); got != want[l.ID] || l.Status != task.Status {
			t.Errorf("%s: got %q (%s), want %q", l.ID, got, l.Why, want[l.ID])
		}
		if task.Status == "completed" && (task.Pipeline.Outcome != "merged" || task.CompletedAt != "2026-02-03") {
			t.Errorf("%s: got outcome %q, completed at %q", l.ID, task.Pipeline.Outcome, task.CompletedAt)
		}
		delete(want, l.ID)
	}
	if len(want) > 0 || len(completed) != 5 {
		t.Errorf("not listed: %v; completed: %v", want, completed)
	}
	for id, dir := range merges {
		switch id {
		case "02-01-open", "02-01-reset":
			h.keeps(id, true, "not in main or origin/main")
		default:
			h.remove(id, true)
			h.cleared(id, dir)
		}
	}
	h.keeps("02-01-fresh", true, "no commit of its own")
	h.keeps("02-01-moved", true, "no commit of its own")
	saved := h.git("for-each-ref", "--format=%(refname)", "refs/trellis")
	if want := "refs/trellis/backup/02-01-picked/2-branch\nrefs/trellis/backup/02-01-squashed/2-branch"; saved != want {
		t.Errorf("saved are\n%s\nwant\n%s", saved, want)
	}
}

// What is remembered of pushes goes with merged work, in submodules too, and with no other.
func TestPushesForgotten(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.done("02-01-merged")
	h.done("02-01-merged-too")
	h.done("02-01-open")
	h.git("merge", "-q", "--no-ff", "-m", "merge", "feature/merged")
	module := h.path(".git/modules/libs/cli")
	h.git("clone", "-q", "--bare", h.Dir, module)
	for _, id := range []string{"02-01-merged", "02-01-merged-too", "02-01-open"} {
		for _, dir := range []string{h.Dir, module} {
			h.at(dir, "update-ref", "refs/trellis/pushed/"+id+"/"+h.git("rev-parse", "feature/"+id[6:]), "feature/"+id[6:])
		}
	}
	h.remove("02-01-merged", true)
	h.remove("02-01-open", false)
	for _, dir := range []string{h.Dir, module} {
		got := h.at(dir, "for-each-ref", "--format=%(refname)", "refs/trellis/pushed")
		if strings.Contains(got, "/02-01-merged/") || !strings.Contains(got, "/02-01-merged-too/") || !strings.Contains(got, "/02-01-open/") {
			t.Errorf("remembered in %s is\n%s", dir, got)
		}
	}
}

// All that is in a worktree comes back from its backup, whatever git knows of it.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := h.done("02-01-work")
	h.write(dir+"/staged.txt", "staged\n")
	h.at(dir, "add", "staged.txt")
	h.write(dir+"/staged.txt", "then changed\n")
	h.write(dir+"/a.txt", "changed\n")
	h.write(dir+"/new/file.txt", "untracked\n")
	h.write(dir+"/my.secret", "ignored\n")
	h.write(dir+"/node_modules/x/index.js", "made anew\n")
	l := h.look("02-01-work")
	if len(l.Trees) != 1 || !l.Trees[0].Dirty || strings.Join(l.Trees[0].Ignored, " ") != "my.secret" || strings.Join(l.Trees[0].Made, " ") != "node_modules/" || l.Size() < 4096 || !l.Saves() {
		t.Errorf("got %+v", l)
	}
	tip := l.Tip
	h.keeps("02-01-work", true, "not in main")
	r := h.remove("02-01-work", false)
	h.cleared("02-01-work", dir)
	if len(r.Saved) != 1 || r.Saved[0] != "refs/trellis/backup/02-01-work/2" || h.load("02-01-work").Status != "review" {
		t.Fatalf("got %+v, task is %s", r.Saved, h.load("02-01-work").Status)
	}
	h.git("merge-base", "--is-ancestor", tip, r.Saved[0])
	for file, want := range map[string]string{"staged.txt": "then changed", "a.txt": "changed", "new/file.txt": "untracked", "02-01-work.txt": "done"} {
		if got := h.git("show", r.Saved[0]+":"+file); got != want {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
	if got := h.git("log", "-m", "-p", "--format=", r.Saved[0], "--", "staged.txt"); !strings.Contains(got, "+staged") {
		t.Errorf("what was staged is lost:\n%s", got)
	}
	list, err := h.Cleaner.Backups(t.Context(), "")
	if err != nil || len(list) != 1 || list[0].Task != "02-01-work" || list[0].Attempt != "2" || list[0].Commits != 3 {
		t.Fatalf("got %+v, %v", list, err)
	}
	h.git(strings.Fields(list[0].Restore)[1:]...)
	if got := h.git("show", "restored/02-01-work-2:a.txt"); got != "changed" {
		t.Errorf("restored: got %q", got)
	}
	if again := h.remove("02-01-work", false); len(again.Saved) > 0 || !again.Nothing() {
		t.Errorf("again: got %+v", again)
	}
}

// Of the branch of a remote it is told; that stays until somebody types the command, and nobody has pushed to it since.
func TestRemoteBranchIsTold(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := h.done("02-01-work")
	if l := h.look("02-01-work"); l.Remote != "" {
		t.Errorf("got %q", l.Remote)
	}
	h.git("init", "-q", "--bare", "../origin.git")
	h.git("remote", "add", "origin", "../origin.git")
	h.git("push", "-q", "origin", "main", "feature/work")
	h.git("merge", "-q", "feature/work")
	r := h.remove("02-01-work", true)
	h.cleared("02-01-work", dir)
	if r.Remote != "origin" || !strings.Contains(h.git("ls-remote", "origin"), "feature/work") {
		t.Fatalf("got %+v", r.Leftover)
	}
	h.git(strings.Fields(r.RemoteDelete())[1:]...)
	if left := h.git("ls-remote", "origin"); strings.Contains(left, "feature/work") {
		t.Errorf("it is still there:\n%s", left)
	}
}

// Commits that only the detached HEAD of a worktree has are saved, and said to be.
func TestDetachedWithoutBranch(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := h.done("02-01-work")
	if l := h.look("02-01-work"); l.Trees[0].Loose {
		t.Errorf("got %+v", l.Trees)
	}
	h.at(dir, "checkout", "-q", "--detach")
	h.at(dir, "commit", "-q", "--allow-empty", "-m", "more")
	only := h.at(dir, "rev-parse", "HEAD")
	if l := h.look("02-01-work"); !l.Saves() || !l.Trees[0].Loose || l.Trees[0].Dirty {
		t.Errorf("got %+v", l)
	}
	h.git("branch", "-q", "-D", "feature/work")
	if l := h.look("02-01-work"); !l.Saves() || l.Tip != "" {
		t.Errorf("without its branch: got %+v", l)
	}
	r := h.remove("02-01-work", false)
	h.cleared("02-01-work", dir)
	if len(r.Saved) != 1 || h.git("rev-parse", r.Saved[0]) != only {
		t.Errorf("got %q", r.Saved)
	}
}

// A repository below an ignored folder, with files and no commit yet, is nothing that a build makes.
func TestUnbornBelowIgnored(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := h.done("02-01-work")
	h.at(dir, "init", "-q", "node_modules/mine")
	if l := h.look("02-01-work"); len(l.Trees[0].Nested) != 0 {
		t.Errorf("an empty one is taken for work: %+v", l.Trees)
	}
	h.write(dir+"/node_modules/mine/draft.txt", "weeks of work\n")
	h.keeps("02-01-work", false, "node_modules/mine")
}

// What may be somebody's, or at work, is left alone.
func TestLeftAlone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, status := range []string{"in_progress", "paused", "waiting", "ready"} {
		id := "02-01-" + strings.ReplaceAll(status, "_", "-")
		dir := h.done(id)
		h.task(id, status, map[string]any{"worktree_path": dir, "pipeline": map[string]any{"base_commit": h.git("rev-parse", "main")}})
		h.git("merge", "-q", "--no-ff", "-m", "merge", "feature/"+id[6:])
		h.keeps(id, true, status)
		h.keeps(id, false, status)
	}
	h.done("02-01-held")
	run, err := h.Cleaner.Store.RunDir(h.dir("02-01-held"))
	if err != nil {
		t.Fatal(err)
	}
	lock, err := durable.TryLock(filepath.Join(run, filepath.Base(taskdir.RunLock)), durable.Holder{PID: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	if l := h.look("02-01-held"); !strings.Contains(l.Keeps, "at work") {
		t.Errorf("held: got %q", l.Keeps)
	}
	h.keeps("02-01-held", false, "")
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	h.git("worktree", "lock", "--reason", "on a stick", h.done("02-01-locked"))
	h.keeps("02-01-locked", false, "on a stick")
	for id, where := range map[string]string{"02-01-inner": "inner", "02-01-ignored": "node_modules/dep"} {
		inner := filepath.Join(h.done(id), where)
		h.git("init", "-q", inner)
		h.at(inner, "commit", "-q", "--allow-empty", "-m", "only here")
		h.keeps(id, false, where)
	}
	h.done("02-01-elsewhere")
	h.git("worktree", "remove", "--force", filepath.Join(h.Trees, "feature/elsewhere"))
	h.git("worktree", "add", "-q", filepath.Join(h.Dir, "../mine"), "feature/elsewhere")
	h.keeps("02-01-elsewhere", false, "checked out in")
	h.task("02-01-main", "review", map[string]any{"branch": "main", "commit": h.git("rev-parse", "main")})
	h.keeps("02-01-main", false, "no branch of its own")
}

// A task names what is somebody else's, by mistake or to do harm: it is not touched.
func TestWrongPaths(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	mine := filepath.Join(h.Dir, "../mine")
	h.git("worktree", "add", "-q", "-b", "mine", mine, "main")
	h.write(mine+"/new.txt", "unsaved\n")
	other := filepath.Join(h.Dir, "../other/folder")
	h.write(other+"/file.txt", "not ours\n")
	for i, path := range []string{h.Dir, mine, other, filepath.Join(h.Dir, ".."), "/", "../mine"} {
		id := fmt.Sprintf("02-01-wrong%d", i)
		dir := h.done(id)
		task := h.load(id)
		h.task(id, "review", map[string]any{"worktree_path": path, "commit": task.Commit, "pipeline": map[string]any{"base_commit": task.Pipeline.BaseCommit}})
		h.remove(id, false)
		if h.there(dir) {
			t.Errorf("%s: its worktree is there", id)
		}
		if got := h.git("rev-parse", "refs/trellis/backup/"+id+"/1-branch"); got != task.Commit {
			t.Errorf("%s: got %s saved, want %s", id, got, task.Commit)
		}
	}
	for _, file := range []string{mine + "/new.txt", other + "/file.txt", "a.txt"} {
		if !h.there(file) {
			t.Errorf("%s is gone", file)
		}
	}
	if got := h.git("rev-parse", "mine"); got != h.git("rev-parse", "main") {
		t.Errorf("mine is at %s", got)
	}
}

// An old task and a new one may have branches of the same name: the old one's cleanup leaves the new one's alone.
func TestBranchOfAnother(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.done("02-01-auth")
	h.git("merge", "-q", "--no-ff", "-m", "merge", "feature/auth")
	h.remove("02-01-auth", true)
	to, err := h.Cleaner.Store.Archive(h.dir("02-01-auth"))
	if err != nil {
		t.Fatal(err)
	}
	dir := h.done("02-09-auth")
	h.git("merge", "-q", "--no-ff", "-m", "merge", "feature/auth")
	h.write(dir+"/more.txt", "at work\n")
	h.task("02-09-auth", "in_progress", map[string]any{"worktree_path": dir, "pipeline": map[string]any{"base_commit": h.git("rev-parse", "main~1")}})
	r, err := h.Cleaner.Remove(t.Context(), to, false)
	if err != nil || !r.Nothing() || !h.there(dir+"/more.txt") {
		t.Errorf("got %+v, %v", r, err)
	}
	list, _, err := h.Cleaner.Look(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != "02-09-auth" {
		t.Errorf("got %+v, %v", list, err)
	}
}

// What a run that was cut off left besides its worktree goes too; worktrees of no task are told of.
func TestLeftoversOfRuns(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := h.done("02-01-one")
	h.git("worktree", "add", "-q", "--detach", dir+"~final", "feature/one")
	h.write(dir+"~final/found.txt", "somebody put this here\n")
	h.git("worktree", "add", "-q", "-b", "stray", filepath.Join(h.Trees, "feature/stray"), "main")
	h.git("worktree", "add", "-q", "-b", "elsewhere", filepath.Join(h.Dir, "../elsewhere"), "main")
	h.git("merge", "-q", "--no-ff", "-m", "merge", "feature/one")
	h.write(".env", "A=1\n")
	h.write(dir+"/.env", "A=1\n")
	list, orphans, err := h.Cleaner.Look(t.Context())
	if err != nil || len(list) != 1 || len(list[0].Trees) != 2 || list[0].Trees[0].Dirty || len(orphans) != 1 || filepath.Base(orphans[0].Path) != "stray" {
		t.Fatalf("got %+v, %+v, %v", list, orphans, err)
	}
	r := h.remove("02-01-one", true)
	h.cleared("02-01-one", dir)
	if h.there(dir+"~final") || len(r.Saved) != 1 || h.git("show", r.Saved[0]+":found.txt") != "somebody put this here" {
		t.Errorf("got %v", r.Saved)
	}
	h.write(dir+"/.env", "") // a folder that is no worktree
	h.remove("02-01-one", false)
	if !h.there(dir + "/.env") {
		t.Error("a folder that is no worktree was removed")
	}
}

// The last child that is merged completes its parent, also when a call before was cut off in between.
func TestParentsOfMerged(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, cut := range []bool{false, true} {
		id := fmt.Sprintf("02-01-child-%v", cut)
		h.done(id)
		h.task("02-01-parent", "planning", map[string]any{"branch": nil})
		if err := h.Cleaner.Store.AddSubtask(h.dir("02-01-parent"), h.dir(id)); err != nil {
			t.Fatal(err)
		}
		h.git("merge", "-q", "--no-ff", "-m", "merge", "feature/"+id[6:])
		if cut {
			if _, err := h.Cleaner.Store.Update(h.dir(id), func(_ *taskdir.Task, e *taskdir.Edit) error { e.Set("status", "completed"); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		h.remove(id, true)
		if got := h.load("02-01-parent").Status; got != "completed" {
			t.Errorf("cut off %v: the parent is %s", cut, got)
		}
	}
}

// It does not matter how a repository stores its objects and settings, nor that it has hooks.
func TestOtherRepositories(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(h *house){
		"sha256":         func(*house) {},
		"worktreeConfig": func(h *house) { h.git("config", "extensions.worktreeConfig", "true") },
		"hooks": func(h *house) {
			for _, hook := range []string{"post-checkout", "reference-transaction", "pre-commit", "post-commit"} {
				h.write(".git/hooks/"+hook, "#!/bin/sh\necho $0 >>"+h.Dir+"/../ran\n")
				if err := os.Chmod(h.path(".git/hooks/"+hook), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		},
		"packed": func(h *house) { h.git("pack-refs", "--all") },
	} {
		t.Run(name, func(t *testing.T) {
			var args []string
			if name == "sha256" {
				args = []string{"--object-format=sha256"}
			}
			h := newHouse(t, args...)
			prepare(h)
			dirs := map[string]string{"02-01-squashed": h.done("02-01-squashed"), "02-01-open": h.done("02-01-open")}
			h.squash("feature/squashed")
			h.write(dirs["02-01-open"]+"/left.txt", "left\n")
			if name == "packed" {
				prepare(h)
			}
			h.remove("02-01-squashed", true)
			h.keeps("02-01-open", true, "not in main")
			r := h.remove("02-01-open", false)
			for id, dir := range dirs {
				h.cleared(id, dir)
			}
			if got := h.git("show", r.Saved[0]+":left.txt"); got != "left" {
				t.Errorf("got %q", got)
			}
		})
	}
}
