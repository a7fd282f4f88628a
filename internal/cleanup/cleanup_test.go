package cleanup_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/cleanup/cleanuptest"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/taskdir"
)

// house adds to cleanuptest.House what only the tests of this package need.
type house struct{ *cleanuptest.House }

func newHouse(t *testing.T, initArgs ...string) *house {
	t.Helper()
	return &house{cleanuptest.New(t, initArgs...)}
}

func (h *house) squash(branch string) {
	h.Helper()
	h.Write("c.txt", "meanwhile\n")
	h.Git("add", "-A")
	h.Git("commit", "-qm", "meanwhile")
	h.Git("merge", "-q", "--squash", branch)
	h.Git("commit", "-qm", "squashed")
}

// look returns what the task left.
func (h *house) look(id string) cleanup.Leftover {
	h.Helper()
	l, err := h.Cleaner.LookAt(h.Context(), h.TaskDir(id))
	if err != nil {
		h.Fatal(err)
	}
	return l
}

func (h *house) remove(id string, merged bool) cleanup.Removal {
	h.Helper()
	r, err := h.Cleaner.Remove(h.Context(), h.TaskDir(id), merged)
	if err != nil {
		h.Fatal(err)
	}
	return r
}

// cleared checks that the worktree and the branch of a task are gone.
func (h *house) cleared(id, dir string) {
	h.Helper()
	if h.There(dir) || strings.Contains(h.Git("worktree", "list"), dir) {
		h.Errorf("%s: its worktree is there", id)
	}
	if out := h.Git("for-each-ref", "refs/heads/feature/"+id[6:]); out != "" {
		h.Errorf("%s: its branch is there: %s", id, out)
	}
	if t := h.Load(id); t.WorktreePath != "" {
		h.Errorf("%s: it still names its worktree %s", id, t.WorktreePath)
	}
}

// A merged branch is found however it was merged, also while a worktree has it checked out. A branch without a commit of its own is
// not taken for merged.
func TestMergedIsFound(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	merges := map[string]string{
		"02-01-merged": h.Done("02-01-merged"), "02-01-squashed": h.Done("02-01-squashed"), "02-01-picked": h.Done("02-01-picked"),
		"02-01-remote": h.Done("02-01-remote"), "02-01-open": h.Done("02-01-open"), "02-01-reset": h.Done("02-01-reset"), "02-01-deleted": h.Done("02-01-deleted"),
	}
	if out := h.Git("branch", "--merged"); strings.Contains(out, "feature") {
		t.Fatalf("merged too early: %s", out)
	}
	h.squash("feature/squashed")
	h.Git("cherry-pick", "feature/picked")
	h.Git("merge", "-q", "--no-ff", "-m", "merge", "feature/merged")
	h.Git("update-ref", "refs/remotes/origin/main", "feature/remote")
	h.Git("merge", "-q", "--no-ff", "-m", "merge", "feature/reset")
	h.Git("reset", "-q", "--hard", "HEAD~1")
	h.Git("merge", "-q", "--no-ff", "-m", "merge", "feature/deleted")
	h.Git("worktree", "remove", "--force", merges["02-01-deleted"])
	h.Git("branch", "-D", "feature/deleted")
	// The branch of a task that was cancelled before anything was committed.
	fresh := filepath.Join(h.Trees, "feature/fresh")
	h.Git("worktree", "add", "-q", "--no-track", "-b", "feature/fresh", fresh, "main")
	h.Task("02-01-fresh", "cancelled", map[string]any{"worktree_path": fresh, "pipeline": map[string]any{"base_commit": h.Git("rev-parse", "main")}})
	h.Git("merge", "-q", "--ff-only", "main")
	if out := h.Git("branch", "--merged"); !strings.Contains(out, "+ feature/fresh") || !strings.Contains(out, "+ feature/merged") {
		t.Fatalf("git prints these branches otherwise by now:\n%s", out)
	}
	h.Git("commit", "-q", "--allow-empty", "-m", "later")
	moved := filepath.Join(h.Trees, "feature/moved") // without a commit of its own, on a newer commit of its base
	h.Git("worktree", "add", "-q", "--no-track", "-b", "feature/moved", moved, "main")
	h.Task("02-01-moved", "review", map[string]any{"worktree_path": moved, "pipeline": map[string]any{"base_commit": h.Git("rev-parse", "main~1")}})

	list, _, err := h.Cleaner.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	completed, err := h.Cleaner.Completer().CompleteMerged(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"02-01-merged": "ancestor main completed", "02-01-squashed": "patches main completed", "02-01-picked": "patches main completed", "02-01-remote": "ancestor origin/main completed",
		"02-01-deleted": "ancestor main completed", "02-01-open": "  review", "02-01-reset": "  review", "02-01-fresh": "  cancelled", "02-01-moved": "  review",
	}
	for _, l := range list {
		task := h.Load(l.ID)
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
			h.Keeps(id, true, "not in main or origin/main")
		default:
			h.remove(id, true)
			h.cleared(id, dir)
		}
	}
	h.Keeps("02-01-fresh", true, "no commit of its own")
	h.Keeps("02-01-moved", true, "no commit of its own")
	saved := h.Git("for-each-ref", "--format=%(refname)", "refs/trellis")
	if want := "refs/trellis/backup/02-01-picked/2-branch\nrefs/trellis/backup/02-01-squashed/2-branch"; saved != want {
		t.Errorf("saved are\n%s\nwant\n%s", saved, want)
	}
}

// Removing merged work also removes its records of pushes, in submodules too. Those of unmerged work and of other tasks stay.
func TestPushesForgotten(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Done("02-01-merged")
	h.Done("02-01-merged-too")
	h.Done("02-01-open")
	h.Git("merge", "-q", "--no-ff", "-m", "merge", "feature/merged")
	module := h.Path(".git/modules/libs/cli")
	h.Git("clone", "-q", "--bare", h.Dir, module)
	for _, id := range []string{"02-01-merged", "02-01-merged-too", "02-01-open"} {
		for _, dir := range []string{h.Dir, module} {
			h.GitIn(dir, "update-ref", "refs/trellis/pushed/"+id+"/"+h.Git("rev-parse", "feature/"+id[6:]), "feature/"+id[6:])
		}
	}
	h.remove("02-01-merged", true)
	h.remove("02-01-open", false)
	for _, dir := range []string{h.Dir, module} {
		got := h.GitIn(dir, "for-each-ref", "--format=%(refname)", "refs/trellis/pushed")
		if strings.Contains(got, "/02-01-merged/") || !strings.Contains(got, "/02-01-merged-too/") || !strings.Contains(got, "/02-01-open/") {
			t.Errorf("remembered in %s is\n%s", dir, got)
		}
	}
}

// Committed, staged, changed and untracked files are in the backup of a worktree. Ignored files are listed, since no backup has them.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := h.Done("02-01-work")
	h.GitIn(dir, "update-index", "--add", "--cacheinfo", "160000,"+h.Git("rev-parse", "HEAD")+",lib") // a submodule that is not checked out
	h.GitIn(dir, "commit", "-qm", "with lib")
	h.Write(dir+"/lib/mine.txt", "git sees none\n")
	h.Write(dir+"/staged.txt", "staged\n")
	h.GitIn(dir, "add", "staged.txt")
	h.Write(dir+"/staged.txt", "then changed\n")
	h.Write(dir+"/a.txt", "changed\n")
	h.Write(dir+"/new/file.txt", "untracked\n")
	h.Write(dir+"/my.secret", "ignored\n")
	h.Write(dir+"/node_modules/x/index.js", "made anew\n")
	l := h.look("02-01-work")
	if len(l.Trees) != 1 || !l.Trees[0].Dirty || strings.Join(l.Trees[0].Ignored, " ") != "lib/ my.secret" || strings.Join(l.Trees[0].Made, " ") != "node_modules/" || l.Size() < 4096 || !l.Saves() {
		t.Errorf("got %+v", l)
	}
	tip := l.Tip
	h.Keeps("02-01-work", true, "not in main")
	r := h.remove("02-01-work", false)
	h.cleared("02-01-work", dir)
	if len(r.Saved) != 1 || r.Saved[0] != "refs/trellis/backup/02-01-work/2" || h.Load("02-01-work").Status != "review" {
		t.Fatalf("got %+v, task is %s", r.Saved, h.Load("02-01-work").Status)
	}
	h.Git("merge-base", "--is-ancestor", tip, r.Saved[0])
	for file, want := range map[string]string{"staged.txt": "then changed", "a.txt": "changed", "new/file.txt": "untracked", "02-01-work.txt": "done"} {
		if got := h.Git("show", r.Saved[0]+":"+file); got != want {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
	if got := h.Git("log", "-m", "-p", "--format=", r.Saved[0], "--", "staged.txt"); !strings.Contains(got, "+staged") {
		t.Errorf("what was staged is lost:\n%s", got)
	}
	list, err := h.Cleaner.Backups().List(t.Context(), "")
	if err != nil || len(list) != 1 || list[0].Task != "02-01-work" || list[0].Attempt != "2" || list[0].Commits != 4 {
		t.Fatalf("got %+v, %v", list, err)
	}
	h.Git(strings.Fields(list[0].Restore)[1:]...)
	if got := h.Git("show", "restored/02-01-work-2:a.txt"); got != "changed" {
		t.Errorf("restored: got %q", got)
	}
	if again := h.remove("02-01-work", false); len(again.Saved) > 0 || !again.Nothing() {
		t.Errorf("again: got %+v", again)
	}
}

// A task's worktree is found and removed even if it is outside the configured folder and task.json does not name it.
func TestWorktreeMadeElsewhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := filepath.Join(h.Dir, "../elsewhere")
	if err := h.Cleaner.Repo.Worktrees().Add(t.Context(), git.NewWorktree{Path: dir, Branch: "feature/far", Base: h.Git("rev-parse", "main"), Owner: "02-01-far"}); err != nil {
		t.Fatal(err)
	}
	h.Write(dir+"/new.txt", "unsaved\n")
	h.Task("02-01-far", "failed", map[string]any{"worktree_path": "", "pipeline": map[string]any{"base_commit": h.Git("rev-parse", "main")}})
	if l := h.look("02-01-far"); l.Keeps != "" || len(l.Trees) != 1 || !l.Trees[0].Dirty {
		t.Fatalf("got %+v", l)
	}
	r := h.remove("02-01-far", false)
	h.cleared("02-01-far", dir)
	if len(r.Saved) != 1 || h.Git("show", r.Saved[0]+":new.txt") != "unsaved" {
		t.Errorf("saved is %v", r.Saved)
	}
}

// If a run removes a checkout while cleanup inspects it, the checkout is listed as gone, and the task's other worktree is still listed.
func TestCheckoutThatGoesMeanwhile(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	work, final := h.Done("02-01-work"), filepath.Join(h.Trees, "feature/work~final")
	h.Git("worktree", "add", "-q", "--detach", final, "feature/work")
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	script := "#!/bin/sh\n[ \"$PWD\" != " + final + " ] || " + real + " -C " + h.Dir + " worktree remove --force " + final + "\nexec " + real + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	h.Cleaner.Repo.Env = append(h.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	l := h.look("02-01-work")
	if h.There(final) {
		t.Fatal("nothing took the checkout away")
	}
	if len(l.Trees) != 2 || l.Keeps != "" || l.Trees[0].Path == work && (l.Trees[0].Gone || !l.Trees[1].Gone) {
		t.Errorf("got %+v", l)
	}
}

// Cleanup does not delete the branch at the remote, but returns the command that does.
func TestRemoteBranchIsTold(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := h.Done("02-01-work")
	if l := h.look("02-01-work"); l.Remote != "" {
		t.Errorf("got %q", l.Remote)
	}
	h.Git("init", "-q", "--bare", "../origin.git")
	h.Git("remote", "add", "origin", "../origin.git")
	h.Git("push", "-q", "origin", "main", "feature/work")
	h.Git("merge", "-q", "feature/work")
	r := h.remove("02-01-work", true)
	h.cleared("02-01-work", dir)
	if r.Remote != "origin" || !strings.Contains(h.Git("ls-remote", "origin"), "feature/work") {
		t.Fatalf("got %+v", r.Leftover)
	}
	h.Git(strings.Fields(r.RemoteDeleteCommand())[1:]...)
	if left := h.Git("ls-remote", "origin"); strings.Contains(left, "feature/work") {
		t.Errorf("it is still there:\n%s", left)
	}
}

// Commits that only a detached HEAD of a worktree has are reported and saved.
func TestDetachedWithoutBranch(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := h.Done("02-01-work")
	if l := h.look("02-01-work"); l.Trees[0].Loose {
		t.Errorf("got %+v", l.Trees)
	}
	h.GitIn(dir, "checkout", "-q", "--detach")
	h.GitIn(dir, "commit", "-q", "--allow-empty", "-m", "more")
	only := h.GitIn(dir, "rev-parse", "HEAD")
	if l := h.look("02-01-work"); !l.Saves() || !l.Trees[0].Loose || l.Trees[0].Dirty {
		t.Errorf("got %+v", l)
	}
	h.Git("branch", "-q", "-D", "feature/work")
	if l := h.look("02-01-work"); !l.Saves() || l.Tip != "" {
		t.Errorf("without its branch: got %+v", l)
	}
	r := h.remove("02-01-work", false)
	h.cleared("02-01-work", dir)
	if len(r.Saved) != 1 || h.Git("rev-parse", r.Saved[0]) != only {
		t.Errorf("got %q", r.Saved)
	}
}

// A repository below an ignored folder with files and no commit yet is not taken for build output: the worktree is kept.
func TestUnbornBelowIgnored(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := h.Done("02-01-work")
	h.GitIn(dir, "init", "-q", "node_modules/mine")
	if l := h.look("02-01-work"); len(l.Trees[0].Nested) != 0 {
		t.Errorf("an empty one is taken for work: %+v", l.Trees)
	}
	h.Write(dir+"/node_modules/mine/draft.txt", "weeks of work\n")
	h.Keeps("02-01-work", false, "node_modules/mine")
}

// Cleanup leaves alone whatever may be in use or may not be the task's own.
func TestLeftAlone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, status := range []string{"in_progress", "paused", "waiting", "ready"} {
		id := "02-01-" + strings.ReplaceAll(status, "_", "-")
		dir := h.Done(id)
		h.Task(id, status, map[string]any{"worktree_path": dir, "pipeline": map[string]any{"base_commit": h.Git("rev-parse", "main")}})
		h.Git("merge", "-q", "--no-ff", "-m", "merge", "feature/"+id[6:])
		h.Keeps(id, true, status)
		h.Keeps(id, false, status)
	}
	h.Done("02-01-held")
	run, err := h.Cleaner.Store.RunDir(h.TaskDir("02-01-held"))
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
	h.Keeps("02-01-held", false, "")
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	h.Git("worktree", "lock", "--reason", "on a stick", h.Done("02-01-locked"))
	h.Keeps("02-01-locked", false, "on a stick")
	for id, where := range map[string]string{"02-01-inner": "inner", "02-01-ignored": "node_modules/dep"} {
		inner := filepath.Join(h.Done(id), where)
		h.Git("init", "-q", inner)
		h.GitIn(inner, "commit", "-q", "--allow-empty", "-m", "only here")
		h.Keeps(id, false, where)
	}
	h.Done("02-01-elsewhere")
	h.Git("worktree", "remove", "--force", filepath.Join(h.Trees, "feature/elsewhere"))
	h.Git("worktree", "add", "-q", filepath.Join(h.Dir, "../mine"), "feature/elsewhere")
	h.Keeps("02-01-elsewhere", false, "checked out in")
	lost := h.Done("02-01-lost")
	if err := os.RemoveAll(filepath.Join(h.Dir, ".git/worktrees/lost")); err != nil {
		t.Fatal(err)
	}
	h.Keeps("02-01-lost", false, "`mv "+lost+" ")
	h.Task("02-01-main", "review", map[string]any{"branch": "main", "commit": h.Git("rev-parse", "main")})
	h.Keeps("02-01-main", false, "not a branch of its own")
}

// Whatever worktree_path names, by mistake or with intent, only the task's own worktree is removed.
func TestWrongPaths(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	mine := filepath.Join(h.Dir, "../mine")
	h.Git("worktree", "add", "-q", "-b", "mine", mine, "main")
	h.Write(mine+"/new.txt", "unsaved\n")
	other := filepath.Join(h.Dir, "../other/folder")
	h.Write(other+"/file.txt", "not ours\n")
	for i, path := range []string{h.Dir, mine, other, filepath.Join(h.Dir, ".."), "/", "../mine"} {
		id := fmt.Sprintf("02-01-wrong%d", i)
		dir := h.Done(id)
		task := h.Load(id)
		h.Task(id, "review", map[string]any{"worktree_path": path, "commit": task.Commit, "pipeline": map[string]any{"base_commit": task.Pipeline.BaseCommit}})
		h.remove(id, false)
		if h.There(dir) {
			t.Errorf("%s: its worktree is there", id)
		}
		if got := h.Git("rev-parse", "refs/trellis/backup/"+id+"/1-branch"); got != task.Commit {
			t.Errorf("%s: got %s saved, want %s", id, got, task.Commit)
		}
	}
	for _, file := range []string{mine + "/new.txt", other + "/file.txt", "a.txt"} {
		if !h.There(file) {
			t.Errorf("%s is gone", file)
		}
	}
	if got := h.Git("rev-parse", "mine"); got != h.Git("rev-parse", "main") {
		t.Errorf("mine is at %s", got)
	}
}

// If a newer task has a branch with the name of an old task's, cleanup of the old task leaves the newer one's branch and worktree alone.
func TestBranchOfAnother(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Done("02-01-auth")
	h.Git("merge", "-q", "--no-ff", "-m", "merge", "feature/auth")
	h.remove("02-01-auth", true)
	to, err := h.Cleaner.Store.Archive(h.TaskDir("02-01-auth"))
	if err != nil {
		t.Fatal(err)
	}
	dir := h.Done("02-09-auth")
	h.Git("merge", "-q", "--no-ff", "-m", "merge", "feature/auth")
	h.Write(dir+"/more.txt", "at work\n")
	h.Task("02-09-auth", "in_progress", map[string]any{"worktree_path": dir, "pipeline": map[string]any{"base_commit": h.Git("rev-parse", "main~1")}})
	r, err := h.Cleaner.Remove(t.Context(), to, false)
	if err != nil || !r.Nothing() || !h.There(dir+"/more.txt") {
		t.Errorf("got %+v, %v", r, err)
	}
	list, _, err := h.Cleaner.Look(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != "02-09-auth" {
		t.Errorf("got %+v, %v", list, err)
	}
}

// The ~final worktree of a run that was cut off is removed too, and its files are saved. Worktrees of no task are listed as orphans.
func TestLeftoversOfRuns(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := h.Done("02-01-one")
	h.Git("worktree", "add", "-q", "--detach", dir+"~final", "feature/one")
	h.Write(dir+"~final/found.txt", "somebody put this here\n")
	h.Git("worktree", "add", "-q", "-b", "stray", filepath.Join(h.Trees, "feature/stray"), "main")
	h.Git("worktree", "add", "-q", "-b", "elsewhere", filepath.Join(h.Dir, "../elsewhere"), "main")
	h.Git("merge", "-q", "--no-ff", "-m", "merge", "feature/one")
	h.Write(".env", "A=1\n")
	h.Write(dir+"/.env", "A=1\n")
	list, orphans, err := h.Cleaner.Look(t.Context())
	if err != nil || len(list) != 1 || len(list[0].Trees) != 2 || list[0].Trees[0].Dirty || len(orphans) != 1 || filepath.Base(orphans[0].Path) != "stray" {
		t.Fatalf("got %+v, %+v, %v", list, orphans, err)
	}
	r := h.remove("02-01-one", true)
	h.cleared("02-01-one", dir)
	if h.There(dir+"~final") || len(r.Saved) != 1 || h.Git("show", r.Saved[0]+":found.txt") != "somebody put this here" {
		t.Errorf("got %v", r.Saved)
	}
	h.Write(dir+"/.env", "") // a folder that is not a worktree
	h.remove("02-01-one", false)
	if !h.There(dir + "/.env") {
		t.Error("a folder that is not a worktree was removed")
	}
}

// When the last child is merged, its parent is completed, even if an earlier call was cut off after it completed the child.
func TestParentsOfMerged(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, cut := range []bool{false, true} {
		id := fmt.Sprintf("02-01-child-%v", cut)
		h.Done(id)
		h.Task("02-01-parent", "planning", map[string]any{"branch": nil})
		if err := h.Cleaner.Store.AddSubtask(h.TaskDir("02-01-parent"), h.TaskDir(id)); err != nil {
			t.Fatal(err)
		}
		h.Git("merge", "-q", "--no-ff", "-m", "merge", "feature/"+id[6:])
		if cut {
			if _, err := h.Cleaner.Store.Update(h.TaskDir(id), func(_ *taskdir.Task, e *taskdir.Edit) error { e.Set("status", "completed"); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		h.remove(id, true)
		if got := h.Load("02-01-parent").Status; got != "completed" {
			t.Errorf("cut off %v: the parent is %s", cut, got)
		}
	}
}

// Cleanup works with any object format, with worktree settings, hooks and packed refs.
func TestOtherRepositories(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(h *house){
		"sha256":         func(*house) {},
		"worktreeConfig": func(h *house) { h.Git("config", "extensions.worktreeConfig", "true") },
		"hooks": func(h *house) {
			for _, hook := range []string{"post-checkout", "reference-transaction", "pre-commit", "post-commit"} {
				h.Write(".git/hooks/"+hook, "#!/bin/sh\necho $0 >>"+h.Dir+"/../ran\n")
				if err := os.Chmod(h.Path(".git/hooks/"+hook), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		},
		"packed": func(h *house) { h.Git("pack-refs", "--all") },
	} {
		t.Run(name, func(t *testing.T) {
			var args []string
			if name == "sha256" {
				args = []string{"--object-format=sha256"}
			}
			h := newHouse(t, args...)
			prepare(h)
			dirs := map[string]string{"02-01-squashed": h.Done("02-01-squashed"), "02-01-open": h.Done("02-01-open")}
			h.squash("feature/squashed")
			h.Write(dirs["02-01-open"]+"/left.txt", "left\n")
			if name == "packed" {
				prepare(h)
			}
			h.remove("02-01-squashed", true)
			h.Keeps("02-01-open", true, "not in main")
			r := h.remove("02-01-open", false)
			for id, dir := range dirs {
				h.cleared(id, dir)
			}
			if got := h.Git("show", r.Saved[0]+":left.txt"); got != "left" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Whatever replaced a task's worktree is listed with the task, and not also as an orphan.
func TestSwappedIsNoOrphan(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := h.Done("02-01-swapped")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	h.Write(dir, "a file\n")
	list, orphans, err := h.Cleaner.Look(t.Context())
	if err != nil || len(list) != 1 || !strings.Contains(list[0].Keeps, "a file is in its place") || len(orphans) > 0 {
		t.Errorf("got %+v and %+v, %v", list, orphans, err)
	}
}

// The command listed for an orphan removes it even if tracked files are missing or it has uncommitted work, which the command stashes.
func TestOrphanWithWork(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(h *house, dir string){
		"work": func(h *house, dir string) { h.Write(dir+"/left.txt", "left\n") },
		"missing": func(h *house, dir string) {
			if err := os.Remove(dir + "/a.txt"); err != nil {
				h.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			dir := h.Done("02-01-gone")
			change(h, dir)
			if err := os.RemoveAll(h.TaskDir("02-01-gone")); err != nil {
				t.Fatal(err)
			}
			_, orphans, err := h.Cleaner.Look(t.Context())
			if err != nil || len(orphans) != 1 {
				t.Fatalf("got %+v, %v", orphans, err)
			}
			cmd := exec.Command("sh", "-c", orphans[0].Next)
			cmd.Dir, cmd.Env = h.Dir, h.Env
			if out, err := cmd.CombinedOutput(); err != nil || durable.Exists(dir) {
				t.Fatalf("%s: %v\n%s", orphans[0].Next, err, out)
			}
			if name == "work" && h.Git("show", "stash@{0}^3:left.txt") != "left" {
				t.Error("what it held is not in the stash")
			}
		})
	}
}

// An orphan that was made for a task says so, and lists the command that repairs the task or else removes the orphan.
func TestOrphanOfATask(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, id := range []string{"02-01-edited", "02-01-broken", "02-01-gone", "02-01-new", "02-01-kept"} {
		dir := filepath.Join(h.Trees, "feature", id[6:])
		w := git.NewWorktree{Path: dir, Branch: "feature/" + id[6:], Base: h.Git("rev-parse", "main"), Owner: id}
		if err := h.Cleaner.Repo.Worktrees().Add(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		switch id[6:] {
		case "edited":
			h.Task(id, "review", map[string]any{"branch": "feature/other", "worktree_path": dir})
		case "broken":
			h.Write(filepath.Join(h.TaskDir(id), "task.json"), `{"status": `)
		case "kept":
			h.Write(filepath.Join(filepath.Dir(h.TaskDir(id)), "archive", "2026-02", id, "task.json"), `{"status": `)
		case "new":
			h.Task(id, "ready", map[string]any{})
		}
	}
	_, orphans, err := h.Cleaner.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range orphans {
		got[filepath.Base(o.Path)] = o.Why + "; " + o.Next
	}
	remove := "git worktree remove " + filepath.Join(h.Trees, "feature") + "/"
	want := map[string]string{
		"edited": "was made for 02-01-edited, which names the branch feature/other by now; trellis task set-branch 02-01-edited feature/edited",
		"broken": "was made for 02-01-broken, which can't be read; trellis validate 02-01-broken",
		"kept":   "was made for 02-01-kept, which is archived and can't be read; " + remove + "kept",
		"gone":   "belongs to no task; " + remove + "gone",
		"new":    "was made for 02-01-new, which does not know it; " + remove + "new",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
