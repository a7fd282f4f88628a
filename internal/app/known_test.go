package app

import (
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/internal/config"
)

// A variable is secret if its name says so, or if the settings use it as a key, whatever its name.
func TestKnownSecrets(t *testing.T) {
	t.Parallel()
	e := &Env{Vars: []string{"DEPLOY_TOKEN=one-of-them", "MODELS=two", "EDITOR=vi"}}
	cfg := &config.Config{}
	cfg.Agents.APIs = map[string]config.API{"models": {KeyEnv: "MODELS"}, "open": {}}
	cfg.Agents.Commands = map[string]config.Command{"own": {Env: map[string]string{"OWN_KEY": "three-of-them", "MODE": "fast"}}}
	got, want := (&Project{Env: e, Root: t.TempDir()}).Agents(cfg).secrets(), []string{"one-of-them", "three-of-them", "two"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
