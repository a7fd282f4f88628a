package git_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

func TestOpenFindsTheMainCheckout(t *testing.T) {
	b := gittest.New(t)
	wt := b.Add("feature/x")
	b.Mkdir(b.Path("deep/er"))
	b.Mkdir(filepath.Join(wt, "deep"))
	link := filepath.Join(filepath.Dir(b.Dir), "link")
	if err := os.Symlink(b.Dir, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{b.Dir, b.Path("deep/er"), b.Path(".git"), b.Path(".git/objects"), wt, filepath.Join(wt, "deep"), link, filepath.Join(link, "deep")} {
		r, err := git.Open(dir)
		if err != nil {
			t.Errorf("Open(%s): %v", dir, err)
			continue
		}
		if r.Main != b.Dir || r.Common != b.Path(".git") {
			t.Errorf("Open(%s): got %s, %s", dir, r.Main, r.Common)
		}
	}
}

func TestOpenOfOtherShapes(t *testing.T) {
	b := gittest.New(t)
	dir := filepath.Dir(b.Dir)
	sub := func(s string) string { return filepath.Join(dir, s) }

	b.Git("init", "-q", "--separate-git-dir", sub("elsewhere"), sub("separate"))
	r := gittest.Must(git.Open(sub("separate")))(t)
	if r.Main != sub("separate") || r.Common != sub("elsewhere") {
		t.Errorf("separate git dir: got %+v", r)
	}

	b.Git("clone", "-q", "--bare", b.Dir, sub("bare"))
	b.GitIn(sub("bare"), "worktree", "add", "-q", sub("of-bare"), "main")
	for _, d := range []string{sub("bare"), sub("bare/objects"), sub("of-bare")} {
		if _, err := git.Open(d); !errors.Is(err, git.ErrBare) {
			t.Errorf("Open(%s): got %v, want ErrBare", d, err)
		}
	}

	b.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", b.Dir, "sub")
	r = gittest.Must(git.Open(b.Path("sub")))(t)
	if r.Main != b.Path("sub") || r.Common != b.Path(".git/modules/sub") {
		t.Errorf("submodule: got %+v", r)
	}
	b.GitIn(b.Path("sub"), "worktree", "add", "-q", sub("of-sub"))
	if r = gittest.Must(git.Open(sub("of-sub")))(t); r.Main != b.Path("sub") {
		t.Errorf("worktree of a submodule: got %+v", r)
	}

	for name, content := range map[string]string{"moved": "gitdir: " + sub("gone") + "\n", "broken": "what?"} {
		b.Write(filepath.Join(sub(name), ".git"), content)
		if _, err := git.Open(sub(name)); !errors.Is(err, git.ErrNoRepository) {
			t.Errorf("%s: got %v, want ErrNoRepository", name, err)
		}
	}
	if _, err := git.Open(sub("not there")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
}

func TestOpenWithoutRepository(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("git", "-C", dir, "rev-parse", "--git-dir").Output(); err == nil {
		t.Skipf("the folder for temporary files lies in a repository: %s", out)
	}
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil { // it is empty, so git too searches on in the folders above
		t.Fatal(err)
	}
	if _, err := git.Open(dir); !errors.Is(err, git.ErrNoRepository) {
		t.Errorf("got %v, want ErrNoRepository", err)
	}
}

func TestReads(t *testing.T) {
	gittest.EachFormat(t, func(t *testing.T, b *gittest.Box) {
		ctx := t.Context()
		first := b.Git("rev-parse", "HEAD")
		b.Git("checkout", "-q", "-b", "feature/x")
		b.Write("b.txt", "b\n")
		b.Git("add", "-A")
		b.Git("commit", "-qm", "second\n\nbody\n\nTrellis-Task: 02-01-x/1\nOther: y")
		second := b.Git("rev-parse", "HEAD")
		b.Git("tag", "-a", "v1", "-m", "v1", first)
		b.Git("update-ref", "refs/remotes/origin/main", first)
		b.Git("branch", "twin", second)
		b.Git("tag", "twin", first)
		r := b.Repo

		if got := gittest.Must(r.Refs().Head(ctx, b.Dir))(t); got != second {
			t.Errorf("Head: got %s, want %s", got, second)
		}
		if got := gittest.Must(r.Refs().CurrentBranch(ctx, b.Dir))(t); got != "feature/x" {
			t.Errorf("CurrentBranch: got %s", got)
		}
		for name, want := range map[string]string{"main": first, "feature/x": second, "origin/main": first, "v1": first, "HEAD": second, second: second, second[:12]: second, "HEAD~1": first, "refs/heads/main": first, "twin": second, "twin^0": second, "twin~1": first} {
			if got, err := r.Refs().Resolve(ctx, name); got != want && !(name[0] == 'H' && b.Repo.Main != b.Dir) || err != nil {
				t.Errorf("Resolve(%s): got %s, %v, want %s", name, got, err, want)
			} else if found, err := r.Refs().Find(ctx, name); found != got || err != nil {
				t.Errorf("Find(%s): got %s, %v, want %s", name, found, err, got)
			}
		}
		for _, name := range []string{"nosuch", "", "--all", "-q", "a..b", "main:a.txt", strings.Repeat("0", len(first)), "feature"} {
			if got, err := r.Refs().Resolve(ctx, name); !errors.Is(err, git.ErrNotFound) {
				t.Errorf("Resolve(%q): got %q, %v, want ErrNotFound", name, got, err)
			}
			if got, err := r.Refs().Find(ctx, name); got != "" || err != nil {
				t.Errorf("Find(%q): got %q, %v, want none", name, got, err)
			}
		}
		if got := gittest.Must(r.Refs().Branch(ctx, "main"))(t); got != first {
			t.Errorf("Branch(main): got %s", got)
		}
		if got := gittest.Must(r.Refs().Branch(ctx, "v1"))(t); got != "" {
			t.Errorf("Branch(v1), a tag: got %s", got)
		}
		if got := gittest.Must(r.Refs().TreeAt(ctx, "main"))(t); got != b.Git("rev-parse", "main^{tree}") {
			t.Errorf("TreeAt: got %s", got)
		}
		for _, tt := range []struct {
			old, tip string
			want     bool
		}{{first, second, true}, {second, first, false}, {first, first, true}} {
			if got := gittest.Must(r.History().IsAncestor(ctx, tt.old, tt.tip))(t); got != tt.want {
				t.Errorf("IsAncestor: got %v", got)
			}
		}
		for trailer, want := range map[string]string{"Trellis-Task: 02-01-x/1": second, "Trellis-Task: 02-01-x": "", "second": ""} {
			if got := gittest.Must(r.History().FindTrailer(ctx, first, "feature/x", trailer))(t); got != want {
				t.Errorf("FindTrailer(%s): got %q, want %q", trailer, got, want)
			}
		}
		if got := gittest.Must(r.History().FindTrailer(ctx, second, "feature/x", "Other: y"))(t); got != "" {
			t.Errorf("FindTrailer below the base: got %s", got)
		}
	})
}

func TestHeadWithoutBranchOrCommit(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		b := gittest.Empty(t, "--object-format="+format)
		ctx := t.Context()
		if _, err := b.Repo.Refs().Head(ctx, b.Dir); !errors.Is(err, git.ErrNoCommit) {
			t.Errorf("%s: got %v, want ErrNoCommit", format, err)
		}
		if got := gittest.Must(b.Repo.Refs().CurrentBranch(ctx, b.Dir))(t); got != "main" {
			t.Errorf("%s: unborn branch: got %q", format, got)
		}
		if _, err := b.Repo.Refs().Resolve(ctx, "main"); !errors.Is(err, git.ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", format, err)
		}
		b.Git("commit", "-q", "--allow-empty", "-m", "x")
		b.Git("checkout", "-q", "--detach")
		if got := gittest.Must(b.Repo.Refs().CurrentBranch(ctx, b.Dir))(t); got != "" {
			t.Errorf("%s: detached: got %q", format, got)
		}
		if got := gittest.Must(b.Repo.Refs().Head(ctx, b.Dir))(t); got != b.Git("rev-parse", "HEAD") {
			t.Errorf("%s: detached: got %s", format, got)
		}
	}
}

func TestOtherFoldersAreNoWorktrees(t *testing.T) {
	b, other := gittest.New(t), gittest.New(t)
	wt := b.Add("feature/x")
	b.Mkdir(b.Path("sub"))
	for _, dir := range []string{other.Dir, b.Path("sub"), "/"} {
		if _, err := b.Repo.Refs().Head(t.Context(), dir); !errors.Is(err, git.ErrNoWorktree) {
			t.Errorf("%s: got %v, want ErrNoWorktree", dir, err)
		}
	}
	// An agent that replaces .git must not make git work in another repository, or in one in a folder above.
	b.Write(filepath.Join(wt, ".git"), "gitdir: "+other.Path(".git")+"\n")
	if _, err := b.Repo.Committer().Commit(t.Context(), wt, git.CommitOptions{Message: "m"}); !errors.Is(err, git.ErrNoWorktree) {
		t.Errorf("got %v, want ErrNoWorktree", err)
	}
	if err := os.Remove(filepath.Join(wt, ".git")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Repo.Index().Status(t.Context(), wt); !errors.Is(err, git.ErrNoWorktree) {
		t.Errorf("got %v, want ErrNoWorktree", err)
	}
}

func TestFilesAt(t *testing.T) {
	gittest.EachFormat(t, func(t *testing.T, b *gittest.Box) {
		odd := []string{"dir/x.md", "a*b", ":(top)", "new\nline", "sp ace", "ünï", "\xff\xfe", "-dash", `back\slash`, "[a]"}
		for _, p := range odd {
			b.Write(p, p)
		}
		b.Git("add", "-A")
		b.Git("commit", "-qm", "odd")
		ask := append(slices.Clone(odd), "dir", "dir/", "dir/nosuch", "nosuch", "a?b", "", "di", "x.md")
		for range 2500 {
			ask = append(ask, "nosuch/"+strings.Repeat("x", 40))
		}
		got := gittest.Must(b.Repo.History().FilesAt(t.Context(), b.Git("rev-parse", "HEAD"), ask))(t)
		for _, p := range ask {
			if want := slices.Contains(odd, p) || p == "dir" || p == "dir/"; got[p] != want {
				t.Errorf("%q: got %v", p, got[p])
			}
		}
	})
}

// FilesAt asks git once for a path in a commit; what the name of a branch refers to may change.
func TestFilesAtAsksOnce(t *testing.T) {
	b := gittest.New(t)
	old := b.Git("rev-parse", "HEAD")
	for _, commit := range []string{old, "main"} {
		if got := gittest.Must(b.Repo.History().FilesAt(t.Context(), commit, []string{"a.txt", "b.txt"}))(t); !got["a.txt"] || got["b.txt"] {
			t.Errorf("%s: got %v", commit, got)
		}
	}
	b.Write("b.txt", "b\n")
	b.Git("add", "-A")
	b.Git("commit", "-qm", "second")
	if got := gittest.Must(b.Repo.History().FilesAt(t.Context(), "main", []string{"b.txt"}))(t); !got["b.txt"] {
		t.Error("the name is taken for the commit it meant before")
	}
	if got := gittest.Must(b.Repo.History().FilesAt(t.Context(), b.Git("rev-parse", "HEAD"), []string{"b.txt"}))(t); !got["b.txt"] {
		t.Error("one commit is taken for the other")
	}
	b.Repo.Env = []string{"PATH=" + b.Home} // a PATH without git
	if got := gittest.Must(b.Repo.History().FilesAt(t.Context(), old, []string{"b.txt", "a.txt"}))(t); !got["a.txt"] || got["b.txt"] {
		t.Errorf("the second time: got %v", got)
	}
	if _, err := b.Repo.History().FilesAt(t.Context(), old, []string{"a.txt", "new"}); err == nil {
		t.Error("a path that was never asked for is known")
	}
}

// IsAncestor finds near ancestors without running git, also behind merges.
func TestIsAncestorNearby(t *testing.T) {
	b := gittest.New(t)
	first := b.Git("rev-parse", "HEAD")
	b.Git("checkout", "-q", "-b", "side")
	b.Git("commit", "-q", "--allow-empty", "-m", "side")
	side := b.Git("rev-parse", "HEAD")
	b.Git("checkout", "-q", "main")
	b.Git("commit", "-q", "--allow-empty", "-m", "second")
	b.Git("merge", "-q", "--no-ff", "-m", "both", "side")
	tip := b.Git("rev-parse", "HEAD")
	b.Repo.Env = []string{"PATH=" + b.Home} // git need not be asked
	for _, old := range []string{first, side, tip} {
		if ok, err := b.Repo.History().IsAncestor(t.Context(), old, tip); !ok || err != nil {
			t.Errorf("%s: got %v, %v", old, ok, err)
		}
	}
	if _, err := b.Repo.History().IsAncestor(t.Context(), tip, first); err == nil {
		t.Error("that one is not there nearby is taken for an answer")
	}
}

func TestFindTrailerInNothing(t *testing.T) {
	b := gittest.New(t)
	head := b.Git("rev-parse", "HEAD")
	b.Repo.Env = []string{"PATH=" + b.Home} // git need not be asked
	if got, err := b.Repo.History().FindTrailer(t.Context(), head, head, "Key: value"); got != "" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestErrorsPassOnWhatGitSays(t *testing.T) {
	b := gittest.New(t)
	_, err := b.Repo.History().FindTrailer(t.Context(), "", "nosuch", "A: b")
	var e *git.Error
	if !errors.As(err, &e) || e.Code != 128 || !strings.Contains(e.Stderr, "bad revision 'nosuch'") || !strings.Contains(err.Error(), "bad revision") || e.Args[0] != "log" {
		t.Errorf("got %#v", err)
	}
}

func TestEnvironment(t *testing.T) {
	b := gittest.New(t)
	other := gittest.New(t)
	b.Hook("pre-commit", `env > "`+b.Home+`/env"`)
	b.Repo.Env = append(slices.Clone(b.Env), "GIT_DIR="+other.Path(".git"), "GIT_INDEX_FILE=/nowhere", "GIT_WORK_TREE=/", "GIT_OBJECT_DIRECTORY=/", "SECRET_TOKEN=x", "MY_TOOL=1", "LC_ALL=de_DE.UTF-8")
	b.Repo.Allow = []string{"MY_*"}
	b.Write("a.txt", "changed\n")
	sha := gittest.Must(b.Repo.Committer().Commit(t.Context(), b.Dir, git.CommitOptions{Message: "m"}))(t)
	if sha != b.Git("rev-parse", "main") {
		t.Error("the commit went elsewhere")
	}
	env := strings.Split(b.Read(filepath.Join(b.Home, "env")), "\n")
	for _, want := range []string{"MY_TOOL=1", "GIT_TERMINAL_PROMPT=0", "HOME=" + b.Home, "LC_ALL=de_DE.UTF-8"} {
		if !slices.Contains(env, want) {
			t.Errorf("hooks lack %s", want)
		}
	}
	if slices.ContainsFunc(env, func(s string) bool { return strings.HasPrefix(s, "SECRET_TOKEN") }) {
		t.Error("hooks see what they should not")
	}
}

func TestVersion(t *testing.T) {
	b := gittest.New(t)
	v := gittest.Must((&git.Repo{}).Version(t.Context()))(t)
	if v == "" || strings.ContainsAny(v, " \n") {
		t.Errorf("got %q", v)
	}
	for said, old := range map[string]bool{"git version 2.33.9": true, "git version 2.34.0.windows.1": false, "git version 3.0": false, "git version 2.39.5 (Apple Git-154)": false, "git version 1.9": true} {
		b.Write(filepath.Join(b.Home, "bin/git"), "#!/bin/sh\necho '"+said+"'\n")
		if err := os.Chmod(filepath.Join(b.Home, "bin/git"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := (&git.Repo{Env: []string{"PATH=" + filepath.Join(b.Home, "bin") + ":/bin:/usr/bin"}}).Version(t.Context())
		if (err != nil) != old {
			t.Errorf("%s: got %v", said, err)
		}
	}
	_, err := (&git.Repo{Env: []string{"PATH=" + b.Dir}}).Version(t.Context())
	if !errors.Is(err, exec.ErrNotFound) || !errors.Is(err, git.ErrNotInstalled) {
		t.Errorf("without git: got %v", err)
	}
}

func TestIdentity(t *testing.T) {
	b := gittest.New(t)
	if got := gittest.Must(b.Repo.Author().Identity(t.Context()))(t); got != "Ann Example <ann@example.org>" {
		t.Errorf("got %q", got)
	}
	b.Write(filepath.Join(b.Home, ".gitconfig"), "")
	_, err := b.Repo.Author().Identity(t.Context())
	var id *git.IdentityError
	if !errors.As(err, &id) || !strings.Contains(err.Error(), `git config --global user.name "`) || !strings.Contains(err.Error(), "git config --global user.email ") {
		t.Errorf("got %v", err)
	}
	b.Write("a.txt", "changed\n")
	if _, err := b.Repo.Committer().Commit(t.Context(), b.Dir, git.CommitOptions{Message: "m"}); !errors.As(err, &id) {
		t.Errorf("got %v", err)
	}
	if b.Git("rev-list", "--count", "main") != "1" {
		t.Error("there is a commit by nobody")
	}
	b.Repo.Env = append(slices.Clone(b.Env), "GIT_AUTHOR_NAME=E", "GIT_AUTHOR_EMAIL=e@x", "GIT_COMMITTER_NAME=E", "GIT_COMMITTER_EMAIL=e@x")
	if got := gittest.Must(b.Repo.Author().Identity(t.Context()))(t); got != "E <e@x>" {
		t.Errorf("got %q", got)
	}
}
