package gittest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// formats are the kinds of repository in which everything has to work.
var formats = map[string]func(t *testing.T) *Box{
	"plain":  func(t *testing.T) *Box { return New(t) },
	"sha256": func(t *testing.T) *Box { return New(t, "--object-format=sha256") },
	"worktreeConfig": func(t *testing.T) *Box {
		b := New(t)
		b.Git("config", "extensions.worktreeConfig", "true")
		return b
	},
	"packed": func(t *testing.T) *Box {
		b := New(t)
		b.Git("branch", "other")
		b.Git("pack-refs", "--all")
		b.Git("gc", "-q")
		return b
	},
	"linked": func(t *testing.T) *Box {
		b := New(t)
		b.Git("worktree", "add", "-q", b.Tree("first"), "-b", "first")
		b.Repo = b.Open(b.Tree("first"))
		return b
	},
	"colon": func(t *testing.T) *Box {
		b := New(t)
		odd := filepath.Join(filepath.Dir(b.Dir), "a:b \"c\" [d]*\nü")
		if err := os.Rename(b.Dir, odd); err != nil {
			t.Fatal(err)
		}
		b.Dir = odd
		b.Repo = b.Open(odd)
		return b
	},
}

// HardFormats are those that differ in what git commands see, not only in how the refs are read.
var HardFormats = []string{"plain", "sha256", "colon"}

// EachFormat runs a test in repositories of the named kinds, or of all kinds.
func EachFormat(t *testing.T, test func(t *testing.T, b *Box), names ...string) {
	for name, make := range formats {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, make(t))
		})
	}
}

// Spread makes every kind of change in a worktree.
func (b *Box) Spread(dir string) {
	b.Write(filepath.Join(dir, ".gitignore"), "ignored/\n*.log\n")
	b.Write(filepath.Join(dir, "keep.txt"), "1\n2\n3\n")
	b.Write(filepath.Join(dir, "gone.txt"), "gone\n")
	b.Write(filepath.Join(dir, "dir/deep.txt"), "deep\n")
	b.Write(filepath.Join(dir, "script"), "#!/bin/sh\n")
	b.GitIn(dir, "add", "-A")
	b.GitIn(dir, "commit", "-qm", "base")

	b.Write(filepath.Join(dir, "keep.txt"), "1\ntwo\n3\n4\n")
	b.Write(filepath.Join(dir, "staged.txt"), "staged\n")
	b.GitIn(dir, "add", "staged.txt")
	b.Write(filepath.Join(dir, "staged.txt"), "staged and changed\n")
	b.Write(filepath.Join(dir, "new/un tracked\n\xff.txt"), "u\n")
	b.Write(filepath.Join(dir, "bin"), "\x00\x01\x02")
	b.Write(filepath.Join(dir, "ignored/x"), "i")
	b.Write(filepath.Join(dir, "x.log"), "i")
	b.Write(filepath.Join(dir, ".trellis/tasks/t/task.json"), "{}")
	b.Write(filepath.Join(dir, ".env"), "SECRET=1")
	for _, err := range []error{
		os.Remove(filepath.Join(dir, "gone.txt")),
		os.Chmod(filepath.Join(dir, "script"), 0o755),
		os.RemoveAll(filepath.Join(dir, "dir")),
		os.Symlink("keep.txt", filepath.Join(dir, "dir")),
	} {
		if err != nil {
			b.T.Fatal(err)
		}
	}
}
