package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/programtest"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// programs builds trellis, and the programs of the bench, which are kept for other tests, and returns the path of trellis.
func (b *bench) programs(t *testing.T) (trellis string) {
	t.Helper()
	trellis = filepath.Join(t.TempDir(), "trellis")
	err := programtest.Build("..", trellis)
	for pkg, path := range map[string]*string{instantPackage: &b.instant, timedPackage: &b.timed} {
		if err == nil {
			*path, err = programtest.Kept(pkg)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return trellis
}

// All measurements run, about once each: their numbers mean nothing here, but none may fail. Long ones are only long in a soak.
func TestAll(t *testing.T) {
	var log, out strings.Builder
	b := &bench{log: &log, manySamples: 2, fewSamples: 1, sizes: []int{2, 4}, chainSteps: 20, largeFiles: 40, logMegabytes: 2, diffLines: 3000, objectCounts: []int{10}, sameBaseTasks: 2, idleTime: 60 * time.Millisecond, checkTime: 100 * time.Millisecond, agentTime: 10 * time.Millisecond}
	trellis := b.programs(t)
	if soak.Asked() {
		b.largeFiles, b.logMegabytes, b.diffLines, b.objectCounts, b.sameBaseTasks = 1000, 100, 50_000, []int{10, 100, 1000}, 8
	}
	if _, err := b.run(trellis, "", &out); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	for _, want := range []string{"machine ", "git ", "go ", "trellis list, 2 tasks", "trellis list, 4 tasks", "trellis list, 4 tasks, a quarter ready", "trellis validate", "trellis ui, 4 tasks: first screen", "from a key to the screen", "size of the program", fmt.Sprintf("a log of %d MB: memory", b.logMegabytes), fmt.Sprintf("a diff of %d lines: memory", b.diffLines), "empty Go program",
		"rename to agent, 10 files, 4 tasks", fmt.Sprintf("rename to agent, %d files", b.largeFiles), "git worktree add", "whole run by the watcher", "whole run by trellis start", "worktree, commit and cleanup by trellis", "trellis cleanup --merged TASK alone", fmt.Sprintf("%d files: of that git's objects, 100 written", b.largeFiles), "trellis plan, five calls", "trellis plan, agents that take 0.01 s each", "the same with planning.speculate: false", "20 steps in a chain, each", "20 steps in parallel groups, each", "trellis objective next, 10000 steps"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line says %q:\n%s", want, &out)
		}
	}
}
