package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// swaps holds functions that replace the worktree at dir by something else, or move it away.
var swaps = map[string]func(b *gittest.Box, dir, other string){
	"a link to the main checkout": func(b *gittest.Box, dir, _ string) { away(b, dir); link(b, b.Dir, dir) },
	"a link to another worktree":  func(b *gittest.Box, dir, other string) { away(b, dir); link(b, other, dir) },
	"a link to itself, moved":     func(b *gittest.Box, dir, _ string) { link(b, away(b, dir), dir) },
	"the .git of another worktree": func(b *gittest.Box, dir, other string) {
		b.Write(filepath.Join(dir, ".git"), b.Read(filepath.Join(other, ".git")))
	},
	"a link to the .git of another worktree": func(b *gittest.Box, dir, other string) {
		os.Remove(filepath.Join(dir, ".git"))
		link(b, filepath.Join(other, ".git"), filepath.Join(dir, ".git"))
	},
	"a fresh clone": func(b *gittest.Box, dir, _ string) { away(b, dir); b.Git("clone", "-q", b.Dir, dir) },
	"a repository of its own": func(b *gittest.Box, dir, _ string) {
		os.Remove(filepath.Join(dir, ".git"))
		b.GitIn(dir, "init", "-q")
	},
	"removed and made again": func(b *gittest.Box, dir, _ string) {
		b.Git("worktree", "remove", "--force", dir)
		b.Git("worktree", "add", "-q", dir, "feature/x")
	},
	"a copy of it": func(b *gittest.Box, dir, _ string) {
		if err := os.CopyFS(dir+"2", os.DirFS(dir)); err != nil {
			b.T.Fatal(err)
		}
		away(b, dir)
		rename(b, dir+"2", dir)
	},
	"renamed": func(b *gittest.Box, dir, _ string) { away(b, dir) },
	"moved by git": func(b *gittest.Box, dir, _ string) {
		b.Git("worktree", "move", dir, dir+"2")
	},
	"its folder swapped": func(b *gittest.Box, dir, other string) {
		away(b, filepath.Dir(dir))
		b.Mkdir(filepath.Dir(dir))
		link(b, b.Dir, dir)
	},
	"a link for its folder": func(b *gittest.Box, dir, other string) {
		away(b, filepath.Dir(dir))
		b.Mkdir(filepath.Dir(dir) + "2/x")
		link(b, filepath.Dir(dir)+"2", filepath.Dir(dir))
	},
	"git's folder leads elsewhere": func(b *gittest.Box, dir, other string) {
		b.Write(b.GitIn(dir, "rev-parse", "--git-path", "gitdir"), other+"/.git\n")
	},
	"a file": func(b *gittest.Box, dir, _ string) { away(b, dir); b.Write(dir, "x") },
}

func away(b *gittest.Box, dir string) string { return rename(b, dir, dir+".away") }

func rename(b *gittest.Box, from, to string) string {
	b.T.Helper()
	if err := os.Rename(from, to); err != nil {
		b.T.Fatal(err)
	}
	return to
}

func link(b *gittest.Box, to, at string) {
	b.T.Helper()
	if err := os.Symlink(to, at); err != nil {
		b.T.Fatal(err)
	}
}

// Edge S6: if something else was put in place of a worktree, nothing is undone, saved, committed or removed there.
func TestSwappedWorktrees(t *testing.T) {
	for name, swap := range swaps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, dir, other := gittest.New(t), "", ""
			b.Write("tasks/a.txt", "committed\n")
			b.Git("add", "-A")
			b.Git("commit", "-qm", "tasks")
			for branch, at := range map[string]*string{"feature/x": &dir, "other/y": &other} {
				*at = b.Tree(branch)
				if err := b.Repo.Worktrees().Add(t.Context(), git.NewWorktree{Path: *at, Branch: branch, Base: b.Git("rev-parse", "main"), Owner: branch}); err != nil {
					t.Fatal(err)
				}
				b.Write(filepath.Join(*at, "tasks/a.txt"), "changed in "+branch+"\n")
			}
			made := gittest.Must(b.Repo.Worktrees().Identify(dir))(t)
			ctx := git.InWorktree(t.Context(), made)
			snap := gittest.Must(snapshot.New(b.Repo).Snapshot(ctx, dir))(t)
			defer snap.Close()
			if err := made.CheckUnchanged(); err != nil {
				t.Fatalf("as it was made: %v", err)
			}
			b.Write("tasks/a.txt", "a person's\n")
			b.Write("tasks/b.txt", "a person's\n")
			main, heads := b.Git("status", "--porcelain=v2", "--branch"), b.Git("for-each-ref")
			swap(b, dir, other)

			var swapped *git.ReplacedError
			for what, err := range map[string]error{
				"Same":     made.CheckUnchanged(),
				"Discard":  second(snapshot.NewBackups(b.Repo).Discard(ctx, dir, "", "tasks")),
				"Restore":  second(snap.Restore(ctx, "")),
				"Reattach": second(snapshot.NewBackups(b.Repo).Reattach(ctx, dir, "feature/z", b.Git("rev-parse", "main"), "")),
				"Backup":   second(snapshot.NewBackups(b.Repo).Backup(ctx, dir, "refs/trellis/backup/x/1", "m")),
				"Snapshot": second(snapshot.New(b.Repo).Snapshot(ctx, dir)),
				"Commit":   second(b.Repo.Committer().Commit(ctx, dir, git.CommitOptions{Message: "m"})),
				"Forward":  second(snapshot.NewBackups(b.Repo).Forward(ctx, dir, "feature/x", b.Git("rev-parse", "main"), b.Git("rev-parse", "main"))),
			} {
				if !errors.As(err, &swapped) && !errors.Is(err, git.ErrNoWorktree) {
					t.Errorf("%s: got %v", what, err)
				}
			}
			if err := b.Repo.Worktrees().Remove(ctx, dir); err == nil && name != "renamed" && name != "moved by git" && name != "a link for its folder" {
				t.Error("RemoveWorktree: it is gone")
			}
			if now := b.Git("status", "--porcelain=v2", "--branch"); now != main || b.Read("tasks/a.txt") != "a person's\n" || b.Read("tasks/b.txt") != "a person's\n" {
				t.Errorf("the main checkout changed: %s", now)
			}
			if now := b.Git("for-each-ref"); now != heads {
				t.Errorf("refs changed: %s\nbefore: %s", now, heads)
			}
			if got := b.Read(filepath.Join(other, "tasks/a.txt")); got != "changed in other/y\n" {
				t.Errorf("the other worktree has %q", got)
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }
