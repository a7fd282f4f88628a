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

// Links in the git directory of a worktree do not make our git commands write to other files.
func TestHardenedAgainstLinks(t *testing.T) {
	b := gittest.New(t)
	b.Repo.Harden()
	dir := b.Add("task/a")
	admin := filepath.Join(b.Dir, ".git", "worktrees", filepath.Base(dir))
	b.Write(filepath.Join(b.Home, ".bashrc"), "mine\n")
	for _, name := range []string{"COMMIT_EDITMSG", "ORIG_HEAD", "logs/HEAD", "logs/refs"} {
		link := filepath.Join(admin, name)
		b.Mkdir(filepath.Dir(link))
		if err := errors.Join(os.RemoveAll(link), os.Symlink(filepath.Join(b.Home, ".bashrc"), link)); err != nil {
			t.Fatal(err)
		}
	}
	b.Write(filepath.Join(dir, "b.txt"), "b\n")
	gittest.Must(b.Repo.Committer().Commit(t.Context(), dir, git.CommitOptions{Message: "work"}))(t)
	if got := b.Read(filepath.Join(b.Home, ".bashrc")); got != "mine\n" {
		t.Errorf("got %q in a file outside, want it as it was", got)
	}
}

// Programs that the settings of a repository within the work tree name are not run.
func TestHardenedAgainstNestedRepositories(t *testing.T) {
	b := gittest.New(t)
	b.Repo.Harden()
	dir := b.Add("task/a")
	inner, ran := filepath.Join(dir, "inner"), filepath.Join(b.Home, "ran")
	b.Write(filepath.Join(inner, "x.txt"), "x\n")
	b.GitIn(inner, "init", "-q")
	b.GitIn(inner, "add", "-A")
	b.GitIn(inner, "commit", "-qm", "inner")
	b.Write(filepath.Join(inner, ".gitattributes"), "*.txt filter=evil\n")
	b.Write(filepath.Join(inner, "x.txt"), "y\n")
	b.GitIn(inner, "config", "filter.evil.clean", "touch "+ran+"; cat")
	b.GitIn(dir, "add", "inner")
	os.Remove(ran)

	_, statusErr := b.Repo.Index().Status(t.Context(), dir)
	_, commitErr := b.Repo.Committer().Commit(t.Context(), dir, git.CommitOptions{Message: "work"})
	_, excludedErr := b.Repo.Index().Status(t.Context(), dir, "ls-files") // a path may have the name of a git command
	if _, err := b.Repo.Index().Ignored(t.Context(), dir); err != nil {
		t.Errorf("asking for what is ignored, which looks into nothing: got %v", err)
	}
	for _, err := range []error{statusErr, commitErr, excludedErr} {
		if nested := (*git.EmbeddedRepoError)(nil); !errors.As(err, &nested) || !slices.Equal(nested.Paths, []string{"inner"}) {
			t.Errorf("got %v, want that inner is a repository", err)
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program was run that the settings of the inner repository name")
	}
}

// Submodules whose git directories are within the repository's git directory are not refused.
func TestHardenedAllowsSubmodules(t *testing.T) {
	b, inner := gittest.New(t), gittest.New(t)
	b.Repo.Harden()
	b.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.Dir, "lib/inner")
	b.Git("commit", "-qm", "with a submodule")
	dir := b.Add("task/a")
	if _, err := b.Repo.Index().Status(t.Context(), dir); err != nil { // the submodule is not checked out yet
		t.Error(err)
	}
	b.GitIn(dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
	if _, err := b.Repo.Index().Status(t.Context(), dir); err != nil {
		t.Error(err)
	}
}
