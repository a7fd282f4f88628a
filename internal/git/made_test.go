package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
)

// swaps are ways in which something else comes to be in the place of a worktree.
var swaps = map[string]func(b *box, dir, other string){
	"a link to the main checkout": func(b *box, dir, _ string) { b.away(dir); b.link(b.Dir, dir) },
	"a link to another worktree":  func(b *box, dir, other string) { b.away(dir); b.link(other, dir) },
	"a link to itself, moved":     func(b *box, dir, _ string) { b.link(b.away(dir), dir) },
	"the .git of another worktree": func(b *box, dir, other string) {
		b.write(filepath.Join(dir, ".git"), b.read(filepath.Join(other, ".git")))
	},
	"a link to the .git of another worktree": func(b *box, dir, other string) {
		os.Remove(filepath.Join(dir, ".git"))
		b.link(filepath.Join(other, ".git"), filepath.Join(dir, ".git"))
	},
	"a fresh clone": func(b *box, dir, _ string) { b.away(dir); b.git("clone", "-q", b.Dir, dir) },
	"a repository of its own": func(b *box, dir, _ string) {
		os.Remove(filepath.Join(dir, ".git"))
		b.gitIn(dir, "init", "-q")
	},
	"removed and made again": func(b *box, dir, _ string) {
		b.git("worktree", "remove", "--force", dir)
		b.git("worktree", "add", "-q", dir, "feature/x")
	},
	"a copy of it": func(b *box, dir, _ string) {
		if err := os.CopyFS(dir+"2", os.DirFS(dir)); err != nil {
			b.t.Fatal(err)
		}
		b.away(dir)
		b.rename(dir+"2", dir)
	},
	"renamed": func(b *box, dir, _ string) { b.away(dir) },
	"moved by git": func(b *box, dir, _ string) {
		b.git("worktree", "move", dir, dir+"2")
	},
	"its folder swapped": func(b *box, dir, other string) {
		b.away(filepath.Dir(dir))
		b.mkdir(filepath.Dir(dir))
		b.link(b.Dir, dir)
	},
	"a link for its folder": func(b *box, dir, other string) {
		b.away(filepath.Dir(dir))
		b.mkdir(filepath.Dir(dir) + "2/x")
		b.link(filepath.Dir(dir)+"2", filepath.Dir(dir))
	},
	"git's folder leads elsewhere": func(b *box, dir, other string) {
		b.write(b.gitIn(dir, "rev-parse", "--git-path", "gitdir"), other+"/.git\n")
	},
	"a file": func(b *box, dir, _ string) { b.away(dir); b.write(dir, "x") },
}

func (b *box) away(dir string) string { return b.rename(dir, dir+".away") }

func (b *box) rename(from, to string) string {
	b.t.Helper()
	if err := os.Rename(from, to); err != nil {
		b.t.Fatal(err)
	}
	return to
}

func (b *box) link(to, at string) {
	b.t.Helper()
	if err := os.Symlink(to, at); err != nil {
		b.t.Fatal(err)
	}
}

// Edge S6: nothing is undone, saved, committed or removed in what was put in the place of a worktree.
func TestSwappedWorktrees(t *testing.T) {
	for name, swap := range swaps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, dir, other := newBox(t), "", ""
			b.write("tasks/a.txt", "committed\n")
			b.git("add", "-A")
			b.git("commit", "-qm", "tasks")
			for branch, at := range map[string]*string{"feature/x": &dir, "other/y": &other} {
				*at = b.tree(branch)
				if err := b.Repo.AddWorktree(t.Context(), git.NewWorktree{Path: *at, Branch: branch, Base: b.git("rev-parse", "main"), Owner: branch}); err != nil {
					t.Fatal(err)
				}
				b.write(filepath.Join(*at, "tasks/a.txt"), "changed in "+branch+"\n")
			}
			made := must(b.Repo.Made(dir))(t)
			ctx := git.Only(t.Context(), made)
			snap := must(b.Repo.Snapshot(ctx, dir))(t)
			defer snap.Close()
			if err := made.Same(); err != nil {
				t.Fatalf("as it was made: %v", err)
			}
			b.write("tasks/a.txt", "a person's\n")
			b.write("tasks/b.txt", "a person's\n")
			main, heads := b.git("status", "--porcelain=v2", "--branch"), b.git("for-each-ref")
			swap(b, dir, other)

			var swapped *git.SwappedError
			for what, err := range map[string]error{
				"Same":     made.Same(),
				"Discard":  second(b.Repo.Discard(ctx, dir, "", "tasks")),
				"Restore":  second(snap.Restore(ctx, "")),
				"Reattach": second(b.Repo.Reattach(ctx, dir, "feature/z", b.git("rev-parse", "main"), "")),
				"Backup":   second(b.Repo.Backup(ctx, dir, "refs/trellis/backup/x/1", "m")),
				"Snapshot": second(b.Repo.Snapshot(ctx, dir)),
				"Commit":   second(b.Repo.Commit(ctx, dir, git.CommitOptions{Message: "m"})),
				"Forward":  second(b.Repo.Forward(ctx, dir, "feature/x", b.git("rev-parse", "main"), b.git("rev-parse", "main"))),
			} {
				if !errors.As(err, &swapped) && !errors.Is(err, git.ErrNoWorktree) {
					t.Errorf("%s: got %v", what, err)
				}
			}
			if err := b.Repo.RemoveWorktree(ctx, dir); err == nil && name != "renamed" && name != "moved by git" && name != "a link for its folder" {
				t.Error("RemoveWorktree: it is gone")
			}
			if now := b.git("status", "--porcelain=v2", "--branch"); now != main || b.read("tasks/a.txt") != "a person's\n" || b.read("tasks/b.txt") != "a person's\n" {
				t.Errorf("the main checkout changed: %s", now)
			}
			if now := b.git("for-each-ref"); now != heads {
				t.Errorf("refs changed: %s\nbefore: %s", now, heads)
			}
			if got := b.read(filepath.Join(other, "tasks/a.txt")); got != "changed in other/y\n" {
				t.Errorf("the other worktree has %q", got)
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }
