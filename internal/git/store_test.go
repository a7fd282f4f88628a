package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

func TestStoreOfAWorktree(t *testing.T) {
	b := gittest.New(t)
	b.Git("config", "core.hooksPath", ".husky/_")
	b.Git("config", "extensions.worktreeConfig", "true")
	dir := b.Add("task/a")
	b.Mkdir(filepath.Join(dir, ".husky", "_"))
	b.Mkdir(filepath.Join(b.Dir, ".git", "lfs"))
	got := gittest.Must(b.Repo.ObjectStores().Store(dir))(t)
	admin, objects := filepath.Join(b.Dir, ".git", "worktrees", filepath.Base(dir)), filepath.Join(b.Dir, ".git", "objects")
	lfs, own := filepath.Join(b.Dir, ".git", "lfs"), func(kind string) string {
		return filepath.Join(b.Dir, ".git", "trellis", kind, filepath.Base(dir))
	}
	want := git.Store{
		Write: []string{admin},
		Fixed: []string{filepath.Join(dir, ".husky"), filepath.Join(dir, ".git"), objects, lfs,
			filepath.Join(admin, "HEAD"), filepath.Join(admin, "commondir"), filepath.Join(admin, "gitdir"), filepath.Join(admin, "config.worktree"), filepath.Join(admin, "modules")},
	}
	want.Mounts = []git.Mount{{From: own("objects"), To: objects, Write: true}, {From: filepath.Join(own("objects"), "info"), To: filepath.Join(objects, "info")},
		{From: filepath.Join(b.Dir, ".git"), To: filepath.Join(objects, "trellis")}, {From: own("lfs"), To: lfs, Write: true}}
	if !slices.Equal(got.Write, want.Write) || !slices.Equal(got.Fixed, want.Fixed) || !slices.Equal(got.Mounts, want.Mounts) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	b.GitIn(dir, "status") // git accepts the empty files that Store created
}

func TestStoreOfTheMainCheckout(t *testing.T) {
	b := gittest.New(t)
	got := gittest.Must(b.Repo.ObjectStores().Store(b.Dir))(t)
	dot := filepath.Join(b.Dir, ".git")
	objects := filepath.Join(dot, "objects")
	if len(got.Write)+len(got.Mounts) != 0 || !slices.Equal(got.Fixed, []string{dot, objects}) {
		t.Errorf("got %+v, want nothing to write", got)
	}
}

// A folder of hooks that the user's settings name must not be written either, and is created so that nobody else creates it.
func TestStoreOfHooksThatAreNotThere(t *testing.T) {
	b := gittest.New(t)
	dir := b.Add("task/a")
	b.Git("config", "--global", "core.hooksPath", "tools/hooks")
	got := gittest.Must(b.Repo.ObjectStores().Store(dir))(t)
	if hooks := filepath.Join(dir, "tools", "hooks"); !slices.Contains(got.Fixed, hooks) {
		t.Errorf("got %v, want %s among them", got.Fixed, hooks)
	}
	for _, elsewhere := range []string{"~/hooks", "/srv/hooks", "../hooks"} {
		b.Git("config", "--global", "core.hooksPath", elsewhere)
		if got := gittest.Must(b.Repo.ObjectStores().Store(dir))(t); got.Fixed[0] != filepath.Join(dir, ".git") {
			t.Errorf("%s: got %v, want no hooks in the files", elsewhere, got.Fixed)
		}
	}
}

// Included settings that are files of the checkout, and hooks that these name, must not be written either.
func TestStoreOfIncludedSettings(t *testing.T) {
	b := gittest.New(t)
	b.Write(filepath.Join(b.Dir, "team", "config"), "[core]\n\thooksPath = "+filepath.Join(b.Dir, "team", "hooks")+"\n[include]\n\tpath = more\n")
	b.Git("config", "include.path", "../team/config")
	b.Git("config", "includeIf.onbranch:x.path", filepath.Join(b.Dir, "other"))
	got := gittest.Must(b.Repo.ObjectStores().Store(b.Dir))(t)
	for _, name := range []string{"team/config", "team/more", "team/hooks", "other"} {
		if path := filepath.Join(b.Dir, name); !slices.Contains(got.Fixed, path) {
			t.Errorf("got %v, want %s among them", got.Fixed, path)
		}
	}
	b.Git("status")
	b.Git("config", "core.hooksPath", "~nobody/hooks")
	b.Git("config", "include.path", "%(prefix)/etc/more")
	gittest.Must(b.Repo.ObjectStores().Store(b.Dir))(t)
	if made, err := filepath.Glob(filepath.Join(b.Dir, "[~%]*")); err != nil || len(made) != 0 {
		t.Errorf("%v was made, %v", made, err)
	}
}

// A .git file is trusted only if it points to a git directory of this repository's worktrees.
func TestStoreOfAForeignPointer(t *testing.T) {
	b, other := gittest.New(t), gittest.New(t)
	dir := b.Add("task/a")
	for _, pointer := range []string{filepath.Join(other.Dir, ".git"), b.Home, "/"} {
		b.Write(filepath.Join(dir, ".git"), "gitdir: "+pointer+"\n")
		if got, err := b.Repo.ObjectStores().Store(dir); !errors.Is(err, git.ErrNoWorktree) {
			t.Errorf("pointing to %s: got %+v, %v, want %v", pointer, got, err, git.ErrNoWorktree)
		}
	}
}

func TestStoreOfSubmodules(t *testing.T) {
	b, inner := gittest.New(t), gittest.New(t)
	b.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.Dir, "lib/inner")
	b.Git("commit", "-qm", "with a submodule")
	dir := b.Add("task/a")
	b.GitIn(dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
	got := gittest.Must(b.Repo.ObjectStores().Store(dir))(t)
	admin := filepath.Join(b.Dir, ".git", "worktrees", filepath.Base(dir))
	for _, want := range []string{filepath.Join(admin, "modules"), filepath.Join(dir, "lib", "inner", ".git")} {
		if !slices.Contains(got.Fixed, want) {
			t.Errorf("got %v, want %s among them", got.Fixed, want)
		}
		if _, err := os.Stat(want); err != nil {
			t.Error(err)
		}
	}
}

// The object folders of worktrees are removed with them, also if somebody else removed the worktree.
func TestOwnObjectsAreRemoved(t *testing.T) {
	b := gittest.New(t)
	kept, taken, gone := b.Add("task/a"), b.Add("task/b"), b.Add("task/c")
	for _, dir := range []string{kept, taken, gone} {
		gittest.Must(b.Repo.ObjectStores().Store(dir))(t)
	}
	if err := b.Repo.Worktrees().Remove(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	b.Git("worktree", "remove", "--force", gone)
	gittest.Must(b.Repo.ObjectStores().Store(kept))(t)
	left, err := filepath.Glob(filepath.Join(b.Dir, ".git", "trellis", "objects", "*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != filepath.Base(kept) {
		t.Errorf("got %v, %v, want the folder of %s alone", left, err, kept)
	}
}

// Edge S1: a folder of hooks that can't be listed counts as changed, since git may run a hook there all the same.
func TestHooksThatCannotBeListed(t *testing.T) {
	b := gittest.New(t)
	dir := b.Add("one")
	b.Git("config", "core.hooksPath", b.Path("../hooks"))
	before := gittest.Must(b.Repo.Hooks().HookState(dir))(t)
	if err := os.Symlink("hooks", b.Path("../hooks")); err != nil { // a link to itself
		t.Fatal(err)
	}
	head := b.Git("rev-parse", "HEAD")
	if changed := gittest.Must(b.Repo.Hooks().ChangedHooks(t.Context(), dir, head, before))(t); len(changed) != 1 {
		t.Errorf("changed: %q", changed)
	}
}
