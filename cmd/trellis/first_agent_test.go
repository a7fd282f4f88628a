package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A process that begins without an agent takes the one that is there later.
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
