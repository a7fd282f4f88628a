package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/programtest"
)

// All measures are taken, each once or so: what they say here means nothing, but none may break.
func TestAll(t *testing.T) {
	trellis := filepath.Join(t.TempDir(), "trellis")
	if err := programtest.Build("..", trellis); err != nil {
		t.Fatal(err)
	}
	var log, out strings.Builder
	b := &bench{log: &log, many: 2, few: 1, sizes: []int{2, 4}, chain: 20, crowd: 40, rest: 60 * time.Millisecond, slow: 100 * time.Millisecond, turn: 10 * time.Millisecond}
	if _, err := b.all(trellis, "", &out); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	for _, want := range []string{"machine ", "git ", "go ", "trellis list, 2 tasks", "trellis list, 4 tasks", "trellis validate", "trellis ui, 4 tasks: first screen", "from a key to the screen", "size of the program", "a log of 100 MB: memory", "a diff of 50000 lines: memory", "empty Go program",
		"rename to agent, 10 files, 4 tasks", "rename to agent, 1000 files", "git worktree add", "whole run by the watcher", "whole run by trellis start", "worktree, commit and cleanup by trellis", "trellis cleanup --merged TASK alone", "40 files: of that git's objects, 100 written", "trellis plan, five calls", "trellis plan, agents that take 0.01 s each", "the same with planning.speculate: false", "20 steps in a chain, each", "20 steps in parallel groups, each", "trellis objective next, 10000 steps"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line says %q:\n%s", want, &out)
		}
	}
}
