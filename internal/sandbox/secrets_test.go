package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/sandbox"
)

// planted are files of a home folder that hold credentials, one of each kind that programs keep; edge S7.
var planted = strings.Fields(`
	.ssh/id_ed25519 .ssh/config .gnupg/private-keys-v1.d/x.key .netrc _netrc .authinfo .git-credentials .config/git/credentials .config/gh/hosts.yml .config/glab-cli/config.yml .config/hub .config/tea/config.yml
	.npmrc .yarnrc.yml .config/yarn/npmrc .pypirc .config/pypoetry/auth.toml .pip/pip.conf .config/pip/pip.conf .condarc .config/uv/credentials.toml .cargo/credentials .cargo/credentials.toml .cargo/config.toml .gem/credentials .local/share/gem/credentials .bundle/config .gemrc
	.m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .gradle/init.gradle .sbt/credentials .ivy2/.credentials .config/coursier/credentials.properties .nuget/NuGet/NuGet.Config .config/NuGet/NuGet.Config .composer/auth.json .config/composer/auth.json .hex/hex.config .pub-cache/credentials.json .config/dart/pub-credentials.json .config/go/env
	.aws/credentials .aws/sso/cache/x.json .azure/msal_token_cache.json .config/gcloud/application_default_credentials.json .kube/config .docker/config.json .config/containers/auth.json .config/helm/registry/config.json .minikube/profiles/client.key .config/doctl/config.yaml .config/hcloud/cli.toml .config/scw/config.yaml .linode-cli .config/linode-cli .vultr-cli.yaml
	.fly/config.yml .config/heroku/auth.json .local/share/heroku/netrc .config/vercel/auth.json .local/share/com.vercel.cli/auth.json .config/netlify/config.json .netlify/config.json .railway/config.json .config/.wrangler/config/default.toml .wrangler/config/default.toml .cloudflared/cert.pem .pulumi/credentials.json .terraform.d/credentials.tfrc.json .terraformrc .vault-token .config/stripe/config.toml .config/ngrok/ngrok.yml .ngrok2/ngrok.yml
	.supabase/access-token .config/turso/settings.json .oci/config .s3cfg .boto .config/rclone/rclone.conf .config/op/config .config/sops/age/keys.txt .config/age/key.txt .password-store/x.gpg .local/share/keyrings/login.keyring .config/keepassxc/keepassxc.ini .config/Bitwarden/data.json
	.huggingface/token .cache/huggingface/token .config/huggingface/token .kaggle/kaggle.json .config/wandb/settings .modal.toml .config/replicate/token .openai/key .config/openai/key .config/github-copilot/hosts.json .gemini/oauth_creds.json .config/aider/.env .aider.conf.yml .continue/config.json .cursor/mcp.json .config/Cursor/User/globalStorage/state.vscdb .config/Code/User/globalStorage/state.vscdb .vscode-server/data/token .config/JetBrains/x/c.kdbx .config/zed/credentials
	.claude/.credentials.json .claude.json .codex/auth.json .local/share/opencode/auth.json .config/opencode/opencode.json
	.pgpass .my.cnf .mylogin.cnf .mongorc.js .config/redis/rediscli .snowsql/config .snowflake/connections.toml .dbt/profiles.yml .databrickscfg .config/mycli/myclirc .erlang.cookie .bash_history .zsh_history .zhistory .local/share/fish/fish_history .python_history .psql_history .node_repl_history .local/share/atuin/history.db .lesshst
	.mozilla/firefox/x/logins.json .config/google-chrome/Default/Cookies .config/chromium/Default/Cookies .thunderbird/x/logins.json .config/Slack/Cookies .config/Signal/config.json .weechat/sec.conf .config/weechat/sec.conf .Xauthority .android/adbkey .bitcoin/wallet.dat .ethereum/keystore/x .config/solana/id.json .solana/id.json
	.bazelrc .Rprofile .yarnrc .env .envrc .secrets .bashrc .zshrc .profile .gitconfig .config/git/config .curlrc .wgetrc .mbsyncrc .msmtprc .fetchmailrc .muttrc .smbcredentials .wpa_supplicant.conf .config/systemd/user/x.service .config/autostart/x .jira.d/config .config/jira/.config.yml .circleci/cli.yml .config/act/actrc .travis/config.yml .config/sentry .sentryclirc .bugzillarc .config/gist .gist
	notes.txt Documents/passwords.txt work/other/.env Downloads/key.pem Dropbox/x go/src/other/.env`)

// accountIn returns the content of such a file: word, in the syntax of the file's tool.
func accountIn(name, word string) string {
	if name == ".bundle/config" {
		return "BUNDLE_GEMS__EXAMPLE__ORG: \"ann:" + word + "\"\n"
	}
	switch filepath.Base(name) {
	case ".gitconfig":
		return "[user]\n\tname = Ann\n[http \"https://example.org/\"]\n\textraheader = Authorization: basic " + word + "\n"
	case "config":
		return "[url \"https://ann:" + word + "@example.org/\"]\n\tinsteadOf = https://example.org/\n"
	case "settings.xml":
		return "<settings><servers><server><password>" + word + "</password></server></servers></settings>\n"
	case "gradle.properties":
		return "nexusUser=ann\nnexusPassword=" + word + "\n"
	case "env":
		return "GOPROXY=https://ann:" + word + "@proxy.example.org\n"
	case "init.gradle":
		return "credentials {\n\tusername 'ann'\n\tpassword '" + word + "'\n}\n"
	case ".condarc":
		return "channels:\n  - https://conda.example.org/t/" + word + "/main\n"
	case ".bazelrc":
		return "build --remote_header=x-api-key=" + word + "\n"
	case ".Rprofile":
		return "Sys.setenv(GITHUB_PAT = \"" + word + "\")\n"
	case "pip.conf", ".gemrc":
		return "index-url = https://ann:" + word + "@pip.example.org/simple\n"
	case ".bashrc", ".zshrc", ".profile":
		return "umask 022\nexport MINE_API_KEY=" + word + "\n"
	}
	return "token = " + word + "\n"
}

// own are the planted files that each agent sees.
var own = map[string][]string{"claude": {".claude/.credentials.json", ".claude.json"}, "codex": {".codex/auth.json"}, "opencode": {".local/share/opencode/auth.json", ".config/opencode/opencode.json"}}

// Code that agents wrote reads none of well over 100 files with credentials, and none in the environment; each agent reads only its
// own; edge S7. A program that reads all that it can see searches home folder, temporary files and processes.
func TestNoAccountIsRead(t *testing.T) {
	w := newWorld(t)
	const word = "geheim0123456789"
	for i, name := range planted {
		w.write(filepath.Join(w.Home, name), accountIn(name, fmt.Sprintf("%s-%d-", word, i)))
	}
	w.write(filepath.Join(w.Root, "other", "home", ".ssh", "id"), word)
	w.write(filepath.Join(w.Root, "keys", "vertex.json"), word)
	env := append(w.env(), "PGPASSWORD="+word, "DATABASE_URL=postgres://ann:"+word+"@db/x", "ANTHROPIC_API_KEY="+word, "OPENAI_API_KEY="+word, "MINE="+word,
		"GOOGLE_APPLICATION_CREDENTIALS="+filepath.Join(w.Root, "keys", "vertex.json"))
	w.Box.Environ = env
	t.Setenv("TRELLIS_TEST_ACCOUNT", word) // so that this process, the parent of the sandbox, has it
	read := `{ grep -rslaF ` + word + ` ~ /tmp /var/tmp /run /home /root /mnt /dev/shm; env | grep -q ` + word + ` && echo the environment; grep -laF ` + word + ` /proc/[0-9]*/environ /proc/[0-9]*/cmdline; } 2>/dev/null; true`
	read = strings.ReplaceAll(read, word, `"$(printf 'geheim%s' 0123456789)"`) // otherwise the command finds itself
	for kind, state := range map[string][]string{sandbox.Verify: nil, sandbox.Steps: nil, sandbox.Setup: nil, "claude": {".claude", ".claude.json"}, "codex": {".codex"}, "opencode": {".local/share/opencode", ".config/opencode"}} {
		n := w.need()
		n.Kind = kind
		if state != nil {
			n.Kind = "implement"
		}
		for _, name := range state {
			n.Own.Write = append(n.Own.Write, filepath.Join(w.Home, name))
		}
		c := w.command(n, read)
		c.Env = w.Box.Environment(env)
		out := proc.NewCapped(64 << 10)
		c.Stdout, c.Stderr = out, out
		if res, err := proc.Run(t.Context(), c); err != nil || res.Code != 0 {
			t.Fatalf("%s: got %+v, %v: %s", kind, res, err, out)
		}
		var want []string
		for _, name := range own[kind] {
			want = append(want, filepath.Join(w.Home, name))
		}
		got := strings.Fields(out.String())
		slices.Sort(got)
		got = slices.Compact(got) // some are in two of the folders
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s read %q, want %q", kind, got, want)
		}
	}
}

// Tools can read what they need of a home folder: programs, and settings without credentials; and what the project names.
func TestToolsOfTheHomeFolder(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{".local/share/other/bin/linked", ".cargo/bin/cargo", ".rustup/toolchains/x/bin/rustc", ".nvm/versions/node/v20/bin/node", "own/bin/tool", "apps/node_modules/x/cli.js", "apps/node_modules/y/index.js", ".config/mine/settings", ".config/mine/gh", ".config/gh/hosts.yml", ".npmrc"} {
		w.write(filepath.Join(w.Home, name), "#!/bin/sh\ntrue\n")
		if err := os.Chmod(filepath.Join(w.Home, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.write(filepath.Join(w.Home, ".m2", "settings.xml"), "<settings><mirrors/></settings>\n")
	w.write(filepath.Join(w.Home, ".gitconfig"), "[user]\n\tname = Ann\n\tsigningkey = ABCD\n[url \"ssh://git@example.org/\"]\n\tinsteadOf = https://example.org/\n[credential]\n\thelper = store\n")
	for link, target := range map[string]string{".local/bin/linked": ".local/share/other/bin/linked", ".local/bin/cli": "apps/node_modules/x/cli.js"} {
		if err := os.MkdirAll(filepath.Join(w.Home, ".local", "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(w.Home, target), filepath.Join(w.Home, link)); err != nil {
			t.Fatal(err)
		}
	}
	w.Box.Environ = append(w.Box.Environ, "PATH="+filepath.Join(w.Home, ".local", "bin")+":"+filepath.Join(w.Home, "own", "bin")+":"+w.Home+":"+os.Getenv("PATH"))
	w.does(w.need(), `~/.cargo/bin/cargo && ~/.rustup/toolchains/x/bin/rustc && ~/.nvm/versions/node/v20/bin/node && ~/own/bin/tool && ~/.local/bin/linked && ~/.local/bin/cli && cat ~/apps/node_modules/y/index.js`,
		`cat ~/.m2/settings.xml && test "$(git config --global user.name)" = Ann`)
	w.refused(w.need(), `cat ~/.npmrc`, `cat ~/.config/mine/settings`, `cat ~/.config/gh/hosts.yml`, `echo x >> ~/.cargo/bin/cargo`, `rm ~/.local/bin/linked`)
	w.Box.Home = []string{"~/.config"}
	w.does(w.need(), `cat ~/.config/mine/settings`)
	w.refused(w.need(), `cat ~/.config/gh/hosts.yml`, `cat ~/.npmrc`, `echo x >> ~/.config/mine/settings`)
	w.Box.Home = []string{"~/.config", "~/.config/gh", "~/.npmrc", "~/", "/"}
	w.does(w.need(), `cat ~/.config/mine/settings && cat ~/.config/gh/hosts.yml ~/.npmrc`)
	w.refused(w.need(), `cat ~/.ssh/id`)
}

// A repository that borrows objects from another one, both in the home folder, can be read.
func TestBorrowedObjects(t *testing.T) {
	w := newWorld(t)
	lender, borrower := filepath.Join(w.Home, "lender"), filepath.Join(w.Home, "borrower")
	w.git(w.Root, "clone", "-q", w.Main, lender)
	w.git(w.Root, "clone", "-q", "--shared", lender, borrower)
	w.open(borrower)
	w.does(sandbox.Need{Kind: sandbox.Verify, Dir: borrower, Edit: true}, `git log -1 && git cat-file -p HEAD:a.txt`)
}

// Settings that are hidden because they hold credentials are reported.
func TestUndisclosed(t *testing.T) {
	b := &sandbox.Box{Mode: sandbox.Auto, Environ: []string{"HOME=" + t.TempDir()}}
	for name, text := range map[string]string{".gitconfig": accountIn(".gitconfig", "geheim"), ".m2/settings.xml": "<settings/>\n", ".cargo/config.toml": accountIn("config.toml", "geheim")} {
		path := filepath.Join(strings.TrimPrefix(b.Environ[0], "HOME="), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.Home = []string{"~/.cargo/config.toml"}
	if got := b.HiddenSettings(); !slices.Equal(got, []string{"~/.gitconfig"}) {
		t.Errorf("got %q", got)
	}
}

// Folders in which tools keep what they fetched can be written wherever the tool has them, go's where `go env -w` says;
// credentials beside them are hidden (edge S7).
func TestStoresOfTools(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{".yarn/berry/cache/x.zip", ".conan2/p/cache.sqlite3", ".cabal/store/x", ".nuget/packages/x", ".stack/pantry/x", ".platformio/packages/x", ".mix/rebar3", ".conan2/settings.yml", ".conan2/profiles/default", ".gradle/init.d/mirror.gradle", ".sbt/1.0/global.sbt"} {
		w.write(filepath.Join(w.Home, name), "x\n")
	}
	for _, name := range []string{".conan2/credentials.json", ".conan2/.conan.db", ".platformio/appstate.json", ".yarnrc.yml", ".hex/hex.config", ".ivy2/.credentials"} {
		w.write(filepath.Join(w.Home, name), "x\n")
	}
	w.write(filepath.Join(w.Home, ".gradle", "init.d", "nexus.gradle"), "credentials {\n\tpassword 'geheim'\n}\n")
	w.write(filepath.Join(w.Home, ".config", "go", "env"), "GOMODCACHE="+filepath.Join(w.Home, "big", "mod")+"\nGOCACHE="+filepath.Join(w.Home, "big", "build")+"\n")
	w.does(w.need(), `for d in ~/.yarn/berry/cache ~/.conan2/p ~/.cabal/store ~/.nuget/packages ~/.stack/pantry; do echo y > $d/y || exit 1; done`,
		`cat ~/.platformio/packages/x ~/.mix/rebar3 ~/.conan2/settings.yml ~/.conan2/profiles/default ~/.gradle/init.d/mirror.gradle ~/.sbt/1.0/global.sbt`,
		`echo y > ~/big/mod/y && echo y > ~/big/build/y`)
	w.refused(w.need(), `cat ~/.conan2/credentials.json`, `cat ~/.conan2/.conan.db`, `cat ~/.platformio/appstate.json`, `cat ~/.yarnrc.yml`, `cat ~/.hex/hex.config`, `cat ~/.ivy2/.credentials`, `cat ~/.gradle/init.d/nexus.gradle`,
		`echo y > ~/.platformio/packages/y`, `echo y > ~/.gradle/init.d/mirror.gradle`)
	for _, name := range []string{".yarn/berry/cache/y", ".cabal/store/y", "big/mod/y"} {
		if _, err := os.Stat(filepath.Join(w.Home, name)); err != nil {
			t.Errorf("%s did not stay", name)
		}
	}
	if got := strings.Join(w.Box.HiddenSettings(), " "); got != "~/.gradle/init.d/nexus.gradle" {
		t.Errorf("not shown: %s", got)
	}
}

// Credentials in the settings of the repository are hidden, and git works all the same (edge S7).
func TestAccountOfTheRepository(t *testing.T) {
	w := newWorld(t)
	const word = "geheim0123456789"
	if w.Box.HidesAccount() {
		t.Error("a new repository holds an account")
	}
	w.git(w.Main, "config", "http.https://example.org/.extraheader", "AUTHORIZATION: basic "+word)
	w.git(w.Main, "remote", "add", "origin", "https://ann:"+word+"@example.org/x.git")
	w.git(w.Main, "config", "url.https://"+word+"@example.com/.insteadOf", "https://example.com/")
	w.git(w.Main, "config", "user.name", "Berta")
	if !w.Box.HidesAccount() {
		t.Error("doctor would not tell")
	}
	read := `! grep -rsaF "$(printf 'geheim%s' 0123456789)" ` + filepath.Join(w.Main, ".git") + ` . && test "$(git remote get-url origin)" = https://example.org/x.git && test "$(git config user.name)" = Berta && git status --porcelain && git log -1`
	w.does(w.need(), read, `echo x > x && git add x && git diff --cached --stat && git cat-file -p HEAD:a.txt`, read)
	n := w.need()
	n.Edit = false
	w.does(n, read)
	w.refused(w.need(), `git config user.name Mallory`, `echo x >> `+filepath.Join(w.Main, ".git", "config"))
	w.does(sandbox.Need{Kind: sandbox.Steps, Dir: w.Main, Edit: true}, read)
}
