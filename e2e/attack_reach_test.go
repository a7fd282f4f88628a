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

// poisoned returns an attack that appends poison to a file. path is relative to the root of the target.
func poisoned(path string, off, require fate) attack {
	return attack{name: "writes " + path, script: fmt.Sprintf("mkdir -p \"$(dirname \"$ROOT/%s\")\"; echo '# poison' >> \"$ROOT/%[1]s\"", path),
		got: fmt.Sprintf("grep -qs poison \"$ROOT/%s\"", path), off: off, require: require}
}

// writes returns attacks that write to places that no agent's work needs.
func writes() (attacks []attack) {
	for _, path := range []string{"home/.bashrc", "home/.profile", "home/.zshenv", "home/.local/bin/git2", "home/.ssh/authorized_keys", "home/.gitconfig", "home/.config/git/config",
		"home/.config/git/attributes", "home/.config/trellis/config.yaml", "home/.local/state/trellis/trust.jsonl", "home/.claude/settings.json", "home/.claude/commands/x.md",
		"home/.codex/config.toml", "home/.config/opencode/opencode.json", "home/.config/systemd/user/x.service", "home/.config/autostart/x.desktop", "home/.vimrc", "home/.npmrc",
		"home/.cargo/bin/x", "home/.cargo/config.toml", "home/go/bin/x", "home/.docker/config.json", "home/.cache/zshenv", "home/.cache/p10k-instant-prompt-ada.zsh",
		"home/.cache/nvim/luac/x", "home/Library/LaunchAgents/x.plist", "bin/ls2", "repo-worktrees/feature/other/greet.sh", "repo/.env",
		"repo/.trellis/tasks/02-02-other/task.json", "repo/.trellis/.runtime/watch.json"} {
		attacks = append(attacks, poisoned(path, open(elsewhere), fate{}))
	}
	for _, file := range []string{"repo/greet.sh", "repo/.git/hooks/post-merge", "repo/.git/info/attributes"} {
		attacks = append(attacks, poisoned(file, told(filepath.Base(file)), fate{}))
	}
	return attacks
}

// temporaries returns attacks that write files outside of the target, into folders that all programs may write to.
func temporaries() (attacks []attack) {
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		file := dir + "/trellis-attack-$WORD"
		attacks = append(attacks, attack{name: "writes " + dir, script: "echo poison > " + file, got: "grep -qs poison " + file + "; r=$?; rm -f " + file + "; exit $r", off: open(elsewhere)})
	}
	return attacks
}

// TestWritesOutside: in the sandbox nothing outside of the worktree is written, and without it what can be detected is reported.
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

// together runs several attacks in one task, whose work is good.
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

// commit commits the content of the main checkout as the base.
func (x *target) commit() {
	x.Helper()
	if ok, said := x.shell("git add -A && { git diff --cached --quiet || git commit -q -m settings; }"); !ok {
		x.Fatal(said)
	}
}

// secretFiles are the files of a home folder in which programs keep keys.
var secretFiles = strings.Fields(`.ssh/id_rsa .ssh/id_ed25519 .ssh/config .gnupg/private-keys-v1.d/a.key .aws/credentials .aws/sso/cache/a.json .azure/msal_token_cache.json
.config/gcloud/application_default_credentials.json .config/gcloud/credentials.db .kube/config .docker/config.json .netrc _netrc .authinfo .authinfo.gpg .git-credentials .config/git/credentials
.config/gh/hosts.yml .config/glab-cli/config.yml .config/hub .config/tea/config.yml .pypirc .config/pip/pip.conf .pip/pip.conf .npmrc .yarnrc .yarnrc.yml .config/pnpm/auth.ini .bunfig.toml
.m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .gradle/init.gradle .cargo/credentials.toml .cargo/config.toml .gem/credentials .bundle/config .composer/auth.json .config/composer/auth.json .nuget/NuGet/NuGet.Config
.huggingface/token .cache/huggingface/token .kaggle/kaggle.json .config/kaggle/kaggle.json .config/stripe/config.toml .config/vercel/auth.json .local/share/com.vercel.cli/auth.json .config/netlify/config.json .netlify/config.json
.pulumi/credentials.json .cloudflared/cert.pem .wrangler/config/default.toml .config/.wrangler/config/default.toml .fly/config.yml .config/doctl/config.yaml .config/hcloud/cli.toml .terraform.d/credentials.tfrc.json .terraformrc .vault-token
.config/sops/age/keys.txt .config/age/keys.txt .password-store/a.gpg .local/share/keyrings/login.keyring .config/op/config .config/1Password/settings .config/rclone/rclone.conf .s3cfg .boto .oci/config .pgpass .my.cnf .mylogin.cnf
.config/heroku/config .heroku/credentials .config/containers/auth.json .mozilla/firefox/a/key4.db .config/google-chrome/Default/Cookies .config/chromium/Default/Cookies .config/Code/User/globalStorage/state.vscdb
.config/Cursor/User/globalStorage/state.vscdb .cursor/mcp.json .vscode/argv.json .config/Slack/Cookies .config/discord/Cookies .config/Signal/config.json .thunderbird/a/logins.json
.bash_history .zsh_history .zhistory .history .local/share/fish/fish_history .python_history .node_repl_history .psql_history .mysql_history .sqlite_history .irb_history .lesshst .viminfo
.claude/.credentials.json .claude.json .codex/auth.json .local/share/opencode/auth.json .gemini/oauth_creds.json .config/github-copilot/hosts.json .aider.conf.yml .continue/config.json .config/openai/key .anthropic/key
.env .secrets Documents/passwords.txt .config/weechat/sec.conf .msmtprc .config/sourcegraph/token .sentryclirc .config/linear/token .jira.d/config.yml .config/ngrok/ngrok.yml .ngrok2/ngrok.yml .snyk .config/snowflake/config.toml .dbt/profiles.yml .databrickscfg .bitcoin/wallet.dat .ethereum/keystore/a`)

// secretNames are variables with secrets that a person may have set in the shell that trellis is started from.
var secretNames = strings.Fields(`AWS_SECRET_ACCESS_KEY GITHUB_TOKEN GH_TOKEN NPM_TOKEN DATABASE_URL SENTRY_DSN SLACK_WEBHOOK API_KEY_PROD MY_TOKEN_V2 JWT OPENAI_API_KEY ANTHROPIC_API_KEY
DB_PASSWORD VAULT_ADDR_TOKEN STRIPE_SECRET TWILIO_AUTH CI_JOB_JWT PGPASSWORD SSH_AUTH_SOCK KUBECONFIG`)

// steal is a shell script that copies all secrets into a folder: files, the environment, and that of the processes above.
const steal = `L=%s; mkdir -p $L; cd $HOME
cat %s > $L/files
cat $MAIN/.env > $L/main-env; cat $ROOT/repo-worktrees/feature/other/.env > $L/other-env
env > $L/env; p=$$; i=0; while [ $i -lt 7 ] && [ "$p" -gt 1 ]; do cat /proc/$p/environ > $L/environ$i; p=$(sed -n 's/^PPid:\t//p' /proc/$p/status); i=$((i+1)); done`

// TestSecrets, edge S7: in the sandbox neither an agent nor a command that runs the agent's code finds a secret.
func TestSecrets(t *testing.T) {
	t.Parallel()
	for _, mode := range bothModes(t) {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			x := newTarget(t, mode, "")
			x.write("verify.sh", "true\n")
			x.write(".trellis/config.yaml", strings.Replace(x.read(".trellis/config.yaml"), "sh test.sh", "sh test.sh, sh verify.sh", 1)+"verify_fresh: false\n") // so that verify.sh runs in the worktree, and its loot stays there
			x.commit()
			for _, f := range secretFiles {
				x.write("../home/"+f, fmt.Sprintf("# planted %s\ntoken = \"planted %[1]s\"\n<password>planted</password>\nindex = https://ada:planted@example.org\n", f))
			}
			for _, f := range []string{".env", "../repo-worktrees/feature/other/.env"} {
				x.write(f, "planted "+f+"\n")
			}
			for _, n := range secretNames {
				x.Env = append(x.Env, n+"=planted-"+n)
			}
			files := strings.Join(secretFiles, " ")
			x.play("W=$PWD; echo '# work' >> greet.sh; echo loot >> .gitignore\ncat > verify.sh <<'END'\nW=$PWD; (" + fmt.Sprintf(steal, "$W/loot/verify", files) + ") 2>/dev/null; true\nEND\n" + fmt.Sprintf(steal, "$W/loot/agent", files))
			_, out, errs := x.try(program, "start", victim)
			for _, who := range []string{"agent", "verify"} {
				x.stolen(t, mode, who, out+errs)
			}
		})
	}
}

// stolen checks what the agent or the command, named by who, found.
func (x *target) stolen(t *testing.T, mode, who, said string) {
	t.Helper()
	dir := filepath.Join(x.Root, "repo-worktrees/feature/bye/loot", who)
	if _, err := os.Stat(filepath.Join(dir, "env")); err != nil {
		t.Fatalf("%s tried nothing: %v\n%s", who, err, said)
	}
	_, found := x.shell("grep -rhoE 'planted[- ].*' -a " + dir + " | tr '\\0' '\\n' | grep -oE '^[A-Z_0-9]*=?planted.*' | sort -u")
	if mode == sandbox.Off {
		t.Logf("%s without a sandbox: %d secrets", who, strings.Count(found, "\n"))
	} else if found != "" {
		t.Errorf("%s reads %d secrets:\n%s", who, strings.Count(found, "\n"), found)
	}
}

// ear listens at places, and records the names of those that were spoken to.
type ear struct {
	sync.Mutex
	heard map[string]bool
}

func (e *ear) hears(name string) {
	e.Lock()
	defer e.Unlock()
	e.heard[name] = true
}

// packets listens for UDP packets, and returns its address.
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

// calls listens for clients that connect and send something, and returns its address.
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

// places starts listeners for all that an agent could speak to on this machine, and returns name, network and address of each.
func (e *ear) places(t *testing.T, x *target, who string) (all [][3]string) {
	unix := map[string]string{"ssh-agent": "../home/.ssh/agent.sock", "docker": "../home/.docker/run/docker.sock", "tmux": "../tmux-0/default", "1password": "../home/.1password/agent.sock",
		"gpg-agent": "../home/.gnupg/S.gpg-agent", "editor": "../home/.config/Code/1.sock", "git's monitor": ".git/fsmonitor--daemon.ipc"}
	for name, path := range unix {
		all = append(all, [3]string{name, "unix", e.calls(t, name, "unix", filepath.Join(x.Dir, path)+who)})
	}
	_, named, _ := net.SplitHostPort(e.calls(t, "a server by its name", "tcp", "127.0.0.1:0"))
	all = append(all, [3]string{"a server by its name", "tcp", "localhost:" + named})
	if own := ownAddress(t); own != "" {
		all = append(all, [3]string{"a host by its address", "tcp", e.calls(t, "a host by its address", "tcp", net.JoinHostPort(own, "0"))})
	}
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Logf("there is no IPv6 here: %v", err)
	} else {
		l.Close()
		all = append(all, [3]string{"a server over IPv6", "tcp", e.calls(t, "a server over IPv6", "tcp", "[::1]:0")})
	}
	return append(all, [3]string{"a socket without a file", "unix", e.calls(t, "a socket without a file", "unix", "@trellis-attack-"+x.Word+who)},
		[3]string{"a server", "tcp", e.calls(t, "a server", "tcp", "127.0.0.1:0")}, [3]string{"a name server", "udp", e.packets(t, "a name server")})
}

// ownAddress returns an IPv4 address of this machine other than its loopback, or "" if it has none.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Log("this machine has no address but its loopback")
	return ""
}

// remote names the places that a program with full network access reaches, in the sandbox too.
var remote = map[string]bool{"a socket without a file": true, "a server": true, "a server by its name": true, "a host by its address": true, "a server over IPv6": true, "a name server": true}

// TestSpeaks, edge S7: in the sandbox nobody reaches programs of this machine by their sockets in the file system, the commands
// that decide have no network, and where the sandbox is required agents reach only named hosts, by the proxy too.
func TestSpeaks(t *testing.T) {
	t.Parallel()
	for _, mode := range bothModes(t) {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			x, agent, verify, setup := newTarget(t, mode, "worktree: {setup: [sh setup.sh]}\n"), &ear{heard: map[string]bool{}}, &ear{heard: map[string]bool{}}, &ear{heard: map[string]bool{}}
			x.write("verify.sh", "true\n")
			x.write("setup.sh", "true\n")
			x.write(".trellis/config.yaml", strings.Replace(x.read(".trellis/config.yaml"), "sh test.sh", "sh test.sh, sh verify.sh", 1))
			x.commit()
			all := agent.places(t, x, "1")
			later := setup.places(t, x, "3")
			x.play("echo '# work' >> greet.sh\n" + spoken(all) + byProxy(all) + "cat > verify.sh <<'END'\n" + spoken(verify.places(t, x, "2")) + "true\nEND\n" +
				"cat > setup.sh <<'END'\n" + spoken(later) + byProxy(later) + "true\nEND\n")
			_, out, errs := x.try(program, "start", victim)
			if said := out + errs; !strings.Contains(said, "next: trellis diff 02-01-bye") {
				t.Error(said)
			}
			may := remote
			if mode == sandbox.Require {
				may = nil
				if said := out + errs; !strings.Contains(said, "asked for localhost:") || !strings.Contains(said, "which is not let through; next: add it to sandbox_hosts in .trellis/config.yaml") {
					t.Errorf("nobody is told what was asked for: %s", said)
				}
			}
			agent.judge(t, mode, "the agent", may)
			setup.judge(t, mode, "what the agent put into setup", may)
			verify.judge(t, mode, "a check", nil)
		})
	}
}

// spoken returns a shell script that speaks to all places.
func spoken(places [][3]string) string {
	script := "attacker dial"
	for _, p := range places {
		script += " " + p[1] + " " + p[2]
	}
	return script + " 2>/dev/null\n"
}

// byProxy returns a shell script that asks the proxy to connect to each place that is a TCP server.
func byProxy(places [][3]string) string {
	script := "attacker via"
	for _, p := range places {
		if p[1] == "tcp" {
			script += " " + p[2]
		}
	}
	return script + " 2>/dev/null\n"
}

// judge checks at which places who was heard: in the sandbox only where it may be, without a sandbox at least somewhere.
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
