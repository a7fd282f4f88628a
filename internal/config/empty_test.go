package config_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/config"
)

// Edge S11: a setting with fixed choices that is left empty is a mistake: an empty `sandbox:` must not silently mean off.
func TestChoiceLeftEmpty(t *testing.T) {
	for text, want := range map[string]string{
		"sandbox:\n":                 ".trellis/config.yaml:1: sandbox is left empty: write one of off, auto, require, or leave out the line",
		"sandbox: ~\n":               "sandbox is left empty",
		"planning:\n  approval:\n":   ".trellis/config.yaml:2: planning.approval is left empty: write one of none, plan",
		"delivery: {update: null}\n": "delivery.update is left empty",
		"sandbox: auto\nplanning:\n": "",
	} {
		_, problems := config.Load(config.Files{Config: config.File{Name: ".trellis/config.yaml", Data: []byte(text)}})
		var said []string
		for _, p := range problems {
			said = append(said, p.Error())
		}
		if got := strings.Join(said, "\n"); !strings.HasPrefix(got, want) && !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
