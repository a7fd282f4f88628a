package snapshot_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

var excluded = []string{".trellis/tasks/", ".env", "st*ged.txt"} // paths are literal: the last one matches no file

func kinds(list []git.Change) map[string]string {
	m := map[string]string{}
	for _, c := range list {
		m[c.Path] = string(c.Kind)
	}
	return m
}

func TestSnapshot(t *testing.T) {
	gittest.EachFormat(t, func(t *testing.T, b *gittest.Box) {
		ctx, dir := t.Context(), b.Add("feature/x")
		b.Spread(dir)
		base := b.GitIn(dir, "rev-parse", "HEAD")
		index := b.GitIn(dir, "ls-files", "--stage")
		objects := b.Git("count-objects", "-v")
		s := gittest.Must(snapshot.New(b.Repo).Snapshot(ctx, dir, excluded...))(t)
		defer s.Close()

		changes := gittest.Must(s.Changes(ctx, base))(t)
		want := map[string]string{"keep.txt": "M", "staged.txt": "A", "new/un tracked\n\xff.txt": "A", "bin": "A", "gone.txt": "D", "script": "M", "dir/deep.txt": "D", "dir": "A"}
		if got := kinds(changes); !maps.Equal(got, want) {
			t.Errorf("Changes: got %q, want %q", got, want)
		}
		for _, c := range changes {
			switch c.Path {
			case "keep.txt":
				if c.Added != 2 || c.Deleted != 1 {
					t.Errorf("%s: %d added, %d deleted", c.Path, c.Added, c.Deleted)
				}
			case "bin":
				if c.Added != -1 || c.Deleted != -1 {
					t.Errorf("a binary file has %d, %d lines", c.Added, c.Deleted)
				}
			case "script":
				if c.Mode != "100755" {
					t.Errorf("%s has mode %s", c.Path, c.Mode)
				}
			case "dir":
				if c.Mode != "120000" {
					t.Errorf("%s has mode %s", c.Path, c.Mode)
				}
			}
		}
		if got := gittest.Must(s.DiffStat(ctx, base))(t); !strings.Contains(got, " keep.txt ") || !strings.Contains(got, "8 files changed") {
			t.Errorf("DiffStat: got %s", got)
		}
		diff := gittest.Must(s.Diff(ctx, base, 1<<20))(t)
		for _, part := range []string{"-2\n+two\n", "+staged and changed", "GIT binary patch", "Binary files"} {
			if strings.Contains(diff, part) == (part == "GIT binary patch") {
				t.Errorf("Diff: %q in\n%s", part, diff)
			}
		}
		if strings.Contains(diff, "SECRET") || strings.Contains(diff, "task.json") {
			t.Error("Diff shows what is excluded")
		}
		if got := gittest.Must(s.Diff(ctx, base, 200))(t); len(got) > 300 || !strings.Contains(got, "left out") {
			t.Errorf("Diff with a limit: %q", got)
		}
		if b.GitIn(dir, "ls-files", "--stage") != index || b.Git("count-objects", "-v") != objects {
			t.Error("index or objects of the user were touched")
		}

		// The snapshot has the same tree as a commit of these files.
		sha := gittest.Must(b.Repo.Committer().Commit(ctx, dir, git.CommitOptions{Message: "m", Exclude: excluded}))(t)
		if got := gittest.Must(b.Repo.Refs().TreeAt(ctx, sha))(t); got != s.Tree {
			t.Errorf("TreeAt: got %s, want %s", got, s.Tree)
		}
		if got := gittest.Must(snapshot.New(b.Repo).TreeOf(ctx, dir, excluded...))(t); got != s.Tree {
			t.Errorf("TreeOf: got %s, want %s", got, s.Tree)
		}
		left, _ := filepath.Glob(filepath.Join(os.TempDir(), "trellis-git-*"))
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if now, _ := filepath.Glob(filepath.Join(os.TempDir(), "trellis-git-*")); len(now) >= len(left) && len(left) > 1 {
			t.Logf("other tests keep snapshots too: %d, %d", len(left), len(now))
		}
	}, gittest.HardFormats...)
}

func TestTreeOfSeesEveryChange(t *testing.T) {
	b := gittest.New(t)
	ctx := t.Context()
	seen := map[string]string{}
	look := func(what string) {
		t.Helper()
		tree := gittest.Must(snapshot.New(b.Repo).TreeOf(ctx, b.Dir))(t)
		if before, ok := seen[tree]; ok {
			t.Errorf("%s: the same tree as %s", what, before)
		}
		seen[tree] = what
		if again := gittest.Must(snapshot.New(b.Repo).TreeOf(ctx, b.Dir))(t); again != tree {
			t.Errorf("%s: another tree the second time", what)
		}
	}
	look("begin")
	for i := range 20 { // of the same size and nearly the same time: only the content differs
		b.Write("a.txt", string(rune('b'+i))+"\n")
		look("rewritten with " + string(rune('b'+i)))
	}
	b.Write("b.txt", "")
	look("new empty file")
	if err := os.Chmod(b.Path("b.txt"), 0o755); err != nil {
		t.Fatal(err)
	}
	look("made executable")
	b.Git("add", "b.txt")
	b.Write("c/d", "x")
	look("new folder")
	if err := os.Remove(b.Path("a.txt")); err != nil {
		t.Fatal(err)
	}
	look("deleted")
}

func TestRestore(t *testing.T) {
	gittest.EachFormat(t, func(t *testing.T, b *gittest.Box) {
		ctx, dir := t.Context(), b.Add("feature/x")
		b.Spread(dir)
		s := gittest.Must(snapshot.New(b.Repo).Snapshot(ctx, dir, excluded...))(t)
		defer s.Close()
		if got := gittest.Must(s.ChangesSince(ctx))(t); got != nil {
			t.Errorf("Drift of nothing: %v", got)
		}
		outside := filepath.Join(filepath.Dir(b.Dir), "outside")
		b.Write(filepath.Join(outside, "victim"), "v")

		b.Write(filepath.Join(dir, "keep.txt"), "agent\n")
		b.Write(filepath.Join(dir, "new/un tracked\n\xff.txt"), "agent\n")
		b.Write(filepath.Join(dir, "agent/made/this"), "x")
		b.Write(filepath.Join(dir, "gone.txt/now/a-folder"), "x")
		b.Write(filepath.Join(dir, ".env"), "SECRET=2")
		for _, err := range []error{
			os.Remove(filepath.Join(dir, "bin")),
			os.Chmod(filepath.Join(dir, "script"), 0o644),
			os.Remove(filepath.Join(dir, "dir")),
			os.MkdirAll(filepath.Join(dir, "dir", "sub"), 0o755),
			os.RemoveAll(filepath.Join(dir, "ignored")),
			os.Symlink(outside, filepath.Join(dir, "way-out")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		b.Write(filepath.Join(dir, "dir/sub/x"), "x")

		changed := gittest.Must(s.Restore(ctx, ""))(t)
		want := map[string]string{"keep.txt": "M", "new/un tracked\n\xff.txt": "M", "agent/made/this": "A", "gone.txt/now/a-folder": "A", "bin": "D", "script": "M", "dir": "D", "dir/sub/x": "A", "way-out": "A"}
		if got := kinds(changed); !maps.Equal(got, want) {
			t.Errorf("Restore: got %q, want %q", got, want)
		}
		if got := gittest.Must(snapshot.New(b.Repo).TreeOf(ctx, dir, excluded...))(t); got != s.Tree {
			t.Errorf("the tree is %s, was %s", got, s.Tree)
		}
		if got, _ := os.Readlink(filepath.Join(dir, "dir")); got != "keep.txt" {
			t.Errorf("dir points to %q", got)
		}
		if b.Read(filepath.Join(outside, "victim")) != "v" || b.Read(filepath.Join(dir, ".env")) != "SECRET=2" {
			t.Error("something else was touched")
		}
		if _, err := os.Stat(filepath.Join(dir, "agent")); !errors.Is(err, os.ErrNotExist) {
			t.Error("an empty folder stays")
		}
		if got := gittest.Must(s.Restore(ctx, ""))(t); got != nil {
			t.Errorf("the second time: %v", got)
		}
	}, gittest.HardFormats...)
}

// A worktree inside the main checkout that has lost its .git file must not be taken for a folder of that checkout.
func TestWorktreeWithinTheCheckout(t *testing.T) {
	b := gittest.New(t)
	dir := b.Path("trees/x")
	if err := b.Repo.Worktrees().Add(t.Context(), git.NewWorktree{Path: dir, Branch: "feature/x", Base: b.Git("rev-parse", "main")}); err != nil {
		t.Fatal(err)
	}
	s := gittest.Must(snapshot.New(b.Repo).Snapshot(t.Context(), dir))(t)
	defer s.Close()
	if err := os.Remove(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ChangesSince(t.Context()); err == nil {
		t.Errorf("git went up: %v", got)
	}
}

func TestStatus(t *testing.T) {
	gittest.EachFormat(t, func(t *testing.T, b *gittest.Box) {
		ctx, dir := t.Context(), b.Add("feature/x")
		if got := gittest.Must(b.Repo.Index().Status(ctx, dir))(t); len(got) != 0 {
			t.Errorf("clean: got %v", got)
		}
		b.Spread(dir)
		got := map[string]string{}
		for _, e := range gittest.Must(b.Repo.Index().Status(ctx, dir, excluded...))(t) {
			got[e.Path] = e.Code
		}
		want := map[string]string{"keep.txt": ".M", "staged.txt": "AM", "new/": "??", "bin": "??", "gone.txt": ".D", "script": ".M", "dir/deep.txt": ".D", "dir": "??"}
		if !maps.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if list := gittest.Must(b.Repo.Index().Status(ctx, dir))(t); !slices.Contains(list, git.Entry{Path: ".env", Code: "??"}) {
			t.Errorf("nothing excluded: got %v", list)
		}
	}, gittest.HardFormats...)
}

func TestStatusOfConflict(t *testing.T) {
	b := gittest.New(t)
	b.Git("checkout", "-q", "-b", "other")
	b.Write("a.txt", "other\n")
	b.Git("commit", "-qam", "other")
	b.Git("checkout", "-q", "main")
	b.Write("a.txt", "main\n")
	b.Git("commit", "-qam", "main")
	b.Try(b.Dir, "merge", "-q", "other")
	if got := gittest.Must(b.Repo.Index().Status(t.Context(), b.Dir))(t); !slices.Equal(got, []git.Entry{{Path: "a.txt", Code: "UU"}}) {
		t.Errorf("got %v", got)
	}
	gittest.Must(snapshot.New(b.Repo).TreeOf(t.Context(), b.Dir))(t)
	_, err := b.Repo.Committer().Commit(t.Context(), b.Dir, git.CommitOptions{Message: "m"})
	if err == nil || !strings.Contains(err.Error(), "a.txt has conflicts") {
		t.Errorf("got %v", err)
	}
	sha := gittest.Must(snapshot.NewBackups(b.Repo).Backup(t.Context(), b.Dir, "refs/trellis/backup/t/1", "m"))(t)
	if got := b.Git("show", sha+":a.txt"); !strings.Contains(got, "<<<<<<<") {
		t.Errorf("saved: %q", got)
	}
}

func TestRepositoriesInTheWorkTree(t *testing.T) {
	b := gittest.New(t)
	ctx := t.Context()
	b.Git("init", "-q", "lib/unborn")
	b.Write("lib/unborn/f", "f")
	b.Write("new.txt", "n")
	tree := gittest.Must(snapshot.New(b.Repo).TreeOf(ctx, b.Dir))(t)
	var nested *git.EmbeddedRepoError
	if _, err := b.Repo.Committer().Commit(ctx, b.Dir, git.CommitOptions{Message: "m"}); !errors.As(err, &nested) || !slices.Equal(nested.Paths, []string{"lib/unborn"}) {
		t.Errorf("without commit: got %v", err)
	}
	if _, err := snapshot.NewBackups(b.Repo).Backup(ctx, b.Dir, "refs/trellis/backup/t/1", "m"); !errors.As(err, &nested) {
		t.Errorf("Backup: got %v", err)
	}
	b.GitIn(b.Path("lib/unborn"), "add", "-A")
	b.GitIn(b.Path("lib/unborn"), "commit", "-qm", "born")
	if got := gittest.Must(snapshot.New(b.Repo).TreeOf(ctx, b.Dir))(t); got == tree {
		t.Error("the same tree with and without it")
	}
	if _, err := b.Repo.Committer().Commit(ctx, b.Dir, git.CommitOptions{Message: "m"}); !errors.As(err, &nested) || !slices.Equal(nested.Paths, []string{"lib/unborn"}) {
		t.Errorf("with commit: got %v", err)
	}
	if _, err := snapshot.NewBackups(b.Repo).Backup(ctx, b.Dir, "refs/trellis/backup/t/1", "m"); !errors.As(err, &nested) {
		t.Errorf("Backup: got %v", err)
	}
	b.Git("reset", "-q")
	library := filepath.Join(filepath.Dir(b.Dir), "library")
	if err := os.Rename(b.Path("lib/unborn"), library); err != nil {
		t.Fatal(err)
	}
	b.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library, "sub")
	gittest.Must(b.Repo.Committer().Commit(ctx, b.Dir, git.CommitOptions{Message: "a submodule"}))(t)
	wt := b.Add("feature/with-submodule")
	b.GitIn(wt, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
	gittest.Must(snapshot.NewBackups(b.Repo).Backup(ctx, wt, "refs/trellis/backup/t/2", "m"))(t)
	b.Write(filepath.Join(wt, "sub/f"), "changed")
	if _, err := snapshot.NewBackups(b.Repo).Backup(ctx, wt, "refs/trellis/backup/t/2", "m"); !errors.As(err, &nested) || !slices.Equal(nested.Paths, []string{"sub"}) {
		t.Errorf("Backup with a changed submodule: got %v", err)
	}
	if err := b.Repo.Worktrees().Remove(ctx, b.Tree("feature/with-submodule")); err != nil {
		t.Error(err)
	}
}

// Snapshots that share a folder for their objects can be compared after the first one is closed.
func TestSnapshotsInOneFolder(t *testing.T) {
	gittest.EachFormat(t, func(t *testing.T, b *gittest.Box) {
		ctx, dir := t.Context(), b.Add("feature/x")
		objects := filepath.Join(filepath.Dir(b.Dir), "kept: objects", "of a run")
		b.Write(filepath.Join(dir, "before"), "not committed\n")
		before := b.Git("count-objects", "-v")
		first := gittest.Must(snapshot.New(b.Repo).SnapshotIn(ctx, objects, dir))(t)
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		b.Write(filepath.Join(dir, "before"), "changed\n")
		b.Write(filepath.Join(dir, "after"), "new\n")
		second := gittest.Must(snapshot.New(b.Repo).SnapshotIn(ctx, objects, dir))(t)
		defer second.Close()
		if got, want := kinds(gittest.Must(second.Changes(ctx, first.Tree))(t)), map[string]string{"before": "M", "after": "A"}; !maps.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if diff := gittest.Must(second.Diff(ctx, first.Tree, 1<<20))(t); !strings.Contains(diff, "-not committed\n+changed\n") {
			t.Errorf("got %s", diff)
		}
		if now := b.Git("count-objects", "-v"); now != before {
			t.Errorf("the repository's objects: %s, were %s", now, before)
		}
	}, gittest.HardFormats...)
}
