package sandbox_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/sandbox"
)

// What shells and editors keep in the folder of caches is not there, and nothing can be put there; caches of tools can be filled.
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

// Who listens on a socket anywhere is not heard, but for those that are named and those of the worktree.
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

// In the main checkout steps work, and lead trellis nowhere.
func TestSettingsOfTheProject(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.Main, ".trellis", "config.yaml"), "sandbox: require\n")
	w.write(filepath.Join(w.Main, ".trellis", "spec", "x.md"), "x\n")
	n := w.need()
	n.Dir, n.Kind = w.Main, sandbox.Steps
	w.does(n, `echo x > new.txt && echo x >> .trellis/spec/x.md && git status`)
	w.refused(n, `echo x >> .trellis/config.yaml`, `mv .trellis .t`, `rm .trellis/config.yaml`, `echo x > .git/hooks/pre-commit`, `git add new.txt`)
}

// On a machine with a sandbox nothing runs outside of it, with auto neither.
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

// What packs hold stays, and no other folder is given out for one of objects.
func TestPacks(t *testing.T) {
	w := newWorld(t)
	w.git(w.Main, "gc", "-q")
	objects := filepath.Join(w.Main, ".git", "objects")
	w.refused(w.need(), `rm `+objects+`/pack/*.pack`, `mv `+objects+`/pack `+objects+`/p`, `echo / > `+objects+`/info/alternates`, `mkdir `+w.Main+`/.git/worktrees/a/modules/x`)
	w.does(w.need(), `echo b > b.txt && git add -A && git diff --cached --stat`)
}
