package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/sandbox"
)

// poisoned is an attack that puts poison into a file, from the top of the target.
func poisoned(path string, off, require fate) attack {
	return attack{name: "writes " + path, script: fmt.Sprintf("mkdir -p \"$(dirname \"$ROOT/%s\")\"; echo '# poison' >> \"$ROOT/%[1]s\"", path),
		got: fmt.Sprintf("grep -qs poison \"$ROOT/%s\"", path), off: off, require: require}
}

// writes are the places that no agent's work needs.
func writes() (attacks []attack) {
	for _, path := range []string{"home/.bashrc", "home/.profile", "home/.zshenv", "home/.local/bin/git2", "home/.ssh/authorized_keys", "home/.gitconfig", "home/.config/git/config",
		"home/.config/git/attributes", "home/.config/trellis/config.yaml", "home/.local/state/trellis/trust.jsonl", "home/.claude/settings.json", "home/.claude/commands/x.md",
		"home/.codex/config.toml", "home/.config/opencode/opencode.json", "home/.config/systemd/user/x.service", "home/.config/autostart/x.desktop", "home/.vimrc", "home/.npmrc",
		"home/.cargo/bin/x", "home/.cargo/config.toml", "home/go/bin/x", "home/.docker/config.json", "home/.cache/zshenv", "home/.cache/p10k-instant-prompt-ada.zsh",
		"home/.cache/nvim/luac/x", "home/Library/LaunchAgents/x.plist", "bin/ls2", "repo-worktrees/feature/other/greet.sh", "repo/.env",
		"repo/.trellis/tasks/02-02-other/task.json", "repo/.trellis/.runtime/watch.json"} {
		attacks = append(attacks, poisoned(path, open(elsewhere), fate{}))
	}
	for _, file := range []string{"repo/greet.sh", "repo/.git/hooks/post-merge", "repo/.git/info/attributes", "repo/.git/objects/info/alternates"} {
		attacks = append(attacks, poisoned(file, told(filepath.Base(file)), fate{}))
	}
	return attacks
}

// temporaries are files of other programs' that everybody may write to, outside of the target.
func temporaries() (attacks []attack) {
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		file := dir + "/trellis-attack-$WORD"
		attacks = append(attacks, attack{name: "writes " + dir, script: "echo poison > " + file, got: "grep -qs poison " + file + "; r=$?; rm -f " + file + "; exit $r", off: open(elsewhere)})
	}
	return attacks
}

// TestWritesOutside: nothing outside of the worktree is written in the sandbox, and without it what can be seen is told.
func TestWritesOutside(t *testing.T) {
	t.Parallel()
	for _, mode := range bothModes(t) {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			x := newTarget(t, mode, "")
			x.write("../repo-worktrees/feature/other/keep", "")
			x.write("../home/.cache/nvim/luac/init.lua", "")
			together(t, x, mode, append(writes(), temporaries()...))
		})
	}
}

// together makes several attacks with one task, whose work is good.
func together(t *testing.T, x *target, mode string, attacks []attack) {
	t.Helper()
	x.commit()
	script := "echo '# work' >> greet.sh\n"
	for _, a := range attacks {
		script += "(" + a.script + "\n)\n"
	}
	x.play(script)
	_, out, errs := x.try(program, "start", victim)
	said := x.said(out + errs)
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			got, _ := x.shell(a.got)
			a.judge(t, mode, got, said)
		})
	}
}

// commit takes what stands in the main checkout for the base.
func (x *target) commit() {
	x.Helper()
	if ok, said := x.shell("git add -A && { git diff --cached --quiet || git commit -q -m settings; }"); !ok {
		x.Fatal(said)
	}
}

// ear is somebody who listens, and what was heard by name of the place.
type ear struct {
	sync.Mutex
	heard map[string]bool
}

func (e *ear) hears(name string) {
	e.Lock()
	defer e.Unlock()
	e.heard[name] = true
}

// packets listens to one at a place for those.
func (e *ear) packets(t *testing.T, name string) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		for buf := make([]byte, 100); ; e.hears(name) {
			if _, _, err := conn.ReadFrom(buf); err != nil {
				return
			}
		}
	}()
	return conn.LocalAddr().String()
}

// calls listens to who connects and says something.
func (e *ear) calls(t *testing.T, name, network, address string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(address), 0o755); network == "unix" && err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.SetReadDeadline(time.Now().Add(hang))
			if n, _ := conn.Read(make([]byte, 10)); n > 0 {
				e.hears(name)
			}
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// places are whom an agent can speak to on this machine: name, network and address.
func (e *ear) places(t *testing.T, x *target, who string) (all [][3]string) {
	unix := map[string]string{"ssh-agent": "../home/.ssh/agent.sock", "docker": "../home/.docker/run/docker.sock", "tmux": "../tmux-0/default", "1password": "../home/.1password/agent.sock",
		"gpg-agent": "../home/.gnupg/S.gpg-agent", "editor": "../home/.config/Code/1.sock", "git's monitor": ".git/fsmonitor--daemon.ipc"}
	for name, path := range unix {
		all = append(all, [3]string{name, "unix", e.calls(t, name, "unix", filepath.Join(x.Dir, path)+who)})
	}
	return append(all, [3]string{"a socket without a file", "unix", e.calls(t, "a socket without a file", "unix", "@trellis-attack-"+x.Word+who)},
		[3]string{"a server", "tcp", e.calls(t, "a server", "tcp", "127.0.0.1:0")}, [3]string{"a name server", "udp", e.packets(t, "a name server")})
}

// remote are the places that a program with network reaches, in the sandbox too.
var remote = map[string]bool{"a socket without a file": true, "a server": true, "a name server": true}

// TestSpeaks: in the sandbox nobody speaks to programs of this machine by their files.
func TestSpeaks(t *testing.T) {
	t.Parallel()
	for _, mode := range bothModes(t) {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			x, agent, verify := newTarget(t, mode, ""), &ear{heard: map[string]bool{}}, &ear{heard: map[string]bool{}}
			x.write("verify.sh", "true\n")
			x.write(".trellis/config.yaml", strings.Replace(x.read(".trellis/config.yaml"), "sh test.sh", "sh test.sh, sh verify.sh", 1))
			x.commit()
			x.play("echo '# work' >> greet.sh\n" + spoken(agent.places(t, x, "1")) + "cat > verify.sh <<'END'\n" + spoken(verify.places(t, x, "2")) + "true\nEND\n")
			_, out, errs := x.try(program, "start", victim)
			if said := out + errs; !strings.Contains(said, "02-01-bye is done") {
				t.Error(said)
			}
			agent.judge(t, mode, "the agent", remote)
			verify.judge(t, mode, "a check", remote)
		})
	}
}

// spoken is a shell's that speaks to all of them.
func spoken(places [][3]string) (script string) {
	for _, p := range places {
		script += fmt.Sprintf("attacker dial %s %s 2>/dev/null\n", p[1], p[2])
	}
	return script
}

// judge checks who was heard.
func (e *ear) judge(t *testing.T, mode, who string, may map[string]bool) {
	t.Helper()
	e.Lock()
	defer e.Unlock()
	for name := range e.heard {
		if mode != sandbox.Off && !may[name] {
			t.Errorf("%s speaks to %s", who, name)
		}
	}
	if mode == sandbox.Off && len(e.heard) == 0 {
		t.Errorf("%s tries nothing", who)
	}
}
