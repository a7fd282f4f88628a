package sandbox_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/sandbox"
)

// An agent or a check command can do its work in its worktree.
func TestWorksInItsWorktree(t *testing.T) {
	w := newWorld(t)
	w.does(w.need(),
		`echo b > b.txt && mkdir -p c/d && mv b.txt c/d/ && rm a.txt && ln -s c e`,
		`git status --porcelain && git add -A && git diff --cached --stat && git log -1 && git blame go.mod`,
		`test "$(git cat-file -p "$(echo kept | git hash-object -w --stdin)")" = kept`,
		`f=$(mktemp) && echo x > "$f" && test "$(dirname "$f")" = "${TMPDIR:-/tmp}"`,
		`echo x > /dev/null && echo x > /dev/shm/x && head -c 1 /dev/urandom`,
		`mkdir -p ~/.cache/tool && echo x > ~/.cache/tool/x`,
		`cat ~/.profile ~/.gitconfig`,
		`test "$(cat "$PWD/a.go" | wc -l)" = 3 && cat `+w.Main+`/a.txt`)
	if got, _ := os.ReadFile(filepath.Join(w.Tree, "c", "d", "b.txt")); string(got) != "b\n" {
		t.Errorf("got %q in the worktree, want b", got)
	}
	if left, _ := filepath.Glob(filepath.Join(w.Main, ".git", "worktrees", "a", "index")); len(left) != 1 {
		t.Error("the index is gone")
	}
}

// A build with its caches, which is what most check commands are, works without a network, and so do tests that call the loopback.
func TestBuilds(t *testing.T) {
	w := newWorld(t)
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	w.write(filepath.Join(w.Tree, "loopback_test.go"), `package a

import (
	"net"
	"testing"
)

func TestLoopback(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if c, err := net.Dial("tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		} else {
			c.Close()
		}
	}
}
`)
	set := "GOCACHE=" + strings.TrimSpace(string(cache))
	w.Box.Environ = append(w.Box.Environ, set)
	w.does(w.need(), `export GOFLAGS=-mod=mod `+set+`; go build ./... && go vet ./... && go test ./...`)
}

// Files outside of a program's work can't be written, and no path can be made to lead elsewhere.
func TestRefusesWhatIsOutside(t *testing.T) {
	w := newWorld(t)
	w.git(w.Main, "config", "core.hooksPath", "tools/hooks")
	w.write(filepath.Join(w.Tree, "tools", "hooks", "pre-commit"), "#!/bin/sh\n")
	common := filepath.Join(w.Main, ".git")
	w.refused(w.need(),
		`echo x > `+common+`/hooks/pre-commit`, `rm -rf `+common+`/hooks`, `mv `+common+`/hooks `+common+`/hooks2`,
		`git config core.fsmonitor ./evil`, `echo x >> `+common+`/config`, `echo x > `+common+`/info/attributes`, `echo x > `+common+`/config.worktree`,
		`git update-ref refs/heads/main HEAD~0 && git branch other`, `echo x >> a.txt; git stash`, `git branch -D main`, `rm `+common+`/HEAD`,
		`echo x > .git`, `rm .git`, `mv .git x`, `rm `+common+`/worktrees/a/commondir`, `echo / > `+common+`/worktrees/a/gitdir`,
		`git symbolic-ref HEAD refs/heads/main`, `cd `+common+`/worktrees/a && rm HEAD && mkfifo HEAD`, `truncate -s 1T `+common+`/worktrees/a/HEAD`,
		`echo x > `+common+`/worktrees/a/config.worktree`,
		`echo x > tools/hooks/pre-commit`, `mv tools tools2`, `rm -rf tools`,
		`echo x > `+w.Main+`/a.txt`, `mkdir -p `+w.Main+`/.trellis/tasks/x`,
		`echo x >> ~/.profile`, `rm ~/.profile`, `cat ~/.ssh/id`,
		`touch /etc/x`, `touch /usr/x`, `mount -o remount,rw /`, `umount `+w.Tree+`/.git`, `kill -0 `+pid(), `ls /proc/`+pid())
	w.does(w.need(), `touch `+w.Root+`/gone ~/.bash_login; mkdir ~/.config`) // in temporary folders of the sandbox
	for _, name := range []string{"gone", "home/.bash_login", "home/.config"} {
		if _, err := os.Stat(filepath.Join(w.Root, name)); err == nil {
			t.Errorf("%s came out of the sandbox", name)
		}
	}
	if got, _ := os.ReadFile(filepath.Join(w.Home, ".profile")); string(got) != "umask 022\n" {
		t.Errorf("got %q in .profile", got)
	}
	if _, err := os.Stat(filepath.Join(w.Home, ".ssh", "id")); err != nil {
		t.Error(err)
	}
}

// A program that only reads can't write in its worktree, but has temporary files.
func TestReaderWritesNothing(t *testing.T) {
	w := newWorld(t)
	n := w.need()
	n.Edit, n.Kind = false, "accept"
	w.does(n, `git status --porcelain && git diff && cat a.txt`, `mktemp`)
	w.refused(n, `touch x`, `rm a.txt`, `git add -A`, `echo x | git hash-object -w --stdin`, `mkdir y`)
}

// A program sees its own state, and may write what of it other programs do not run; no other program sees it.
func TestOwnState(t *testing.T) {
	w := newWorld(t)
	state := filepath.Join(w.Home, ".claude")
	w.write(filepath.Join(state, "settings.json"), "{}\n")
	n := w.need()
	w.refused(n, `cat ~/.claude/settings.json`)
	w.write(filepath.Join(state, "snapshots", "other.sh"), "true\n")
	n.Kind, n.Own = "implement", sandbox.Own{Write: []string{state}, Private: []string{filepath.Join(state, "snapshots")}, Fixed: []string{filepath.Join(state, "settings.json")}, Read: []string{filepath.Join(w.Home, ".ssh")}}
	w.does(n, `cat ~/.claude/settings.json && echo x > ~/.claude/session && cat ~/.ssh/id`)
	w.refused(n, `echo x > ~/.claude/settings.json`, `mv ~/.claude/settings.json ~/.claude/x`, `mv ~/.claude ~/.c`, `echo x > ~/.ssh/id`, `cat ~/.claude/snapshots/other.sh`, `rm -rf ~/.claude/snapshots`, `mv ~/.claude/snapshots ~/.claude/s`)
	w.does(n, `echo x > ~/.claude/snapshots/mine && echo x > ~/.claude/snapshots/other.sh`)
	if got, _ := filepath.Glob(filepath.Join(state, "snapshots", "*")); len(got) != 1 {
		t.Errorf("got %v in a folder that is private to each run, want other.sh alone", got)
	}
	if got, _ := os.ReadFile(filepath.Join(state, "snapshots", "other.sh")); string(got) != "true\n" {
		t.Errorf("got %q in another run's script", got)
	}
}

// The home folder and the folder of temporary files exist within hidden folders, under their usual names.
func TestFoldersThatAreExpected(t *testing.T) {
	w := newWorld(t)
	for _, dir := range []string{"bare", "bare/tmp"} {
		if err := os.Mkdir(filepath.Join(w.Root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("bare", filepath.Join(w.Root, "link")); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(w.Root, "link")
	w.Box.Environ = append(w.Box.Environ, "HOME="+dir, "TMPDIR="+dir+"/tmp")
	w.does(w.need(), `cd `+dir+`/tmp && echo x > x && echo x > `+dir+`/y && TMPDIR=`+dir+`/tmp mktemp`)
	for _, name := range []string{"tmp/x", "y"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s came out of the sandbox", name)
		}
	}
}

func TestMorePathsToWrite(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.Home, "data", "x"), "x\n")
	w.Box.Write = []string{"~/data", filepath.Join(w.Root, "gone"), w.Root, "~/", "/", filepath.Join(w.Main, ".git"), filepath.Join(w.Main, ".git", "hooks")}
	w.does(w.need(), `echo y > ~/data/x`)
	w.refused(w.need(), `echo x >> ~/.profile`, `echo x > `+w.Main+`/a.txt`, `touch `+w.Main+`/.git/x`, `touch `+w.Main+`/.git/hooks/x`, `touch /etc/x`)
}

// Programs that must have no network can't reach even the servers of this machine.
func TestNetworkByKind(t *testing.T) {
	w := newWorld(t)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Addr().String())
	call := `exec 3<>/dev/tcp/127.0.0.1/` + port
	for _, c := range []struct {
		offline, network []string
		reached          map[string]bool
	}{
		{reached: map[string]bool{sandbox.Verify: false, sandbox.Setup: true, sandbox.Steps: false, "implement": false}},
		{network: []string{sandbox.Verify, "implement"}, offline: []string{"accept"}, reached: map[string]bool{sandbox.Verify: true, sandbox.Steps: false, "implement": true, "accept": false}},
		{network: []string{sandbox.Steps}, offline: []string{sandbox.Setup}, reached: map[string]bool{sandbox.Steps: true, sandbox.Setup: false}},
	} {
		w.Box.Offline, w.Box.Network = c.offline, c.network
		for kind, reached := range c.reached {
			n := w.need()
			n.Kind = kind
			if code, said := w.run(n, call); (code == 0) != reached {
				t.Errorf("%+v, %s: got exit %d, want reached %v: %s", c, kind, code, reached, said)
			}
		}
	}
}

// A program that fails without a network says so in words of its language: then a remedy is given, and with no other failure.
func TestExplain(t *testing.T) {
	offline := sandbox.Cell{Offline: sandbox.Verify}
	for said, want := range map[string]string{
		"bash: connect: Network is unreachable":                                                                           "no network",
		"dial tcp: lookup proxy.golang.org on 127.0.0.53:53: read udp: connection refused":                                "no network",
		"dial tcp: lookup proxy.example.org: Temporary failure in name resolution":                                        "no network",
		"curl: (6) Could not resolve host: example.org":                                                                   "no network",
		"npm error code EAI_AGAIN":                                                                                        "no network",
		"Error: getaddrinfo ENOTFOUND registry.example.org":                                                               "no network",
		"fatal: unable to access 'https://example.org/': Could not resolve host: example.org":                             "no network",
		"java.net.UnknownHostException: repo.example.org":                                                                 "no network",
		"failed to lookup address information: Temporary failure":                                                         "no network",
		"NewConnectionError('<HTTPSConnection>: Failed to establish a new connection: [Errno 101] Network is unreachable": "no network",
		"psql: error: connection to server at 127.0.0.1 failed: Connection refused":                                       "servers of this machine",
		"Error: connect ECONNREFUSED 127.0.0.1:6379":                                                                      "servers of this machine",
		"--- FAIL: TestOne (0.00s)":                                                                                       "",
	} {
		got := offline.Explain(1, []byte(said))
		if !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: got %q, want %q", said, got, want)
		}
		if want != "" && !strings.Contains(got, "sandbox_network: [verify]") {
			t.Errorf("%q: got %q, want what to write", said, got)
		}
		for _, c := range []string{offline.Explain(0, []byte(said)), sandbox.Cell{}.Explain(1, []byte(said))} {
			if c != "" {
				t.Errorf("%q: got %q of one that passed, or has the network", said, c)
			}
		}
	}
}

func TestModes(t *testing.T) {
	w := newWorld(t)
	nothing := []string{"PATH=" + t.TempDir(), "HOME=" + w.Home}
	for _, c := range []struct {
		box           *sandbox.Box
		inside        bool
		lacks, refuse string
	}{
		{box: nil},
		{box: &sandbox.Box{Environ: w.env()}},
		{box: &sandbox.Box{Mode: sandbox.Off, Environ: w.env()}},
		{box: &sandbox.Box{Mode: sandbox.Auto, Environ: w.env()}, inside: true},
		{box: &sandbox.Box{Mode: sandbox.Require, Environ: w.env()}, inside: true},
		{box: &sandbox.Box{Mode: sandbox.Auto, Environ: nothing}, lacks: "not installed"},
		{box: &sandbox.Box{Mode: sandbox.Require, Environ: nothing}, refuse: "sandbox: require, but bubblewrap is not installed"},
	} {
		cell, err := c.box.Enter(t.Context(), w.need())
		if (len(cell.Launcher) > 0) != c.inside || (cell.Name != "") != c.inside {
			t.Errorf("%+v: got %v, want a place: %v", c.box, cell, c.inside)
		}
		if got := c.box.MissingReason(t.Context()); !strings.Contains(got, c.lacks) || (got == "") != (c.lacks == "") {
			t.Errorf("%+v: got %q, want %q", c.box, got, c.lacks)
		}
		for _, err := range []error{err, c.box.Ready(t.Context())} {
			if (err == nil) != (c.refuse == "") || err != nil && !strings.Contains(err.Error(), c.refuse) {
				t.Errorf("%+v: got %v, want %q", c.box, err, c.refuse)
			}
		}
	}
}

// If bwrap can't do its work, the report has the words of bwrap and a remedy.
func TestBubblewrapThatCannot(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\ntest $# = 1 && exec echo bubblewrap 9.9.9\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(bin, "bwrap"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	f := sandbox.Detect(t.Context(), []string{"PATH=" + bin + ":/usr/bin:/bin"})
	if f.OK() || f.Version != "9.9.9" || !strings.Contains(f.Why, "uid map: Permission denied") || !strings.Contains(f.Hint, "AppArmor") {
		t.Errorf("got %+v", f)
	}
}

// A program that is found through symbolic links in a hidden folder is visible.
func TestLinksToWhatIsSeen(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.Root, "apps", "x", "bin", "tool"), "#!/bin/sh\necho tool\n")
	if err := os.Chmod(filepath.Join(w.Root, "apps", "x", "bin", "tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"current": "apps/x", "now": filepath.Join(w.Root, "current")} {
		if err := os.Symlink(target, filepath.Join(w.Root, link)); err != nil {
			t.Fatal(err)
		}
	}
	w.Box.Environ = append(w.Box.Environ, "PATH="+filepath.Join(w.Root, "now", "bin")+":"+os.Getenv("PATH"))
	w.does(w.need(), w.Root+`/now/bin/tool`, `test ! -e `+w.Root+`/apps/x/lib`)
}
