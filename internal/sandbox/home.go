package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ofRun are the paths below /run that programs read: where names are looked up, and the programs of NixOS.
var ofRun = []string{"/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf", "/run/nscd", "/run/current-system", "/run/booted-system", "/run/opengl-driver"}

// hidden are the keys, accounts and histories of a home folder, those of agents too: each sees its own.
var hidden = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".config/gcloud", ".kube", ".docker", ".netrc", ".git-credentials",
	".config/git/credentials", ".config/gh", ".config/glab-cli", ".config/hub", ".pypirc", ".vault-token", ".terraform.d/credentials.tfrc.json", ".password-store",
	".local/share/keyrings", ".config/op", ".config/rclone", ".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
	".config/microsoft-edge", ".config/vivaldi", ".config/opera", "snap", ".var/app", ".config/Signal", ".config/Slack", ".config/discord", ".local/share/TelegramDesktop",
	".Xauthority", ".ICEauthority", ".bash_history", ".zsh_history", ".local/share/fish", ".local/share/atuin", ".python_history", ".node_repl_history",
	".psql_history", ".mysql_history", ".sqlite_history", ".pgpass", ".my.cnf", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".local/share/gem/credentials",
	".config/pypoetry/auth.toml", ".config/containers", ".config/doctl", ".config/hcloud", ".fly", ".config/sops", ".config/age", ".1password", ".config/1Password",
	".config/Bitwarden CLI", ".local/share/kwalletd", ".config/keepassxc", ".s3cfg", ".boto", ".oci", ".bitcoin", ".ethereum", ".config/solana",
	".claude", ".claude.json", ".codex", ".local/share/opencode", ".local/state/opencode", ".config/opencode", ".gemini", ".config/github-copilot",
}

// secrets are what nobody sees whose own it is not.
func (b *Box) secrets() (paths []string) {
	for _, name := range hidden {
		paths = append(paths, b.home(name))
	}
	return append(paths, b.getenv("CLAUDE_CONFIG_DIR"), b.getenv("CODEX_HOME"))
}

func (b *Box) home(name string) string {
	return filepath.Join(b.getenv("HOME"), filepath.FromSlash(name))
}

// startup are the beginnings of names in the folder of caches of what shells, prompts and editors read when they start:
// whoever writes that has programs run outside.
var startup = []string{"p10k", "gitstatus", "zsh", "oh-my-zsh", "zinit", "zplug", "antidote", "antibody", "starship", "bash", "fish", "nvim", "vim", "emacs", "wal"}

// browsing are the names there that are nobody's business.
var browsing = []string{"mozilla", "google-chrome", "chromium", "BraveSoftware", "microsoft-edge", "vivaldi", "opera", "thunderbird", "keyring", "keepassxc", "ibus"}

// usual are the names there that tools need and can't make, by tool.
var usual = map[string]string{"go": "go-build", "pip": "pip", "uv": "uv", "yarn": "yarn", "node": "node", "npx": "ms-playwright", "golangci-lint": "golangci-lint"}

// cache lays out the folder of caches. Each folder in it can be written but for those of startup; a file can't. What
// is made anew in it is gone afterwards, so that nothing can be put where a shell looks for it.
func (b *Box) cache(l *layout) {
	dir := b.getenv("XDG_CACHE_HOME")
	if dir == "" {
		dir = b.home(".cache")
	}
	if !filepath.IsAbs(dir) || os.MkdirAll(dir, 0o755) != nil || len(b.allowed([]string{dir})) == 0 {
		return
	}
	for tool, name := range usual {
		if b.has(tool) {
			_ = os.MkdirAll(filepath.Join(dir, name), 0o755) // the tool then has one for the while
		}
	}
	l.set(hide, dir)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		begins := func(name string) bool { return strings.HasPrefix(e.Name(), name) }
		st, err := os.Stat(path)
		switch {
		case err != nil || slices.ContainsFunc(browsing, begins):
		case st.IsDir() && !slices.ContainsFunc(startup, begins):
			l.set(write, b.allowed([]string{path})...)
		case st.IsDir() || st.Mode().IsRegular():
			l.set(show, path)
		}
	}
}

// caches are the other folders where tools keep what they fetched or made, for all projects.
// One that is not there is made when the tool is: a tool can't make it itself.
func (b *Box) caches() (paths []string) {
	for _, c := range []struct{ variable, below, usual, tool string }{
		{"GOCACHE", "", "", "go"},
		{"GOMODCACHE", "", "", "go"},
		{"GOPATH", "pkg", "go/pkg", "go"},
		{"npm_config_cache", "", ".npm", "npm"},
		{"CARGO_HOME", "registry", ".cargo/registry", "cargo"},
		{"CARGO_HOME", "git", ".cargo/git", "cargo"},
		{"", "", ".m2/repository", "mvn"},
		{"GRADLE_USER_HOME", "caches", ".gradle/caches", "gradle"},
		{"PIP_CACHE_DIR", "", "", "pip"},
		{"UV_CACHE_DIR", "", "", "uv"},
		{"YARN_CACHE_FOLDER", "", "", "yarn"},
		{"PLAYWRIGHT_BROWSERS_PATH", "", "", ""},
		{"", "", ".local/share/pnpm/store", "pnpm"},
		{"", "", ".bun/install/cache", "bun"},
	} {
		path := b.home(c.usual)
		if dir := b.getenv(c.variable); c.variable != "" && dir != "" {
			path = filepath.Join(dir, c.below)
		} else if c.usual == "" {
			continue
		}
		if resolve(path) == "" && filepath.IsAbs(path) && (c.tool == "" || b.has(c.tool)) {
			if os.MkdirAll(path, 0o755) != nil { // the tool then says that it can't write it
				continue
			}
		}
		paths = append(paths, path)
	}
	return paths
}

// has reports whether a tool is in PATH.
func (b *Box) has(tool string) bool {
	for _, dir := range filepath.SplitList(b.getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, tool)); err == nil {
			return true
		}
	}
	return false
}
