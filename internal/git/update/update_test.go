package update_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/update"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// fork is a repository whose main branch has moved on since a worktree on another branch was added.
type fork struct {
	*gittest.Box
	tree       string // the worktree
	from, base string // the commit at which the branch began, and the current commit of main
}

const whose = "03-01-task"

// newFork returns a fork with one commit of ours on the branch and one of theirs on main: content by path; "" removes a file.
func newFork(t testing.TB, ours, theirs map[string]string) *fork {
	t.Helper()
	f := &fork{Box: gittest.New(t)}
	f.Write("f.txt", "1\n2\n3\n4\n5\n")
	f.Write("gone.txt", "here\n")
	f.Git("add", "-A")
	f.Git("commit", "-qm", "begin")
	f.from = f.Git("rev-parse", "HEAD")
	f.tree = filepath.Join(filepath.Dir(f.Dir), "tree")
	if err := f.Repo.Worktrees().Add(t.Context(), git.NewWorktree{Path: f.tree, Branch: "feature/x", Base: f.from}); err != nil {
		t.Fatal(err)
	}
	f.change(f.tree, ours, "ours")
	f.change(f.Dir, theirs, "theirs")
	f.base = f.Git("rev-parse", "main")
	return f
}

// change commits changes in a checkout.
func (f *fork) change(dir string, files map[string]string, message string) {
	f.T.Helper()
	for path, text := range files {
		if text == "" {
			f.GitIn(dir, "rm", "-q", path)
			continue
		}
		f.Write(filepath.Join(dir, path), text)
	}
	f.GitIn(dir, "add", "-A")
	f.GitIn(dir, "commit", "-qm", message)
}

func (f *fork) options(merge bool) update.Options {
	return update.Options{Dir: f.tree, Branch: "feature/x", Whose: whose, From: f.from, Base: f.base, Called: "main", Merge: merge, Backup: "refs/trellis/backup/" + whose + "/1"}
}

// commits returns the subjects of the commits that the branch has and main has not, oldest first.
func (f *fork) commits() string {
	f.T.Helper()
	return strings.ReplaceAll(f.Git("log", "--reverse", "--format=%s", "main..feature/x"), "\n", " ")
}

func (f *fork) clean() string {
	f.T.Helper()
	return f.GitIn(f.tree, "status", "--porcelain")
}

func TestUpdateReplaysTheBranch(t *testing.T) {
	t.Parallel()
	f := newFork(t, map[string]string{"mine.txt": "mine\n"}, map[string]string{"theirs.txt": "theirs\n", "picked.txt": "picked\n"})
	f.change(f.tree, map[string]string{"picked.txt": "picked\n"}, "picked")
	f.GitIn(f.tree, "-c", "user.name=Bea", "commit", "-q", "--amend", "--no-edit", "--reset-author")
	f.change(f.tree, map[string]string{"f.txt": "1\n2\n3\n4\nfive\n"}, "five\n\nKey: value")
	tip := f.Git("rev-parse", "feature/x")
	u, err := update.New(f.Repo).Update(t.Context(), f.options(false))
	if err != nil || u != nil {
		t.Fatalf("got %+v, %v", u, err)
	}
	if got, want := f.commits(), "ours five"; got != want {
		t.Errorf("got commits %q, want %q", got, want)
	}
	if got := f.Git("log", "-1", "--format=%an %ae %s|%(trailers:only)", "feature/x"); got != "Ann Example ann@example.org five|Key: value\n" {
		t.Errorf("got %q", got)
	}
	if f.Read(filepath.Join(f.tree, "theirs.txt")) != "theirs\n" || f.clean() != "" {
		t.Errorf("the worktree is not up to date: %q", f.clean())
	}
	if got := f.Git("rev-parse", "refs/trellis/backup/"+whose+"/1"); got != tip {
		t.Errorf("the old end %s is kept as %s", tip, got)
	}
	if refs := f.Git("for-each-ref", "refs/trellis/update"); refs != "" {
		t.Errorf("left %s", refs)
	}
}

func TestUpdateMerges(t *testing.T) {
	t.Parallel()
	f := newFork(t, map[string]string{"mine.txt": "mine\n"}, map[string]string{"theirs.txt": "theirs\n"})
	f.Hook("pre-commit", "echo ran >> "+filepath.Join(f.Home, "ran"))
	tip := f.Git("rev-parse", "feature/x")
	u, err := update.New(f.Repo).Update(t.Context(), f.options(true))
	if err != nil || u == nil || u.Onto != tip || len(u.Files) > 0 {
		t.Fatalf("got %+v, %v", u, err)
	}
	sha, err := f.Repo.Committer().Commit(t.Context(), f.tree, git.CommitOptions{Message: "Merge main", Branch: "feature/x", Amend: true, Merge: u.Base})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.Git("log", "-1", "--format=%P", sha), tip+" "+f.base; got != want {
		t.Errorf("got parents %s, want %s", got, want)
	}
	if f.Read(filepath.Join(f.Home, "ran")) != "ran\n" || f.clean() != "" {
		t.Errorf("the hook did not run once, or something is left: %q", f.clean())
	}
	if err := update.New(f.Repo).EndUpdate(t.Context(), whose); err != nil {
		t.Fatal(err)
	}
	if u, err := update.New(f.Repo).Updating(t.Context(), whose); u != nil || err != nil {
		t.Errorf("got %+v, %v", u, err)
	}
}

// If the base has the commits on which the branch began as one squashed commit, merging the base is not a conflict.
func TestUpdateMergesWhatIsOwn(t *testing.T) {
	t.Parallel()
	f := newFork(t, map[string]string{"f.txt": "one\n2\n3\n4\n5\n"}, map[string]string{"theirs.txt": "theirs\n"})
	o := f.options(true)
	o.From = f.Git("rev-parse", "feature/x")
	f.change(f.tree, map[string]string{"f.txt": "one, and more\n2\n3\n4\n5\n"}, "above")
	f.change(f.Dir, map[string]string{"f.txt": "one\n2\n3\n4\n5\n"}, "squashed")
	o.Base = f.Git("rev-parse", "main")
	u, err := update.New(f.Repo).Update(t.Context(), o)
	if err != nil || u == nil || !u.Merge || len(u.Files) > 0 {
		t.Fatalf("got %+v, %v", u, err)
	}
	if _, err := f.Repo.Committer().Commit(t.Context(), f.tree, git.CommitOptions{Message: "Merge main", Branch: "feature/x", Merge: u.Base}); err != nil {
		t.Fatal(err)
	}
	if got := f.Git("diff", "--stat", "--summary", "main...feature/x"); !strings.Contains(got, "1 file changed, 1 insertion(+), 1 deletion(-)") {
		t.Errorf("its own work is %s", got)
	}
}

// If the branch itself has reverted the commit that conflicts with the base, nothing has to be resolved.
func TestUpdateOfWhatWasTakenBack(t *testing.T) {
	t.Parallel()
	f := newFork(t, map[string]string{"f.txt": "one\n2\n3\n4\n5\n"}, map[string]string{"f.txt": "ONE\n2\n3\n4\n5\n"})
	f.change(f.tree, map[string]string{"f.txt": "1\n2\n3\n4\n5\n", "mine.txt": "mine\n"}, "back")
	tip := f.Git("rev-parse", "feature/x")
	u, err := update.New(f.Repo).Update(t.Context(), f.options(false))
	if err != nil || u == nil || !u.Merge || u.Onto != tip || len(u.Files) > 0 {
		t.Fatalf("got %+v, %v", u, err)
	}
	if got := f.Read(filepath.Join(f.tree, "f.txt")); got != "ONE\n2\n3\n4\n5\n" {
		t.Errorf("it has %q", got)
	}
}

func TestUpdateShowsBothSides(t *testing.T) {
	t.Parallel()
	for name, merge := range map[string]bool{"rebase": false, "merge": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFork(t, map[string]string{"mine.txt": "mine\n"}, map[string]string{"f.txt": "1\ntwo of main\n3\n4\n5\n", "new.txt": "main\n", "theirs.txt": "theirs\n"})
			f.change(f.tree, map[string]string{"f.txt": "1\ntwo of ours\n3\n4\n5\n", "new.txt": "ours\n"}, "clash")
			f.change(f.tree, map[string]string{"later.txt": "later\n"}, "later")
			u, err := update.New(f.Repo).Update(t.Context(), f.options(merge))
			if err != nil || u == nil {
				t.Fatalf("got %+v, %v", u, err)
			}
			if want := []string{"f.txt", "new.txt"}; !slices.Equal(u.Files, want) {
				t.Errorf("got %v, want %v", u.Files, want)
			}
			want := fmt.Sprintf("1\n<<<<<<< main %.12s\ntwo of main\n||||||| what both began with\n2\n=======\ntwo of ours\n>>>>>>> feature/x %.12s\n3\n4\n5\n", f.base, u.Ours)
			if got := f.Read(filepath.Join(f.tree, "f.txt")); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			for _, file := range []string{"later.txt", "theirs.txt", "mine.txt"} {
				f.Read(filepath.Join(f.tree, file))
			}
			if got, want := f.commits(), map[bool]string{false: "ours", true: "ours clash later"}[merge]; got != want {
				t.Errorf("got commits %q, want %q", got, want)
			}
			again, err := update.New(f.Repo).Update(t.Context(), f.options(merge))
			if err != nil || again == nil || again.Ours != u.Ours || f.Read(filepath.Join(f.tree, "f.txt")) != want {
				t.Errorf("a second call got %+v, %v", again, err)
			}
		})
	}
}

func TestUpdateRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ours, theirs map[string]string
		file, said   string
	}{
		"binary":        {map[string]string{"bin": "a\x00b"}, map[string]string{"bin": "a\x00c"}, "bin", "both changed the binary file bin"},
		"deleted here":  {map[string]string{"gone.txt": ""}, map[string]string{"gone.txt": "other\n"}, "gone.txt", "the task deleted gone.txt, which main changed"},
		"deleted there": {map[string]string{"gone.txt": "other\n"}, map[string]string{"gone.txt": ""}, "gone.txt", "main deleted gone.txt, which the task changed"},
		"folder":        {map[string]string{"thing": "file\n"}, map[string]string{"thing/file": "in a folder\n"}, "thing", "thing is a file on one side and a folder on the other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFork(t, c.ours, c.theirs)
			tip := f.Git("rev-parse", "feature/x")
			_, err := update.New(f.Repo).Update(t.Context(), f.options(false))
			var conflict *update.ConflictError
			if !errors.As(err, &conflict) || !strings.Contains(strings.Join(conflict.Files, " "), c.file) || conflict.Error() != c.said {
				t.Fatalf("got %v", err)
			}
			if now := f.Git("rev-parse", "feature/x"); now != tip || f.clean() != "" || f.Git("for-each-ref", "refs/trellis") != "" {
				t.Errorf("something was touched: %s, %q", now, f.clean())
			}
		})
	}
}

// A branch with merges is merged instead of rebased, and a branch whose base was rewritten is rebased onto the new base.
func TestUpdateOfOddHistories(t *testing.T) {
	t.Parallel()
	f := newFork(t, map[string]string{"mine.txt": "mine\n"}, map[string]string{"theirs.txt": "theirs\n"})
	f.GitIn(f.tree, "merge", "-q", "--no-edit", "main")
	f.change(f.Dir, map[string]string{"more.txt": "more\n"}, "more")
	f.base = f.Git("rev-parse", "main")
	u, err := update.New(f.Repo).Update(t.Context(), f.options(false))
	if err != nil || u == nil || !u.Merge {
		t.Fatalf("got %+v, %v", u, err)
	}

	f = newFork(t, map[string]string{"mine.txt": "mine\n"}, map[string]string{"theirs.txt": "theirs\n"})
	f.Git("reset", "-q", "--hard", "HEAD~2")
	f.change(f.Dir, map[string]string{"f.txt": "1\n2\n3\n4\n5\n6\n"}, "rewritten")
	f.base = f.Git("rev-parse", "main")
	if u, err := update.New(f.Repo).Update(t.Context(), f.options(false)); err != nil || u != nil {
		t.Fatalf("got %+v, %v", u, err)
	}
	if got := f.Git("log", "--format=%s", "main..feature/x"); got != "ours" {
		t.Errorf("got %q", got)
	}
}

func TestUpdateSigns(t *testing.T) {
	t.Parallel()
	f := newFork(t, map[string]string{"mine.txt": "mine\n"}, map[string]string{"theirs.txt": "theirs\n"})
	signer := filepath.Join(f.Home, "sign")
	f.Write(signer, "#!/bin/sh\ncat > /dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho '-----BEGIN PGP SIGNATURE-----'\necho signed\necho '-----END PGP SIGNATURE-----'\n")
	if err := os.Chmod(signer, 0o755); err != nil {
		t.Fatal(err)
	}
	f.Git("config", "gpg.program", signer)
	f.Git("config", "commit.gpgSign", "true")
	if u, err := update.New(f.Repo).Update(t.Context(), f.options(false)); err != nil || u != nil {
		t.Fatalf("got %+v, %v", u, err)
	}
	if got := f.Git("cat-file", "commit", "feature/x"); !strings.Contains(got, "gpgsig") {
		t.Errorf("got %s", got)
	}
}

// TestUpdateIsCutOff makes all calls of git after the first n fail, as if everything had been killed there. Another
// process then completes the update with the same result, and what a person wrote meanwhile is kept.
func TestUpdateIsCutOff(t *testing.T) {
	t.Parallel()
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"rebase", "merge", "clash"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			every := 3
			if kind == "merge" { // it makes the fewest calls
				every = 1
			}
			for n := 0; ; n += every {
				if done := cutOff(t, real, kind, n); done {
					if n < 8 {
						t.Errorf("it took %d calls of git alone", n)
					}
					return
				}
			}
		})
	}
}

// cutOff makes one such update, completes it if it was cut off, and reports whether it was not.
func cutOff(t *testing.T, real, kind string, n int) bool {
	theirs := map[string]string{"theirs.txt": "theirs\n", "f.txt": "0\n1\n2\n3\n4\n5\n"}
	if kind == "clash" {
		theirs["mine.txt"] = "not mine\n"
	}
	f := newFork(t, map[string]string{"mine.txt": "mine\n"}, theirs)
	root := filepath.Dir(f.Dir)
	count := filepath.Join(root, "count")
	f.Write(filepath.Join(root, "bin", "git"), fmt.Sprintf("#!/bin/sh\necho >> '%s'\n[ $(wc -l < '%s') -gt %d ] && exit 9\nexec '%s' \"$@\"\n", count, count, n, real))
	if err := os.Chmod(filepath.Join(root, "bin", "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	broken := f.Open(f.Dir)
	broken.Env = append([]string{"PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH")}, f.Env[1:]...)
	u, err := update.New(broken).Update(t.Context(), f.options(kind != "rebase"))
	cut := err != nil
	if cut {
		f.Write(filepath.Join(f.tree, "f.txt"), "a person's\n")
		if u, err = update.New(f.Repo).Update(t.Context(), f.options(kind != "rebase")); err != nil {
			if open, _ := update.New(f.Repo).Updating(t.Context(), whose); open == nil && f.Read(filepath.Join(f.tree, "f.txt")) == "a person's\n" {
				return false // the update had not begun, and git refuses to overwrite the file
			}
			t.Fatalf("cut off after %d calls: %v", n, err)
		}
	}
	if wantOpen := kind != "rebase"; (u != nil) != wantOpen {
		t.Errorf("cut off after %d calls: got %+v", n, u)
	}
	if kind == "rebase" && f.commits() != "ours" {
		t.Errorf("cut off after %d calls: got commits %q", n, f.commits())
	}
	if _, err := os.Stat(filepath.Join(f.tree, "theirs.txt")); err != nil {
		t.Errorf("cut off after %d calls: %v", n, err)
	}
	kept := f.Git("log", "-p", "--all", "-m", "--format=", "-S", "a person's")
	if cut && f.Read(filepath.Join(f.tree, "f.txt")) != "a person's\n" && !strings.Contains(kept, "a person's") {
		t.Errorf("cut off after %d calls: what a person wrote is gone", n)
	}
	return !cut
}
