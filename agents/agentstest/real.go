// Package agentstest helps tests to run the real agent programs against a model server. The package's own tests check the
// contract of agents.Agent.
package agentstest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/programtest"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// Hang is the time after which a test considers something hung. It is less than the 3,000 s that the programs of the suite sleep,
// and more than any of them needs on a busy machine.
const Hang = 15 * time.Minute

// key is a dummy. The programs' configs name the variable, as they would for a provider that the user defined.
const key = "MODELSERVER_API_KEY=dummy-0123456789"

// Programs returns the folder of the agent programs that `make setup` installs. If the program is missing, the test is skipped,
// or fails if CI is set, where it has to be installed.
func Programs(t testing.TB, cli string) string {
	t.Helper()
	dir := filepath.Join(moduleRoot(t), ".tools", "agents", "node_modules", ".bin")
	if _, err := os.Stat(filepath.Join(dir, cli)); err != nil {
		why := fmt.Sprintf("%s is not installed (make setup): %v", cli, err)
		if os.Getenv("CI") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	return dir
}

// alone returns a folder with this program and no other. The folder is kept for all tests.
func alone(t testing.TB, cli string) string {
	t.Helper()
	Programs(t, cli)
	dir := mkdir(t, moduleRoot(t), ".tools", "agents", "alone", cli)
	if err := os.Symlink(filepath.Join("..", "..", "node_modules", ".bin", cli), filepath.Join(dir, cli)); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	return dir
}

func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := programtest.Root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Gemini is the program that speaks the Agent Client Protocol in the tests.
const Gemini = "gemini"

// GeminiCommand returns the settings of Gemini as an agent.
func GeminiCommand() agents.Command {
	return agents.Command{Type: agents.ACP, Argv: []string{Gemini, "--acp", "-m", "gemini-2.5-pro"}, EnvPass: []string{"GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_CLI_NO_RELAUNCH"}}
}

// RealEnv prepares a home folder for one of the real agent programs (claude, codex, opencode, gemini) with the model server at
// serverURL, and returns the whole environment for running it or trellis. Of this process's environment it holds only PATH, and
// of the programs that setup installs only this one, because trellis init starts each program a few times. Git has an identity.
// See [Programs] for a missing program.
func RealEnv(t testing.TB, cli, serverURL string) []string {
	t.Helper()
	bin := alone(t, cli)
	home := t.TempDir()
	env := []string{
		"PATH=" + bin + string(filepath.ListSeparator) + os.Getenv("PATH"),
		"HOME=" + home, "TMPDIR=" + mkdir(t, home, "tmp"), "LANG=C.UTF-8", "USER=tester", "SHELL=/bin/sh", "TERM=dumb", key,
	}
	write(t, filepath.Join(home, ".gitconfig"), "[user]\n\tname = Test\n\temail = test@example.com\n[init]\n\tdefaultBranch = main\n")
	switch cli {
	case agents.Claude:
		return append(env, "ANTHROPIC_BASE_URL="+serverURL, "ANTHROPIC_API_KEY=dummy-0123456789", "CLAUDE_CONFIG_DIR="+mkdir(t, home, ".claude"))
	case agents.Codex:
		write(t, filepath.Join(home, ".codex", "config.toml"), fmt.Sprintf(codexConfig, serverURL))
	case agents.OpenCode:
		write(t, filepath.Join(home, ".config", "opencode", "opencode.json"), fmt.Sprintf(openCodeConfig, serverURL))
	case Gemini:
		write(t, filepath.Join(home, ".gemini", "settings.json"), geminiSettings)
		env = append(env, "GEMINI_API_KEY=dummy-0123456789", "GOOGLE_GEMINI_BASE_URL="+serverURL)
		if !soak.Asked() { // otherwise gemini restarts itself with more memory
			env = append(env, "GEMINI_CLI_NO_RELAUNCH=true")
		}
		return env
	default:
		t.Fatalf("there is no agent program %s", cli)
	}
	return env
}

// By default gemini tries ten times, which takes minutes, and checks for newer versions of itself.
const geminiSettings = `{"general": {"maxAttempts": 1, "enableAutoUpdate": false}, "privacy": {"usageStatisticsEnabled": false}}`

const codexConfig = `model = "mock-1"
model_provider = "mock"
[model_providers.mock]
name = "Mock"
base_url = "%s/v1"
wire_api = "responses"
env_key = "MODELSERVER_API_KEY"
request_max_retries = 1
stream_max_retries = 1
stream_idle_timeout_ms = 20000
`

const openCodeConfig = `{"autoupdate": false, "share": "disabled", "snapshot": false, "model": "mock/mock-1", "small_model": "mock/mock-1",
 "enabled_providers": ["mock"],
 "provider": {"mock": {"npm": "@ai-sdk/openai-compatible", "name": "Mock",
  "options": {"baseURL": "%s/v1", "apiKey": "{env:MODELSERVER_API_KEY}"},
  "models": {"mock-1": {"name": "Mock 1", "tool_call": true, "limit": {"context": 2000000, "output": 8192},
   "cost": {"input": 1, "output": 10, "cache_read": 0.1}}}}}}
`

func mkdir(t testing.TB, parts ...string) string {
	t.Helper()
	dir := filepath.Join(parts...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t testing.TB, path, text string) {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
