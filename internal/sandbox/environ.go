package sandbox

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// usualVariables are what shells, compilers and the tools of builds read, by name or by how the name begins (FOO_*). None is here
// that by its nature holds an account. What secret says is no part of it, whatever it begins with.
var usualVariables = strings.Fields(`
	PATH HOME USER LOGNAME SHELL PWD OLDPWD SHLVL HOSTNAME HOSTTYPE OSTYPE LANG LANGUAGE LC_* TZ TZDIR LOCALE_ARCHIVE TMPDIR TMP TEMP
	TERM TERM_PROGRAM TERM_PROGRAM_VERSION TERMINFO TERMINFO_DIRS COLORTERM COLUMNS LINES LS_COLORS NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE EDITOR VISUAL PAGER LESS MANPATH INFOPATH
	CI CONTINUOUS_INTEGRATION GITHUB_ACTIONS GITLAB_CI BUILD_NUMBER BUILD_ID RUNNER_OS RUNNER_ARCH RUNNER_TEMP RUNNER_TOOL_CACHE
	DEBUG VERBOSE LOG_LEVEL APP_ENV ENVIRONMENT SOURCE_DATE_EPOCH DEBIAN_FRONTEND
	XDG_CACHE_HOME XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_HOME XDG_DATA_DIRS XDG_STATE_HOME XDG_BIN_HOME XDG_RUNTIME_DIR
	HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE OPENSSL_CONF OPENSSL_MODULES
	GIT_AUTHOR_* GIT_COMMITTER_* GIT_CONFIG_NOSYSTEM GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_TERMINAL_PROMPT GIT_CEILING_DIRECTORIES GIT_DISCOVERY_ACROSS_FILESYSTEM GIT_PAGER GIT_EDITOR GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_SSL_CAINFO GIT_SSL_CAPATH
	NIX_* IN_NIX_SHELL buildInputs nativeBuildInputs DEVENV_* GUIX_*
	CC CXX CPP LD AR AS NM RANLIB STRIP OBJCOPY OBJDUMP FC HOSTCC ARCH CROSS_COMPILE CFLAGS CXXFLAGS CPPFLAGS FFLAGS LDFLAGS LDLIBS LIBS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH OBJC_INCLUDE_PATH
	LIBRARY_PATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH DYLD_FALLBACK_LIBRARY_PATH PKG_CONFIG PKG_CONFIG_* ACLOCAL_PATH CMAKE_* CTEST_* MAKEFLAGS MFLAGS MAKELEVEL NINJA_STATUS CCACHE_* SCCACHE_DIR SCCACHE_CACHE_SIZE DISTCC_HOSTS
	ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS LSAN_OPTIONS MSAN_OPTIONS BAZELISK_HOME USE_BAZEL_VERSION VCPKG_ROOT CONAN_HOME EMSDK EM_CONFIG CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES OMP_* MKL_NUM_THREADS OPENBLAS_NUM_THREADS
	GO111MODULE GO386 GOAMD64 GOARCH GOARM GOARM64 GOBIN GOCACHE GOCACHEPROG GOCOVERDIR GODEBUG GOENV GOEXE GOEXPERIMENT GOFIPS140 GOFLAGS GOGC GOHOSTARCH GOHOSTOS GOINSECURE GOLANGCI_LINT_CACHE GOMAXPROCS GOMEMLIMIT GOMIPS GOMIPS64
	GOMODCACHE GONOPROXY GONOSUMDB GOOS GOPATH GOPPC64 GOPRIVATE GOPROXY GORACE GORISCV64 GOROOT GOSUMDB GOTELEMETRY GOTESTSUM_* GOTMPDIR GOTOOLCHAIN GOTRACEBACK GOVCS GOWASM GOWORK GOENV_* CGO_*
	CARGO CARGO_* RUST* MIRIFLAGS CLIPPY_* BINDGEN_*
	JAVA_HOME JAVA_OPTS JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_HOME JDK_JAVA_OPTIONS JRE_HOME CLASSPATH MAVEN_HOME MAVEN_OPTS MAVEN_ARGS M2_HOME M2 GRADLE_HOME GRADLE_OPTS GRADLE_USER_HOME KOTLIN_HOME SCALA_HOME SBT_OPTS SBT_HOME SDKMAN_* ANT_HOME ANT_OPTS JENV_* COURSIER_CACHE ANDROID_*
	NODE_* NVM_* NODENV_* FNM_* VOLTA_HOME COREPACK_* npm_config_* NPM_CONFIG_* npm_execpath npm_node_execpath YARN_* PNPM_HOME BUN_INSTALL BUN_* DENO_DIR DENO_INSTALL DENO_INSTALL_ROOT PLAYWRIGHT_* PUPPETEER_* CYPRESS_CACHE_FOLDER CYPRESS_INSTALL_BINARY CHROME_BIN CHROME_PATH ELECTRON_* JEST_* VITE_CJS_* TURBO_TELEMETRY_DISABLED NEXT_TELEMETRY_DISABLED TS_NODE_* BABEL_ENV
	PYTHON* PYENV_* VIRTUAL_ENV VIRTUAL_ENV_PROMPT VIRTUALENV_* WORKON_HOME PIP_* PIPENV_* PIPX_* POETRY_* PDM_* UV_* HATCH_* RYE_HOME PIXI_HOME CONDA_* MAMBA_* TOX_* NOX_* PYTEST_* COVERAGE_* MYPYPATH MYPY_CACHE_DIR RUFF_* BLACK_CACHE_DIR PRE_COMMIT_HOME HYPOTHESIS_* DJANGO_SETTINGS_MODULE FLASK_APP FLASK_ENV MPLBACKEND MPLCONFIGDIR HF_HOME HF_HUB_OFFLINE TRANSFORMERS_OFFLINE TORCH_HOME
	RUBY* GEM_HOME GEM_PATH RBENV_* rvm_* BUNDLE_PATH BUNDLE_GEMFILE BUNDLE_WITHOUT BUNDLE_WITH BUNDLE_JOBS BUNDLE_DEPLOYMENT BUNDLE_FROZEN BUNDLE_BIN BUNDLE_APP_CONFIG BUNDLE_USER_HOME BUNDLE_USER_CACHE RACK_ENV RAILS_ENV SPEC_OPTS
	PHPRC PHP_INI_SCAN_DIR PHPENV_* COMPOSER_HOME COMPOSER_CACHE_DIR COMPOSER_NO_INTERACTION COMPOSER_ALLOW_SUPERUSER PERL5LIB PERL5OPT PERL_LOCAL_LIB_ROOT PERL_MB_OPT PERL_MM_OPT PROVE_OPTS LUA_PATH LUA_CPATH LUAROCKS_CONFIG R_HOME R_LIBS R_LIBS_USER R_PROFILE JULIA_*
	DOTNET_* NUGET_PACKAGES NUGET_HTTP_CACHE_PATH MSBUILD* ERL_AFLAGS ERL_FLAGS ERL_LIBS ELIXIR_ERL_OPTIONS MIX_ENV MIX_HOME MIX_ARCHIVES MIX_TARGET HEX_HOME REBAR_CACHE_DIR STACK_ROOT STACK_YAML CABAL_DIR CABAL_CONFIG GHC_PACKAGE_PATH GHCUP_* OPAM* OCAML* CAML_LD_LIBRARY_PATH DUNE_*
	ZIG_* SWIFT* TOOLCHAINS DEVELOPER_DIR SDKROOT MACOSX_DEPLOYMENT_TARGET FLUTTER_ROOT PUB_CACHE DART_SDK NIMBLE_DIR CRYSTAL_PATH CRYSTAL_CACHE_DIR TF_PLUGIN_CACHE_DIR TF_DATA_DIR TF_IN_AUTOMATION HELM_CACHE_HOME MISE_* ASDF_* PROTO_HOME DIRENV_DIR`)

// secretNames and secretValues are how what holds an account looks.
var (
	secretNames = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)KEY|TOKEN|SECRET|PASS|_PWD|DSN|JWT|CREDENTIAL|WEBHOOK|AUTH(?:$|[^O]|ORIZ)|COOKIE|(?:^|_)PAT(?:$|_)`)
	})
	secretValues = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)://(?:[^/\s:@]*:[^/\s@]+|[^/\s:@]{12,})@|-----BEGIN|\beyJ[\w-]{6,}\.|\b(?:gh[a-z]_|github_pat_|glpat-|xox[a-z]-|sk-|sk_live_|sk_test_|rk_live_|AKIA|AIza|pypi-|dop_v1_|shpat_)\w{8,}|\b(?:npm|hf)_[a-z0-9]{20,}|(?:password|passwd|token|secret|api_?key)=\S`)
	})
)

// secret reports whether a variable holds an account, by its name or by what its value looks like.
func secret(name, value string) bool {
	return secretNames().MatchString(name) || secretValues().MatchString(value)
}

// ofAgents are how the names of variables of agents and their providers begin.
var ofAgents = []string{"ANTHROPIC_", "CLAUDE_", "OPENAI_", "CODEX_", "OPENCODE_"}

// Environment is what of env a command of the project gets: outside of a sandbox all but the accounts of agents, in one the usual
// variables without secrets. What Env names it gets in any case. It is the same with auto on a machine that has no sandbox,
// so that a check fails everywhere or nowhere.
func (b *Box) Environment(env []string) []string {
	if b == nil {
		return env
	}
	return slices.DeleteFunc(proc.Environ(env, []string{"*"}), func(e string) bool {
		name, value, _ := strings.Cut(e, "=")
		return !slices.Contains(b.Env, name) && (b.ofAgent(name, value) || b.on() && !forBuilds(name, value))
	})
}

// Withheld are the names of the variables of env that commands do not get and that look as if they held an account, but for
// those of agents, which are for no command.
func (b *Box) Withheld(env []string) (names []string) {
	given := b.Environment(env)
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if value != "" && secret(name, value) && !b.ofAgent(name, value) && !slices.Contains(given, e) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (b *Box) on() bool { return b != nil && b.Mode != Off && b.Mode != "" }

// ofAgent reports whether a variable holds the account of an agent.
func (b *Box) ofAgent(name, value string) bool {
	begins := func(start string) bool { return strings.HasPrefix(name, start) }
	return secret(name, value) && (slices.Contains(b.Keys, name) || slices.ContainsFunc(ofAgents, begins))
}

// forBuilds reports whether builds read a variable, and it holds no secret.
func forBuilds(name, value string) bool {
	return len(proc.Environ([]string{name + "=" + value}, usualVariables)) > 0 && !secret(name, value)
}
