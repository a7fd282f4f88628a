package share_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A machine that lacks a program that the task's checks run leaves the task to others, and reports that once.
func TestMachineWithoutAProgram(t *testing.T) {
	t.Parallel()
	const silence = time.Minute
	a := net(t, runnertest.Counted(), silence)
	dir := a.Hand(task, runnertest.ProvenPRD)
	if _, err := a.team.Submit(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	b := a.beside("b", silence)
	var looks atomic.Int32
	b.Site.LookPath = func(program string) error {
		if program == "sh" {
			looks.Add(1)
			return exec.ErrNotFound
		}
		return nil
	}
	b.pull()
	before := a.Git("ls-remote", "origin", "refs/trellis/*")
	_, err := b.Site.TaskRunner().Run(t.Context(), b.dir(), runner.RunOptions{}, nil)
	var refused *runner.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Why, task+" is left to other machines: the checks run sh, which is not installed here") || refused.Hint != "install sh" {
		t.Errorf("got %v", err)
	}
	b.follow()
	b.Until("the watcher to say so", func() bool { return b.Heard("the checks run sh, which is not installed here") > 0 })
	b.Until("its beat to say so", func() bool {
		beat, _ := pulse.Left(b.Dir)
		return slices.ContainsFunc(beat.Waiting, func(w pulse.Wait) bool {
			return w.Task == task && strings.HasPrefix(w.For, "somebody: "+task+" is left to other machines")
		})
	})
	said, tried := b.Heard("the checks run sh"), looks.Load()
	b.Until("another try", func() bool {
		now := time.Now()
		return os.Chtimes(filepath.Join(b.dir(), "task.json"), now, now) != nil || looks.Load() > tried+1
	})
	if again := b.Heard("the checks run sh"); again != said {
		t.Errorf("it was said %d times, and then %d times", said, again)
	}
	if after, got := a.Git("ls-remote", "origin", "refs/trellis/*"), b.Task(b.dir()).Status; after != before || got != trellis.Ready {
		t.Errorf("it is %s, and others were told something:\n%s\nwas\n%s", got, after, before)
	}
	if res := a.run(); res.Status != trellis.Review {
		t.Errorf("where the program is: %s, %v", res.Status, res.Failure)
	}
}

// A program that worktree.setup names may be installed by it, so its absence does not keep a machine from the task.
func TestProgramThatSetupInstalls(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Counted(), time.Minute)
	a.Site.LookPath = func(program string) error { return exec.ErrNotFound }
	a.Site.Config.Worktree.Setup = []string{"./tools add 'npm:prettier@3' ruff==0.14 -- golangci-lint"}
	for command, there := range map[string]bool{"ruff check .": true, "prettier --check .": true, "golangci-lint run": true, "golangci run": false, "uv run ruff": false} {
		if err := a.Site.TaskRunner().CheckPrograms("it is", []string{command}); (err == nil) != there {
			t.Errorf("%s: %v", command, err)
		}
	}
}
