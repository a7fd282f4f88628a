package sandbox

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/secrets"
)

// readableRunPaths are the paths below /run that programs read: for name resolution, and the programs of NixOS.
var readableRunPaths = []string{"/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf", "/run/nscd", "/run/current-system", "/run/booted-system", "/run/opengl-driver"}

// toolPaths are the programs in a home folder, and their files. Everything else in the home folder is hidden.
var toolPaths = strings.Fields(`
	bin .local/bin .local/lib .local/libexec .local/opt .local/pipx .local/share/pipx .local/share/uv .local/share/mise .local/share/rtx .local/share/fnm .local/share/nvm .local/share/asdf .local/share/virtualenvs
	.local/share/claude .local/share/pnpm .local/share/coursier .local/share/swiftly .local/share/man .local/share/bash-completion .local/share/zinit .local/state/nix/profiles .nix-profile .nix-defexpr .guix-profile .linuxbrew
	.cargo/bin .rustup go/bin sdk .g/go .g/bin .gvm .goenv .nvm .fnm .n .nodenv .volta/bin .volta/tools .npm-global .npm-packages .pnpm .yarn/bin .config/yarn/global node_modules .bun/bin .bun/install/global .deno/bin .proto/bin .proto/shims .proto/tools
	.pyenv .virtualenvs .venvs .venv .poetry/bin .local/share/pypoetry/venv .rye/shims .rye/py .rye/tools .pixi/bin .pixi/envs .hatch miniconda3 anaconda3 miniforge3 mambaforge micromamba .conda/envs .conda/pkgs
	.rbenv .rvm .rubies .gem/ruby .local/share/gem/ruby .bundle/plugin .sdkman/bin .sdkman/candidates .sdkman/libexec .jenv .jdks .jabba .m2/wrapper .gradle/wrapper .gradle/jdks .sbt/boot .ivy2/cache .konan
	.dotnet .nuget/packages .phpenv .composer/vendor .config/composer/vendor .ghcup .cabal/bin .cabal/packages .cabal/store .local/state/cabal .stack/programs .stack/snapshots .opam .elan .juliaup .julia/juliaup .julia/packages .julia/artifacts .julia/compiled .julia/registries
	.mix/archives .mix/elixir .mix/escripts .mix/rebar .mix/rebar3 .local/share/mix .platformio/packages .platformio/platforms .platformio/lib .platformio/boards .platformio/penv .conan2/extensions .stack/global-project .hex/packages .kerl .kiex .asdf .vfox .mise .tfenv .tenv .terraform.d/plugins .swiftly .zvm .zig .nimble/bin .nimble/pkgs2 .choosenim .pub-cache/bin .pub-cache/hosted .pub-cache/git flutter Android/Sdk .fvm
	.foundry/bin .solana/bin .wasmtime/bin .wasmer/bin .krew/bin .arkade/bin .jbang/bin .emsdk .fzf .oh-my-zsh .antigen .local/share/fonts .fonts .terminfo R perl5 .luarocks/bin .luarocks/lib .luarocks/share .roswell .quicklisp quicklisp`)

// settingFiles are files in a home folder that tools read. A file that holds an account is hidden.
var settingFiles = strings.Fields(`
	.gitconfig .gitignore .gitignore_global .gitattributes .config/git/config .config/git/ignore .config/git/attributes .config/go/env .cargo/config .cargo/config.toml .cargo/env .config/rustfmt/rustfmt.toml .rustfmt.toml
	.profile .bash_profile .bash_login .bashrc .bash_aliases .zshenv .zprofile .zshrc .zlogin .config/fish/config.fish .inputrc .editorconfig .clang-format .clang-tidy .tool-versions .asdfrc .config/mise/config.toml .mise.toml
	.python-version .node-version .nvmrc .ruby-version .java-version .sdkmanrc .condarc .pip/pip.conf .config/pip/pip.conf .pydistutils.cfg .config/uv/uv.toml .config/ruff/ruff.toml .config/pypoetry/config.toml .config/black .pylintrc .flake8
	.m2/settings.xml .m2/toolchains.xml .mavenrc .gradle/gradle.properties .gradle/init.gradle .gradle/init.gradle.kts .sbt/repositories .config/coursier/mirror.properties .sdkman/etc/config .bunfig.toml .gemrc .rspec .irbrc .config/composer/config.json
	.conan2/global.conf .conan2/settings.yml .conan2/settings_user.yml .conan2/remotes.json .conan/conan.conf .conan/settings.yml .conan/remotes.json .config/rebar3/rebar.config
	.cabal/config .config/cabal/config .stack/config.yaml .ghci .Rprofile .latexmkrc .config/nix/nix.conf .config/nixpkgs/config.nix .bazelrc .ccache/ccache.conf .config/ccache/ccache.conf .config/golangci/config.yml .prettierrc .eslintrc.json .config/fontconfig/fonts.conf`)

// settingFolders are folders with such files.
var settingFolders = strings.Fields(`.gradle/init.d .conan2/profiles .conan/profiles .sbt/1.0 .sbt/1.0/plugins`)

// toolVariables are variables that name folders of tools anywhere.
var toolVariables = strings.Fields(`GOROOT GOBIN RUSTUP_HOME JAVA_HOME JDK_HOME MAVEN_HOME M2_HOME GRADLE_HOME KOTLIN_HOME SDKMAN_CANDIDATES_DIR ANDROID_HOME ANDROID_SDK_ROOT FLUTTER_ROOT NVM_DIR FNM_DIR FNM_MULTISHELL_PATH VOLTA_HOME PNPM_HOME PYENV_ROOT
	VIRTUAL_ENV CONDA_PREFIX CONDA_ROOT MAMBA_ROOT_PREFIX RBENV_ROOT GEM_HOME DOTNET_ROOT NUGET_PACKAGES GHCUP_INSTALL_BASE_PREFIX OPAMROOT MISE_DATA_DIR ASDF_DIR ASDF_DATA_DIR CUDA_HOME EMSDK VCPKG_ROOT NIX_PROFILE`)

// privatePaths are the keys, accounts and histories in a home folder, including those of agents. They are hidden even in a folder that
// is shown, unless they are named themselves. Each agent sees its own files.
var privatePaths = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".config/gcloud", ".kube", ".docker", ".netrc", ".git-credentials",
	".config/git/credentials", ".config/gh", ".config/glab-cli", ".config/hub", ".npmrc", ".yarnrc.yml", ".pypirc", ".vault-token", ".terraformrc", ".terraform.d/credentials.tfrc.json", ".password-store",
	".local/share/keyrings", ".config/op", ".config/rclone", ".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
	".config/microsoft-edge", ".config/vivaldi", ".config/opera", "snap", ".var/app", ".config/Signal", ".config/Slack", ".config/discord", ".local/share/TelegramDesktop",
	".Xauthority", ".ICEauthority", ".bash_history", ".zsh_history", ".zhistory", ".local/share/fish", ".local/share/atuin", ".python_history", ".node_repl_history",
	".psql_history", ".mysql_history", ".sqlite_history", ".pgpass", ".my.cnf", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".local/share/gem/credentials",
	".config/pypoetry/auth.toml", ".config/containers", ".config/doctl", ".config/hcloud", ".fly", ".config/sops", ".config/age", ".1password", ".config/1Password",
	".config/Bitwarden CLI", ".local/share/kwalletd", ".config/keepassxc", ".s3cfg", ".boto", ".oci", ".bitcoin", ".ethereum", ".config/solana", ".solana/id.json",
	".config/Code", ".config/Cursor", ".config/JetBrains", ".config/huggingface", ".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".kaggle", ".config/stripe", ".config/netlify", ".pulumi/credentials.json", ".cloudflared", ".wasmer/wasmer.toml", ".hex/hex.config", ".mix/hex.config",
	".claude", ".claude.json", ".codex", ".local/share/opencode", ".local/state/opencode", ".config/opencode", ".gemini", ".config/github-copilot",
}

// rootOnlyPaths are paths that root can read in addition. Other users can't read them, and may not know of them.
var rootOnlyPaths = []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private", "/etc/krb5.keytab", "/etc/NetworkManager/system-connections", "/etc/wireguard", "/etc/openvpn",
	"/etc/kubernetes", "/etc/rancher", "/etc/gitlab-runner", "/etc/letsencrypt", "/etc/docker", "/var/lib/rancher", "/var/lib/kubelet", "/var/lib/docker", "/var/lib/containers", "/var/lib/jenkins", "/var/backups", "/var/spool/cron", "/var/log"}

// accountVariables are variables that name files with accounts although their own names don't suggest it.
var accountVariables = []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME", "GNUPGHOME", "KUBECONFIG", "DOCKER_CONFIG", "NETRC", "AWS_CONFIG_FILE", "AZURE_CONFIG_DIR", "CLOUDSDK_CONFIG", "GH_CONFIG_DIR", "GLAB_CONFIG_DIR", "NPM_CONFIG_USERCONFIG", "npm_config_userconfig",
	"BOTO_CONFIG", "TF_CLI_CONFIG_FILE", "PULUMI_HOME", "XAUTHORITY", "ICEAUTHORITY", "HISTFILE", "MYSQL_HOME", "OCI_CLI_CONFIG_FILE", "RCLONE_CONFIG", "STRIPE_CONFIG"}

// personalFolders returns the folders with files of people, including this user: home folders and mounted disks. As root it adds
// rootOnlyPaths and the host keys.
func (b *Box) personalFolders() []string {
	paths := []string{"/root", "/home", "/mnt", "/media", b.getenv("HOME")}
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "CARGO_HOME", "GRADLE_USER_HOME"} {
		paths = append(paths, b.getenv(name))
	}
	if up := filepath.Dir(b.getenv("HOME")); slices.Contains([]string{"home", "homes", "users", "Users"}, filepath.Base(up)) {
		paths = append(paths, up)
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return resolve(path) == "/" })
	if os.Geteuid() != 0 {
		return paths
	}
	keys, _ := filepath.Glob("/etc/ssh/ssh_host_*_key") // the pattern is valid
	return slices.Concat(paths, rootOnlyPaths, keys)
}

// shownHomePaths returns the tools and settings that are shown although personalFolders hides their folders.
func (b *Box) shownHomePaths() (paths []string) {
	for _, name := range toolPaths {
		paths = append(paths, b.home(name))
	}
	for _, name := range b.settingNames() {
		if path := b.home(name); !holdsAccount(path) {
			paths = append(paths, path)
		}
	}
	for _, name := range toolVariables {
		paths = append(paths, b.withoutProtected([]string{b.getenv(name)})...)
	}
	for variable, below := range map[string]string{"GOROOT": "", "GOBIN": "", "GOPATH": "bin"} {
		if dir := b.goenv(variable); dir != "" {
			paths = append(paths, b.withoutProtected([]string{filepath.Join(dir, below)})...)
		}
	}
	return append(paths, "/home/linuxbrew/.linuxbrew")
}

// settingNames returns the names of the settings files that may be shown, including those in settingFolders.
func (b *Box) settingNames() []string {
	names := slices.Clone(settingFiles)
	for _, folder := range settingFolders {
		entries, _ := os.ReadDir(b.home(folder)) // a missing folder has none
		for _, e := range entries {
			if e.Type().IsRegular() {
				names = append(names, folder+"/"+e.Name())
			}
		}
	}
	return names
}

// goenv returns the value of a variable as the go command sees it, which `go env -w` may have set.
func (b *Box) goenv(name string) string {
	if value := b.getenv(name); value != "" {
		return value
	}
	file := cmp.Or(b.getenv("GOENV"), b.home(".config/go/env"))
	const most = 1 << 20
	data, err := durable.Read(file, most)
	if err != nil { // GOENV is off, or there is no file
		return ""
	}
	value := ""
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			value = rest
		}
	}
	return value
}

// holdsAccount reports whether a settings file holds an account or can't be read.
func holdsAccount(path string) bool {
	const most = 1 << 20
	data, err := durable.Read(path, most)
	return err != nil || secrets.InSettings(data)
}

// HiddenSettings returns the settings files of the home folder that are hidden because they hold an account.
func (b *Box) HiddenSettings() (paths []string) {
	for _, name := range b.settingNames() {
		path := b.home(name)
		if _, err := os.Stat(path); err == nil && holdsAccount(path) && !slices.Contains(b.absolutePaths(b.Home), path) {
			paths = append(paths, "~/"+name)
		}
	}
	return paths
}

// pathFolders returns the folders of PATH, which are shown anywhere, and those of them that would be hidden otherwise or in which
// people put links to hidden programs.
func (b *Box) pathFolders(l *layout) (all, linking []string) {
	all = b.withoutProtected(filepath.SplitList(b.getenv("PATH")))
	for _, dir := range all {
		if at := resolve(dir); at != "" && (l.kindOf(at) == hide || at == "/usr/local/bin") {
			linking = append(linking, at)
		}
	}
	return all, linking
}

// linkedPrograms returns the hidden programs to which links in the given folders lead; of a program in a node_modules folder, all of
// that.
func (l *layout) linkedPrograms(dirs []string) (paths []string) {
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.Type()&os.ModeSymlink == 0 {
				continue
			}
			if path := resolve(filepath.Join(dir, e.Name())); path != "" && l.kindOf(path) == hide {
				paths = append(paths, packageOf(path))
			}
		}
	}
	return paths
}

// packageOf returns the node_modules folder that a program is in, or else its path.
func packageOf(path string) string {
	const packages = "/node_modules/"
	if i := strings.Index(path, packages); i >= 0 {
		return path[:i+len(packages)-1]
	}
	return path
}

// secretPaths returns the paths, anywhere, that only their owner may see.
func (b *Box) secretPaths() (paths []string) {
	for _, name := range privatePaths {
		paths = append(paths, b.home(name))
	}
	for _, e := range b.Environ {
		name, value, _ := strings.Cut(e, "=")
		if slices.Contains(accountVariables, name) || secrets.NameMayBeSecret(name) && filepath.IsAbs(value) && !slices.Contains(b.Env, name) {
			paths = append(paths, b.withoutProtected(filepath.SplitList(value))...)
		}
	}
	return paths
}

// home returns a path below the home folder, or below the folder that a variable names instead.
func (b *Box) home(name string) string {
	for begins, variable := range map[string]string{".cargo/": "CARGO_HOME", ".gradle/": "GRADLE_USER_HOME", ".config/": "XDG_CONFIG_HOME", ".local/share/": "XDG_DATA_HOME", ".local/state/": "XDG_STATE_HOME"} {
		if rest, ok := strings.CutPrefix(name, begins); ok && b.getenv(variable) != "" {
			return filepath.Join(b.getenv(variable), filepath.FromSlash(rest))
		}
	}
	return filepath.Join(b.getenv("HOME"), filepath.FromSlash(name))
}

// toolCaches are the folders below the cache folder in which tools keep what they downloaded or built. None has an account or a file
// that a shell or an editor reads when it starts.
var toolCaches = strings.Fields(`
	go-build golangci-lint gopls goimports staticcheck gotestsum gofumpt pip pip-tools uv pypoetry pipenv pdm hatch rattler conda pre-commit ruff mypy black pylint pytest ansible-compat nox virtualenv matplotlib huggingface torch numba jedi
	yarn node node-gyp npm pnpm npx corepack nvm fnm ms-playwright ms-playwright-go playwright Cypress puppeteer electron electron-builder esbuild turbo turborepo prisma prisma-nodejs typescript eslint parcel vite deno bun selenium chrome-for-testing
	bazel bazelisk ccache sccache clangd cmake vcpkg conan meson zig zls coursier sbt kotlin kotlin-language-server gradle maven ivy2 scalafmt metals bloop buck buck2 pants nix guix dub
	composer cabal stack ghcup hie-bios hls-log hex rebar3 elixir_make erlang-history dune opam dotnet NuGet nuget swiftpm swift org.swift.swiftpm flutter dart-lang R renv julia crystal shards nim nimble luarocks bundle gem rubocop_cache solargraph
	fontconfig mesa_shader_cache trivy tfswitch terraform helm kubebuilder-envtest setup-envtest protoc buf act semgrep tree-sitter wasmtime wasm-pack tinygo foundry svm hardhat-nodejs rosetta opencode claude-cli-nodejs`)

// createdCaches are the folders there that tools need but can't create, by tool.
var createdCaches = map[string]string{"go": "go-build", "pip": "pip", "uv": "uv", "yarn": "yarn", "node": "node", "npx": "ms-playwright", "golangci-lint": "golangci-lint"}

// setCacheFolder sets what can be done in the cache folder. The folders of tools in it can be written. New entries are discarded afterwards, so that a
// program can't put a file where a shell looks for it.
func (b *Box) setCacheFolder(l *layout) {
	dir := cmp.Or(b.getenv("XDG_CACHE_HOME"), b.home(".cache"))
	if !filepath.IsAbs(dir) || os.MkdirAll(dir, 0o755) != nil || len(b.withoutProtected([]string{dir})) == 0 {
		return
	}
	for tool, name := range createdCaches {
		if b.hasTool(tool) {
			_ = os.MkdirAll(filepath.Join(dir, name), 0o755) // if it fails, the tool gets a temporary one
		}
	}
	l.set(hide, dir)
	for _, name := range toolCaches {
		if path := filepath.Join(dir, name); isFolder(path) {
			l.set(write, b.withoutProtected([]string{path})...)
		}
	}
}

func isFolder(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// ensureCacheFolders returns the other folders in which tools keep what they downloaded or built, for all projects. A missing folder is
// created if the tool is installed, since the tool can't create it inside the sandbox.
func (b *Box) ensureCacheFolders() (paths []string) {
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
		{"YARN_GLOBAL_FOLDER", "", "", "yarn"},
		{"CONAN_HOME", "p", "", "conan"},
		{"PLATFORMIO_CACHE_DIR", "", "", "pio"},
		{"STACK_ROOT", "pantry", "", "stack"},
		{"CABAL_DIR", "store", "", "cabal"},
		{"COMPOSER_CACHE_DIR", "", "", "composer"},
		{"NUGET_PACKAGES", "", "", "dotnet"},
		{"NUGET_HTTP_CACHE_PATH", "", "", "dotnet"},
		{"COURSIER_CACHE", "", "", ""},
		{"DENO_DIR", "", "", "deno"},
		{"PLAYWRIGHT_BROWSERS_PATH", "", "", ""},
		{"", "", ".local/share/pnpm/store", "pnpm"},
		{"", "", ".bun/install/cache", "bun"},
	} {
		path := b.home(c.usual)
		if dir := b.goenv(c.variable); c.variable != "" && dir != "" {
			path = filepath.Join(dir, c.below)
		} else if c.usual == "" {
			continue
		}
		if resolve(path) == "" && filepath.IsAbs(path) && (c.tool == "" || b.hasTool(c.tool)) {
			if os.MkdirAll(path, 0o755) != nil { // the tool itself reports what it can't write
				continue
			}
		}
		paths = append(paths, path)
	}
	for _, name := range existingCaches {
		if path := b.home(name); isFolder(path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// existingCaches are further such folders. They are never created for a tool, because some tools depend on whether theirs exists. None
// holds an account.
var existingCaches = strings.Fields(`
	.yarn/berry .conan2/p .conan/data .platformio/.cache .cabal/store .cabal/packages .local/state/cabal/store .stack/pantry .stack/snapshots .stack/setup-exe-cache .gradle/native .gradle/notifications
	.ivy2/cache .ivy2/local .sbt/boot .coursier/cache .composer/cache .hex/packages .nuget/packages .local/share/NuGet/http-cache .local/share/NuGet/v3-cache .local/share/NuGet/plugins-cache .pub-cache/hosted .pub-cache/hosted-hashes .pub-cache/git
	.julia/compiled .julia/scratchspaces .konan .opam/download-cache`)

// hasTool reports whether a tool is in PATH.
func (b *Box) hasTool(tool string) bool {
	for _, dir := range filepath.SplitList(b.getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, tool)); err == nil {
			return true
		}
	}
	return false
}
