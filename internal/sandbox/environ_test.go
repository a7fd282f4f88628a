package sandbox_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/sandbox"
)

// The environment of a person at work: what builds read, and what code that an agent wrote must not see (edge S7).
var (
	forBuilds = []string{"PATH=/usr/bin:/bin", "HOME=/home/ann", "LANG=C.UTF-8", "LC_ALL=C", "TZ=UTC", "TERM=dumb", "TMPDIR=/tmp", "USER=ann", "SHELL=/bin/sh", "CI=true",
		"GOFLAGS=-mod=vendor", "GOPATH=/home/ann/go", "GOPRIVATE=example.org/*", "GOPROXY=https://proxy.example.org", "CGO_ENABLED=0", "CARGO_HOME=/home/ann/.cargo", "RUSTFLAGS=-Dwarnings",
		"JAVA_HOME=/opt/java", "NODE_ENV=test", "NODE_OPTIONS=--max-old-space-size=4096", "npm_config_registry=https://npm.example.org/", "VIRTUAL_ENV=/venv", "PYTHONPATH=src", "PIP_INDEX_URL=https://pip.example.org/simple",
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.org", "CC=clang", "CFLAGS=-O2", "NVM_DIR=/home/ann/.nvm", "PYTEST_ADDOPTS=-q", "DOTNET_ROOT=/opt/dotnet", "HTTPS_PROXY=http://proxy:3128", "MAVEN_OPTS=-Xmx1g"}
	accounts = []string{"ANTHROPIC_API_KEY=x", "ANTHROPIC_AUTH_TOKEN=x", "CLAUDE_CODE_OAUTH_TOKEN=x", "OPENAI_API_KEY=x", "CODEX_API_KEY=x", "OPENCODE_API_KEY=x", "MINE_KEY=x"}
	secrets  = []string{"AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=x", "AWS_SESSION_TOKEN=x", "GITHUB_TOKEN=x", "GH_TOKEN=x", "GITLAB_TOKEN=x", "NPM_TOKEN=x", "NODE_AUTH_TOKEN=x", "npm_config__authToken=x", "npm_config_//npm.example.org/:_authToken=x",
		"NPM_CONFIG__AUTH=x", "NPM_CONFIG__PASSWORD=x", "CARGO_REGISTRY_TOKEN=x", "CARGO_REGISTRIES_MINE_TOKEN=x", "POETRY_PYPI_TOKEN_PYPI=x", "POETRY_HTTP_BASIC_MINE_PASSWORD=x", "UV_PUBLISH_TOKEN=x", "UV_INDEX_MINE_PASSWORD=x", "PIP_EXTRA_INDEX_URL=https://ann:geheim@pip.example.org/simple",
		"GOPROXY_=https://ann:geheim@proxy", "ALL_PROXY=socks5://ann:geheim@proxy", "GRADLE_OPTS=-Ppassword=geheim", "MAVEN_ARGS=-Dtoken=geheim", "JAVA_TOOL_OPTIONS=-Dapi.secret=geheim", "DATABASE_URL=postgres://ann:geheim@db/x", "REDIS_URL=redis://:geheim@r",
		"STRIPE_API_KEY=x", "API_KEY_PROD=x", "MY_TOKEN_V2=x", "JWT=x", "SENTRY_DSN=https://0123@sentry.example.org/1", "SLACK_WEBHOOK_URL=x", "DB_PASS=x", "PGPASSWORD=x", "MYSQL_PWD=x", "SSH_AUTH_SOCK=/run/agent", "GOOGLE_APPLICATION_CREDENTIALS=/x.json", "GOOGLE_API_KEY=x", "GOAUTH=netrc",
		"KUBECONFIG=/x", "DOCKER_AUTH_CONFIG=x", "VAULT_TOKEN=x", "HF_TOKEN=x", "HUGGING_FACE_HUB_TOKEN=x", "TWINE_PASSWORD=x", "COMPOSER_AUTH=x", "BUNDLE_GEMS__EXAMPLE__ORG=ann:geheim", "GIT_ASKPASS=/x", "GITHUB_PAT=x", "CYPRESS_RECORD_KEY=x", "TURBO_TOKEN=x", "ORG_GRADLE_PROJECT_signing=x",
		"ANDROID_KEYSTORE=x", "RUST_SECRET=x", "PYTHON_KEYRING_BACKEND=x", "SOME_COOKIE=x", "MINE=x", "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1/bus", "GPG_AGENT_INFO=x", "DENO_AUTH_TOKENS=x", "NODE_EXTRA=-----BEGIN PRIVATE", "CARGO_X=ghp_0123456789", "PYTHON_X=eyJhbGciOi.x"}
)

// Commands get the variables that builds read, and none that holds credentials unless the project names it; edge S7.
func TestEnvironmentOfCommands(t *testing.T) {
	env := slices.Concat(forBuilds, accounts, secrets)
	for _, mode := range []string{sandbox.Auto, sandbox.Require} {
		b := &sandbox.Box{Mode: mode}
		if got := b.Environment(env); !slices.Equal(got, forBuilds) {
			t.Errorf("%s: got too much: %q\ntoo little: %q", mode, without(got, forBuilds), without(forBuilds, got))
		}
		b.Env = []string{"DATABASE_URL", "MINE", "ANTHROPIC_API_KEY", "GITHUB_"}
		want := slices.Concat(forBuilds, []string{"ANTHROPIC_API_KEY=x", "DATABASE_URL=postgres://ann:geheim@db/x", "MINE=x"})
		if got := b.Environment(env); !slices.Equal(got, want) {
			t.Errorf("%s, with names: got %q, want %q", mode, without(got, forBuilds), without(want, forBuilds))
		}
	}
}

// Outside of a sandbox commands get everything except the credentials of agents.
func TestEnvironmentWithoutASandbox(t *testing.T) {
	env := slices.Concat(forBuilds, accounts, secrets)
	b := &sandbox.Box{Mode: sandbox.Off, Keys: []string{"MINE_KEY", "GOFLAGS"}}
	if got, want := b.Environment(env), slices.Concat(forBuilds, secrets); !slices.Equal(got, want) {
		t.Errorf("got too much: %q\ntoo little: %q", without(got, want), without(want, got))
	}
	b.Env = []string{"OPENAI_API_KEY"}
	if got := b.Environment(env); !slices.Contains(got, "OPENAI_API_KEY=x") || slices.Contains(got, "ANTHROPIC_API_KEY=x") {
		t.Errorf("got %q, want the one that is named", without(got, forBuilds))
	}
	if got := (*sandbox.Box)(nil).Environment(env); !slices.Equal(got, env) {
		t.Errorf("without a box: got %q too little", without(env, got))
	}
}

func TestWithheld(t *testing.T) {
	b := &sandbox.Box{Mode: sandbox.Auto, Env: []string{"GH_TOKEN"}}
	if got, want := b.WithheldVariables([]string{"GH_TOKEN=x", "PATH=/bin", "MINE=x", "DB_PASS=x", "EMPTY_TOKEN=", "ANTHROPIC_API_KEY=x", "API_URL=https://a:b@c"}), "API_URL DB_PASS"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %s", got, want)
	}
}

func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}
