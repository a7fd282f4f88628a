package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
)

// The user's settings are floors: a project's settings are raised to them, unless they are at least as strict.
func TestFloorsHold(t *testing.T) {
	user := "sandbox: auto\napproval: plan\nlimits: {parallel: 1, rounds: 9, idle: 5m, implement: 1h, cost_usd: 2.5, day_tokens: 100, per_agent: {claude: 2, codex: 1}}\n"
	load := func(project string) *config.Config {
		c, problems := config.Load(config.Files{Config: config.File{Name: "config.yaml", Data: []byte(project)}, User: config.File{Name: "user.yaml", Data: []byte(user)}})
		if said := mistakes(problems); said != "" {
			t.Fatal(said)
		}
		return c
	}
	c := load("sandbox: off\nplanning: {approval: none}\nlimits: {parallel: 8, idle: 0s, implement: 2h, cost_usd: 0, per_agent: {claude: 1}}\n")
	want := config.Limits{Parallel: 1, Rounds: 5, Attempts: 3, Idle: 5 * time.Minute, Evaluate: 10 * time.Minute, Implement: time.Hour,
		Check: 15 * time.Minute, Debug: 20 * time.Minute, Accept: 10 * time.Minute, Tokens: 2_000_000, CostUSD: 2.5, Seconds: 14_400, DayTokens: 100}
	got := c.Limits
	if got.PerAgent["claude"] != 1 || got.PerAgent["codex"] != 1 {
		t.Errorf("per agent: %v", got.PerAgent)
	}
	got.PerAgent = nil
	if !slices.Equal(values(got), values(want)) {
		t.Errorf("limits are\n%+v, not\n%+v", got, want)
	}
	if c.Sandbox != "auto" || c.Planning.Approval != "plan" {
		t.Errorf("sandbox %s, approval %s", c.Sandbox, c.Planning.Approval)
	}
	if c := load("sandbox: require\nlimits: {cost_usd: 1}\n"); c.Sandbox != "require" || c.Limits.CostUSD != 1 {
		t.Errorf("what is stricter than a floor was changed: %s, %v", c.Sandbox, c.Limits.CostUSD)
	}
}

func values(l config.Limits) []any {
	return []any{l.Parallel, l.Rounds, l.Attempts, l.Idle, l.Evaluate, l.Implement, l.Check, l.Debug, l.Accept, l.Tokens, l.CostUSD, l.Seconds, l.DayTokens, l.DayCostUSD}
}

// A mistake in the user's settings is an error, as in a project's settings, so that no limit is silently left out.
func TestUserSettingsAreChecked(t *testing.T) {
	_, problems := config.Load(config.Files{User: config.File{Name: "user.yaml", Data: []byte("sandbox: on\nverify: [true]\ntrust: {keys: [ann.pem], everything: [~/src]}\n")}})
	got := mistakes(problems)
	for _, want := range []string{"user.yaml:1: sandbox is one of", "user.yaml:2: verify is unknown here: it is a setting of a project, in its config.yaml", "user.yaml:3: trust.keys[1] is a path that begins with / or ~/"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "everything") {
		t.Error(got)
	}
}
