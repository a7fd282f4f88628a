package sandbox_test

import (
	"errors"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/sandbox"
)

// Files that shells and editors keep in the cache folder are hidden, and none can be added there; caches of tools can be filled.
func TestCaches(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"p10k-instant-prompt-ann.zsh", "nvim/luac/init.lua", "mozilla/cookies", "mine/old", "pip/old"} {
		w.write(filepath.Join(w.Home, ".cache", name), "old\n")
	}
	w.does(w.need(), `echo new > ~/.cache/pip/new && mkdir ~/.cache/other && echo x > ~/.cache/other/x && echo x > ~/.cache/zshenv`,
		`echo evil > ~/.cache/p10k-instant-prompt-ann.zsh && mkdir -p ~/.cache/nvim/luac && echo evil > ~/.cache/nvim/luac/init.lua`)
	w.refused(w.need(), `cat ~/.cache/p10k-instant-prompt-ann.zsh`, `cat ~/.cache/nvim/luac/init.lua`, `cat ~/.cache/mozilla/cookies`, `cat ~/.cache/mine/old`, `mv ~/.cache/pip ~/.cache/p`)
	for name, want := range map[string]bool{"pip/new": true, "other": false, "zshenv": false} {
		if _, err := os.Stat(filepath.Join(w.Home, ".cache", name)); (err == nil) != want {
			t.Errorf("%s is there afterwards: got %v, want %v", name, err == nil, want)
		}
	}
	for _, name := range []string{"p10k-instant-prompt-ann.zsh", "nvim/luac/init.lua"} {
		if got, _ := os.ReadFile(filepath.Join(w.Home, ".cache", name)); string(got) != "old\n" {
			t.Errorf("got %q in %s", got, name)
		}
	}
	w.Box.Write = []string{"~/.cache/mine"}
	w.does(w.need(), `cat ~/.cache/mine/old && echo x > ~/.cache/mine/new`)
}

// No listener on a socket can be reached, except on sockets that are named and those of the worktree.
func TestSockets(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.Home, "agent", "x"), "")
	for _, path := range []string{filepath.Join(w.Home, "agent", "sock"), filepath.Join(w.Home, "named"), filepath.Join(w.Tree, "own")} {
		server, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
	}
	w.Box.Write, w.Box.Home = []string{"~/named"}, []string{"~/agent"}
	w.does(w.need(), `test -S ~/named && test -S own && test -e ~/agent/x`)
	w.refused(w.need(), `test -S ~/agent/sock`)
}

// In the main checkout steps work, but can't change settings of trellis or files of git.
func TestSettingsOfTheProject(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.Main, ".trellis", "config.yaml"), "sandbox: require\n")
	w.write(filepath.Join(w.Main, ".trellis", "spec", "x.md"), "x\n")
	n := w.need()
	n.Dir, n.Kind = w.Main, sandbox.Steps
	w.does(n, `echo x > new.txt && echo x >> .trellis/spec/x.md && git status`)
	w.refused(n, `echo x >> .trellis/config.yaml`, `mv .trellis .t`, `rm .trellis/config.yaml`, `echo x > .git/hooks/pre-commit`, `git add new.txt`)
}

// On a machine with a sandbox nothing runs outside of it, not even with auto.
func TestPlaceThatCannotBeSetUp(t *testing.T) {
	w := newWorld(t)
	n := w.need()
	n.Dir = "/run/trellis-is-not-there"
	for _, mode := range []string{sandbox.Auto, sandbox.Require} {
		w.Box.Mode = mode
		cell, err := w.Box.Enter(t.Context(), n)
		if fail := (*flow.Failure)(nil); !errors.As(err, &fail) || !strings.HasPrefix(fail.Detail, "sandbox: "+mode) || cell.Launcher != nil {
			t.Errorf("%s: got %v, %v, want a failure", mode, cell, err)
		}
	}
}

// Edges S1 and A1: nothing that the repository has can be changed or removed, by whatever path it is reached, and git works on it as
// before.
func TestObjectsOfTheRepository(t *testing.T) {
	for _, packed := range []bool{false, true} {
		w := newWorld(t)
		if packed {
			w.git(w.Main, "gc", "-q")
		}
		objects := filepath.Join(w.Main, ".git", "objects")
		w.write(filepath.Join(w.Main, ".git", "lfs", "objects", "ab", "cd", "abcd"), "large\n")
		w.does(w.need(), `echo b > b.txt && git add -A && git diff --cached --stat && git status --porcelain && git log -p -1 && git cat-file -p HEAD:a.txt`,
			`test "$(git show :b.txt)" = b && git fsck --connectivity-only`, // of the previous command
			`git init -q /tmp/other && cd /tmp/other && echo x > x && git add x && git -c user.name=a -c user.email=b commit -qm x && git clone -q . /tmp/third && cat /tmp/third/x`,
			`git clone -q . /tmp/copy && cat /tmp/copy/a.txt`,
			`mkdir -p `+w.Main+`/.git/lfs/objects/ee && echo x > `+w.Main+`/.git/lfs/objects/ee/x`)
		w.refused(w.need(), `git stash`, `rm `+objects+`/trellis/objects/*/*`, `echo x > `+objects+`/trellis/config`, `mv `+objects+`/trellis `+objects+`/t`,
			`echo / > `+objects+`/info/alternates`, `mv `+objects+`/info `+objects+`/i`, `echo x > `+w.Main+`/.git/trellis/x`, `rm -r `+w.Main+`/.git/trellis/objects/a`,
			`mkdir `+w.Main+`/.git/worktrees/a/modules/x`)
		before := w.files(objects)
		w.run(w.need(), `o=$(git hash-object a.txt); f=`+objects+`/$(echo $o | cut -c1-2)/$(echo $o | cut -c3-); mkdir -p "$(dirname "$f")"; git cat-file blob HEAD:a.go > "$f"; chmod -R u+w `+objects)
		w.run(w.need(), `rm -rf "$(git rev-parse --git-common-dir)"; rm -rf `+objects+`; find `+w.Main+` -delete`)
		if got := w.files(objects); !maps.Equal(got, before) {
			t.Errorf("packed %v: the repository's objects were changed: got %v, want %v", packed, got, before)
		}
		w.git(w.Main, "fsck", "--full", "--strict")
		w.git(w.Main, "diff", "--exit-code", "HEAD")
		if got, _ := os.ReadFile(filepath.Join(w.Main, ".git", "lfs", "objects", "ab", "cd", "abcd")); string(got) != "large\n" {
			t.Errorf("got %q of LFS", got)
		}
		w.refused(w.need(), `echo new > new.txt; ulimit -f 0; git add new.txt`)                      // as on a full disk
		w.does(w.need(), `rm -f "$(git rev-parse --git-path index.lock)"; git add -A && git status`) // after all that
	}
}

// In the main checkout no program can add files to the index, or write objects.
func TestObjectsInTheMainCheckout(t *testing.T) {
	w := newWorld(t)
	n := w.need()
	n.Dir, n.Kind = w.Main, sandbox.Steps
	w.Box.Write = []string{filepath.Join(w.Main, ".git", "objects")}
	w.does(n, `echo x >> a.txt && git diff --stat && git status --porcelain`)
	w.refused(n, `echo x | git hash-object -w --stdin`, `rm -rf .git/objects/*`, `git add a.txt`)
}

// Objects that the repository borrows from another one are found, by relative paths too.
func TestObjectsBorrowedByARelativePath(t *testing.T) {
	w := newWorld(t)
	w.git(w.Root, "clone", "-q", "--bare", "main", "lender.git")
	w.write(filepath.Join(w.Main, ".git", "objects", "info", "alternates"), "../../../lender.git/objects\n")
	w.git(w.Main, "repack", "-adlq")
	w.git(w.Main, "prune-packed")
	if w.Box.Environ = append(w.Box.Environ, "TMPDIR="); len(w.files(filepath.Join(w.Main, ".git", "objects", "pack"))) != 0 {
		t.Fatal("the repository has packs of its own")
	}
	n := w.need()
	n.Own.Read = []string{filepath.Join(w.Root, "lender.git")}
	w.does(n, `git log -p -1 && echo b > b.txt && git add b.txt && git diff --cached --stat`)
}

// files returns the contents of the files below a folder, by path.
func (w *world) files(dir string) map[string]string {
	w.t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found[path] = string(data)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// Edge S1: the files that lead git to programs stay protected even if the part of git that a program may write can't be prepared,
// as an earlier program may have caused that. Its own folder is opened again; with any other failure nothing runs.
func TestPinsAreNotLost(t *testing.T) {
	w := newWorld(t)
	w.git(w.Main, "config", "core.hooksPath", "tools/hooks")
	hook := `echo x > tools/hooks/pre-commit`
	objects := filepath.Join(w.Main, ".git", "objects")
	w.does(w.need(), `echo b > b.txt && git add -A && chmod 000 `+objects+`/?? `+objects)
	w.refused(w.need(), hook)
	w.does(w.need(), `echo c > b.txt && git add -A && git write-tree`)
	own := filepath.Join(w.Main, ".git", "trellis", "objects", "a")
	if err := errors.Join(os.RemoveAll(own), os.WriteFile(own, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{sandbox.Auto, sandbox.Require} {
		w.Box.Mode = mode
		cell, err := w.Box.Enter(t.Context(), w.need())
		if fail := (*flow.Failure)(nil); !errors.As(err, &fail) || !strings.HasPrefix(fail.Detail, "sandbox: "+mode) || !strings.Contains(fail.Detail, own) || cell.Launcher != nil {
			t.Errorf("%s: got %v, %v, want a failure that names %s", mode, cell, err, own)
		}
	}
}

// A repository that a program makes in a folder of its worktree does not unprotect the files there that lead git to programs.
func TestPinsWithinARepositoryOfItsOwn(t *testing.T) {
	w := newWorld(t)
	w.git(w.Main, "config", "core.hooksPath", "tools/hooks")
	w.does(w.need(), `git init -q tools`)
	n := w.need()
	n.Dir = filepath.Join(w.Tree, "tools")
	w.refused(n, `echo x > hooks/pre-commit`, `mv hooks h`)
	w.does(n, `echo x > x`)
}

// An object that is added in the sandbox of a packed repository may be in the pack already, if a file was moved or touched:
// git writes it again if it can't freshen the pack. It is not reported as missing.
func TestAddedAndPacked(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"moved", "touched", "gone", "edited"} {
		w.write(filepath.Join(w.Main, name+".txt"), name+"\n")
	}
	w.git(w.Main, "add", "-A")
	w.git(w.Main, "commit", "-qm", "files")
	w.git(w.Main, "gc", "-q", "--prune=now")
	w.git(w.Tree, "reset", "-q", "--hard", "main")
	w.does(w.need(), `git mv moved.txt new.txt && touch -d 2020-01-01 touched.txt && cp a.txt copy.txt && git rm -q gone.txt && echo more >> edited.txt && echo x > added.txt && git add -A`)
	made, err := w.Box.Repo.Worktrees().Identify(w.Tree)
	if err != nil {
		t.Fatal(err)
	}
	list, err := w.Box.Repo.Index().Status(git.InWorktree(t.Context(), made), w.Tree)
	got := map[string]string{}
	for _, e := range list {
		got[e.Path] = e.Code
	}
	want := map[string]string{"added.txt": ".A", "copy.txt": "A.", "edited.txt": "DA", "gone.txt": "D.", "moved.txt": "D.", "new.txt": "A."}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got status %v, %v, want %v", got, err, want)
	}
}
