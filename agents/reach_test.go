package agents_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
)

// The person's own variables and settings decide which hosts an agent reaches.
func TestReaches(t *testing.T) {
	for _, c := range []struct {
		name  string
		env   []string
		files map[string]string // of the home folder
		want  []string
	}{
		{agents.Claude, nil, nil, []string{"api.anthropic.com", "platform.claude.com", "console.anthropic.com"}},
		{agents.Claude, []string{"ANTHROPIC_BASE_URL=http://127.0.0.1:4000/x"}, nil, []string{"127.0.0.1:4000"}},
		{agents.Claude, nil, map[string]string{".claude/settings.json": `{"env": {"ANTHROPIC_BASE_URL": "https://llm.example.org"}}`}, []string{"llm.example.org:443"}},
		{agents.Claude, []string{"CLAUDE_CODE_USE_BEDROCK=1", "AWS_REGION=eu-west-1"}, nil, []string{"bedrock-runtime.eu-west-1.amazonaws.com", "bedrock.eu-west-1.amazonaws.com", "sts.eu-west-1.amazonaws.com",
			"oidc.eu-west-1.amazonaws.com", "portal.sso.eu-west-1.amazonaws.com", "sts.amazonaws.com"}},
		{agents.Claude, []string{"CLAUDE_CODE_USE_VERTEX=1", "CLOUD_ML_REGION=us-east5"}, nil, []string{"aiplatform.googleapis.com", "oauth2.googleapis.com", "sts.googleapis.com", "iamcredentials.googleapis.com", "us-east5-aiplatform.googleapis.com"}},
		{agents.Claude, []string{"CLAUDE_CODE_USE_FOUNDRY=1", "ANTHROPIC_FOUNDRY_RESOURCE=mine"}, nil, []string{"login.microsoftonline.com", "mine.services.ai.azure.com"}},
		{agents.Claude, []string{"CLAUDE_CODE_USE_FOUNDRY=1", "ANTHROPIC_FOUNDRY_RESOURCE=mine", "CLAUDE_CODE_USE_VERTEX=1"}, nil,
			[]string{"aiplatform.googleapis.com", "oauth2.googleapis.com", "sts.googleapis.com", "iamcredentials.googleapis.com", "login.microsoftonline.com", "mine.services.ai.azure.com"}},
		{agents.Codex, nil, nil, []string{"api.openai.com", "chatgpt.com", "auth.openai.com"}},
		{agents.Codex, []string{"OPENAI_BASE_URL=https://llm.example.org/v1"}, nil, []string{"llm.example.org:443"}},
		{agents.Codex, nil, map[string]string{".codex/config.toml": "# base_url = \"http://old\"\n[model_providers.mine]\nbase_url = 'http://localhost:8080/v1'\n"}, []string{"localhost:8080", "api.openai.com", "chatgpt.com", "auth.openai.com"}},
		{agents.Codex, nil, map[string]string{".codex/config.toml": "model_provider = \"mine\"\n[model_providers.mine]\nbase_url = 'http://localhost:8080/v1'\n"}, []string{"localhost:8080"}},
		{agents.Claude, nil, map[string]string{".claude/settings.json": "-> ../mine.json", "mine.json": `{"env": {"ANTHROPIC_BASE_URL": "https://evil.example.org"}}`}, []string{"api.anthropic.com", "platform.claude.com", "console.anthropic.com"}},
		{agents.OpenCode, nil, nil, []string{"opencode.ai"}},
		{agents.OpenCode, []string{"OPENAI_API_KEY=x"}, nil, []string{"api.openai.com", "auth.openai.com", "chatgpt.com"}},
		{agents.OpenCode, nil, map[string]string{".local/share/opencode/auth.json": `{"openrouter": {}, "github-copilot": {}}`}, []string{"opencode.ai"}}, // a file that opencode writes itself
		{agents.OpenCode, nil, map[string]string{".config/opencode/opencode.json": `{"model": "openrouter/x/y"}`}, []string{"openrouter.ai"}},
		{agents.OpenCode, []string{"AT=llm.example.org"}, map[string]string{".config/opencode/opencode.json": `{"provider": {"a": {"options": {"baseURL": "https://{env:AT}/v1"}}}}`}, []string{"llm.example.org:443"}},
		{"mine", nil, nil, nil},
	} {
		home := t.TempDir()
		for name, text := range c.files {
			path := filepath.Join(home, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			err := os.WriteFile(path, []byte(text), 0o600)
			if to, link := strings.CutPrefix(text, "-> "); link {
				err = errors.Join(os.Remove(path), os.Symlink(to, path))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		o := agents.Options{Environ: append(c.env, "HOME="+home), Commands: map[string]agents.Command{"mine": {Argv: []string{"mine"}}}}
		if got := o.Reaches(c.name); !slices.Equal(got, c.want) {
			t.Errorf("%s with %v, %v: got %v, want %v", c.name, c.env, c.files, got, c.want)
		}
	}
}
