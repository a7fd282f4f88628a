package agents_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// If every file is executable, as on a disk of another system, scripts are protected, but not files that the program has to write.
func TestOwnScripts(t *testing.T) {
	for cli, dir := range map[string]string{agents.Claude: ".claude", agents.Codex: ".codex", agents.OpenCode: ".local/share/opencode"} {
		home := t.TempDir()
		state := filepath.Join(home, dir)
		held := []string{"status.sh", "line.py", "tool", "bin"}
		free := []string{"auth.json", ".credentials.json", "history.jsonl", "state_5.sqlite", "state_5.sqlite-wal", "opencode.db", "opencode.db-shm", "x.log", "x.lock"}
		makes := []error{os.MkdirAll(filepath.Join(state, "bin"), 0o755), os.WriteFile(filepath.Join(home, cli), []byte("#!/bin/sh\nexit 1\n"), 0o755)}
		for _, name := range slices.Concat(held[:3], free) {
			makes = append(makes, os.WriteFile(filepath.Join(state, name), nil, 0o755))
		}
		if err := errors.Join(makes...); err != nil {
			t.Fatal(err)
		}
		var own agents.Own
		seen := errors.New("seen")
		agent, err := agents.New(cli, agents.Options{Environ: []string{"HOME=" + home, "PATH=" + home}, Sandbox: func(_ context.Context, _ agents.Request, o agents.Own) (agents.Place, error) {
			own = o
			return agents.Place{}, seen
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := agent.Run(t.Context(), agents.Request{Role: trellis.Implement, Prompt: "x", Dir: t.TempDir(), RunDir: t.TempDir(), Permission: trellis.PermitEdit, Marker: "own"}, nil); !errors.Is(err, seen) {
			t.Fatalf("%s: got %v", cli, err)
		}
		for _, name := range slices.Concat(held, free) {
			if got, want := slices.Contains(own.Fixed, filepath.Join(state, name)), slices.Contains(held, name); got != want {
				t.Errorf("%s: %s is held: %v, want %v", cli, name, got, want)
			}
		}
	}
}

// Hosts that a program asked for and was not let through to are reported, and named in its failure; they do not make a run that
// worked fail. A program whose network could not be set up never began.
func TestRefusedHosts(t *testing.T) {
	refused := []string{"a.example.org, which is not let through", "b.example.org, which is not let through"}
	for _, c := range []struct {
		script string
		leave  func() ([]string, error)
		want   string // of the failure
		told   int
	}{
		{"echo done", func() ([]string, error) { return refused, nil }, "", 2},
		{"exit 3", func() ([]string, error) { return refused, nil }, "agent_exit: exit 3; sh asked for a.example.org, which is not let through, and for b.example.org, which is not let through", 2},
		{"exit 3", func() ([]string, error) { return nil, nil }, "agent_exit: exit 3", 0},
		{"exit 126", func() ([]string, error) { return nil, errors.New("no network") }, "agent_missing: no network; exit 126", 0},
	} {
		agent, err := agents.New("mine", agents.Options{Environ: []string{"PATH=" + os.Getenv("PATH")}, Commands: map[string]agents.Command{"mine": {Argv: []string{"sh", "-c", c.script}}},
			Sandbox: func(context.Context, agents.Request, agents.Own) (agents.Place, error) {
				return agents.Place{Leave: c.leave}, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		_, err = agent.Run(t.Context(), agents.Request{Role: trellis.Implement, Prompt: "x", Dir: t.TempDir(), RunDir: t.TempDir(), Permission: trellis.PermitEdit}, func(e agents.Event) {
			if e.Kind == agents.EventNotice {
				told++
			}
		})
		if got := fmt.Sprint(err); got != c.want && (c.want != "" || err != nil) || told != c.told {
			t.Errorf("`%s`: got %v, told %d times, want %q, %d", c.script, err, told, c.want, c.told)
		}
	}
}
