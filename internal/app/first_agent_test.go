package app

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A process that starts while no agent is installed finds the one that is installed later.
func TestFirstAgentComesLater(t *testing.T) {
	home := t.TempDir()
	first := firstAgent(t.Context(), agents.Options{Environ: []string{"PATH=" + home, "HOME=" + home}})
	if name, err := first(); !errors.Is(err, &flow.Failure{Code: string(trellis.AgentMissing)}) {
		t.Fatalf("got %q, %v", name, err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(home, ".codex"), 0o755), os.WriteFile(filepath.Join(home, ".codex", "auth.json"), []byte("{}"), 0o600),
		os.WriteFile(filepath.Join(home, "codex"), []byte("#!/bin/sh\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if name, err := first(); name != agents.Codex || err != nil {
		t.Errorf("got %q, %v", name, err)
	}
}

// A command gets the variables that env_pass names, including keys, whose values are masked in its stored output (edge A15).
func TestCommandGetsWhatItIsPassed(t *testing.T) {
	root := t.TempDir()
	e := &Env{Vars: []string{"PATH=/usr/bin:/bin", "STRIPE_API_KEY=sk_0123456789", "OTHER_API_KEY=ok_0123456789", "SSH_AUTH_SOCK=/run/agent"}}
	o := (&Project{Env: e, Root: root, Settings: Settings{Root: root}}).Agents(&config.Config{Agents: config.Agents{Commands: map[string]config.Command{
		"mine": {Command: []string{"sh", "-c", "cat >/dev/null; env"}, EnvPass: []string{"STRIPE_API_KEY", "SSH_AUTH_SOCK", "NOT_SET"}}}}}).Options()
	agent, err := agents.New("mine", o)
	if err != nil {
		t.Fatal(err)
	}
	res, err := agent.Run(t.Context(), agents.Request{Role: trellis.Implement, Prompt: "go", Dir: root, RunDir: root, Permission: trellis.PermitEdit}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(filepath.Join(root, "stream.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if got := "\n" + res.Text; !strings.Contains(got, "\nSTRIPE_API_KEY=") || !strings.Contains(got, "\nSSH_AUTH_SOCK=/run/agent") || strings.Contains(got, "OTHER_API_KEY") || strings.Contains(got, "NOT_SET") {
		t.Errorf("it has\n%s", got)
	}
	if strings.Contains(string(kept), "sk_0123456789") {
		t.Errorf("the key is kept:\n%s", kept)
	}
}

// Agents get the environment of the project's checks, so that they can reproduce a failure, but neither secrets nor variables
// that are meant for another program (edge A8).
func TestAgentsGetWhatChecksGet(t *testing.T) {
	root := t.TempDir()
	given := []string{"PATH=/usr/bin:/bin", "HOME=" + root, "GOFLAGS=-mod=vendor", "JAVA_HOME=/opt/java", "VIRTUAL_ENV=/venv", "APP_MODE=test"}
	apart := []string{"STRIPE_API_KEY=sk_0123456789", "DATABASE_URL=postgres://ann:s3cretpw@db/x", "ANTHROPIC_BASE_URL=http://x", "OPENAI_ORG=y", "CLAUDECODE=1",
		"SSH_AUTH_SOCK=/run/agent", "GIT_DIR=/elsewhere", "TRELLIS_GUARD=1:2"}
	e := &Env{Vars: append(slices.Clone(given), apart...)}
	o := (&Project{Env: e, Root: root, Settings: Settings{Root: root}}).Agents(&config.Config{Agents: config.Agents{Commands: map[string]config.Command{"mine": {Command: []string{"sh", "-c", "cat >/dev/null; env"}}}}}).Options()
	agent, err := agents.New("mine", o)
	if err != nil {
		t.Fatal(err)
	}
	res, err := agent.Run(t.Context(), agents.Request{Role: trellis.Implement, Prompt: "go", Dir: root, RunDir: root, Permission: trellis.PermitEdit}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(res.Text, "\n")
	for _, kv := range given {
		if !slices.Contains(got, kv) {
			t.Errorf("it lacks %s", kv)
		}
	}
	for _, kv := range apart {
		name, _, _ := strings.Cut(kv, "=")
		if slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			t.Errorf("it has %s", name)
		}
	}
}

// The list of built-in agents in the settings is that of the package that runs them, which the settings may not import.
func TestBuiltInAgents(t *testing.T) {
	t.Parallel()
	if got, want := (&config.Config{}).AgentNames(), append(agents.Programs(), agents.Rehearsal); !slices.Equal(got, want) {
		t.Errorf("settings have %q, want %q", got, want)
	}
}
