package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// A fresh checkout has the files of the commit and no others, whatever hooks there are, and replaces a checkout that a
// killed process left.
func TestCheckout(t *testing.T) {
	b := gittest.New(t)
	ctx, base := t.Context(), b.Git("rev-parse", "HEAD")
	names := func(dir string) (list []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}
	want := append([]string{".git"}, names(b.Add("feature/plain"))[1:]...)
	b.Write(filepath.Join(b.Repo.Common, "hooks", "post-checkout"), "#!/bin/sh\ntouch made-by-hook\n")
	if err := os.Chmod(filepath.Join(b.Repo.Common, "hooks", "post-checkout"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x~final")
	for range 2 {
		if err := b.Repo.Worktrees().Checkout(ctx, path, base); err != nil {
			t.Fatal(err)
		}
		if got := names(path); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		b.Write(filepath.Join(path, "left.txt"), "x")
	}
	if err := b.Repo.Worktrees().Remove(ctx, path); err != nil {
		t.Fatal(err)
	}
	b.Write(filepath.Join(path, "mine.txt"), "x")
	if err := b.Repo.Worktrees().Checkout(ctx, path, base); err == nil {
		t.Error("a folder that is not a worktree was taken")
	}
}

// ClearHiddenFlags makes git check tracked files again that it was told not to check, with and without extensions of the repository.
func TestUnhide(t *testing.T) {
	for _, extended := range []bool{false, true} {
		b := gittest.New(t)
		b.Write("one.txt", "1")
		b.Write("two.txt", "2")
		b.Write("three.txt", "3")
		b.Git("add", "-A")
		b.Git("commit", "-q", "-m", "files")
		if extended {
			b.Git("config", "extensions.worktreeConfig", "true")
		}
		b.Git("update-index", "--assume-unchanged", "one.txt")
		b.Git("update-index", "--skip-worktree", "two.txt", "three.txt")
		if err := os.Remove(filepath.Join(b.Repo.Main, "three.txt")); err != nil {
			t.Fatal(err)
		}
		for _, want := range [][]string{{"one.txt", "two.txt"}, nil} {
			if got := gittest.Must(b.Repo.Index().ClearHiddenFlags(t.Context(), b.Repo.Main))(t); !slices.Equal(got, want) {
				t.Errorf("extended %v: got %q, want %q", extended, got, want)
			}
		}
	}
}

// Settings shows which settings were changed, and ChangesContent tells those that affect the committed content.
func TestSettings(t *testing.T) {
	b := gittest.New(t)
	before := gittest.Must(b.Repo.Hooks().Settings(b.Repo.Main))(t)
	b.Git("config", "filter.x.clean", "cat")
	b.Git("config", "core.hooksPath", "elsewhere")
	b.Git("config", "branch.main.remote", "origin")
	b.Write(filepath.Join(b.Repo.Common, "info", "attributes"), "* filter=x\n")
	after := gittest.Must(b.Repo.Hooks().Settings(b.Repo.Main))(t)
	var bent, other []string
	for name, hash := range after {
		switch {
		case before[name] == hash:
		case git.ChangesContent(name):
			bent = append(bent, name)
		default:
			other = append(other, name)
		}
	}
	slices.Sort(bent)
	if !slices.Equal(bent, []string{"filter.x.clean", "info/attributes"}) || !slices.Equal(other, []string{"core.hookspath"}) {
		t.Errorf("got %q and %q", bent, other)
	}
}

// Settings that can't be read are an error, and are not taken for unchanged.
func TestSettingsThatCannotBeRead(t *testing.T) {
	b := gittest.New(t)
	b.Repo.Env = append(slices.Clone(b.Env), "GIT_CONFIG_GLOBAL="+b.Home) // a folder
	if _, err := b.Repo.Hooks().Settings(b.Repo.Main); err == nil || !strings.Contains(err.Error(), b.Home) {
		t.Errorf("got %v", err)
	}
}

// Edge S1: a file, or a link to /dev/null, in place of a folder disables what git would read there, and is not an error.
func TestSettingsWithoutFolders(t *testing.T) {
	for _, name := range []string{"hooks", "info"} {
		b := gittest.New(t)
		folder := filepath.Join(b.Repo.Common, name)
		if err := errors.Join(os.RemoveAll(folder), os.Symlink(os.DevNull, folder)); err != nil {
			t.Fatal(err)
		}
		for setting := range gittest.Must(b.Repo.Hooks().Settings(b.Repo.Main))(t) {
			if strings.HasPrefix(setting, name) {
				t.Errorf("%s is not a folder: got %s", name, setting)
			}
		}
	}
}
