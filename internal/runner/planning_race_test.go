package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// childRace makes a child plan a task with this name as soon as there is a file with the name next to the repository.
const childRace = "TRELLIS_TEST_RACE"

// Exit codes of a racer.
const (
	racerWon = iota
	racerLost
	racerTooLate // the winner has already published
	racerConfused
)

func racer(site *runner.Site, name string) int {
	flag := filepath.Join(site.Repo.Main, "..", name)
	if err := os.WriteFile(fmt.Sprintf("%s-%d", flag, os.Getpid()), nil, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return racerConfused
	}
	for there := false; !there; time.Sleep(time.Millisecond) {
		_, err := os.Stat(flag)
		there = err == nil
	}
	res, err := site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: name, DevType: "backend"}, Requirement: "say bye"})
	switch {
	case err == nil && res.Status == trellis.Ready:
		return racerWon
	case errors.Is(err, durable.ErrHeld):
		return racerLost
	case errors.Is(err, taskdir.ErrExists):
		return racerTooLate
	}
	fmt.Fprintln(os.Stderr, res.Status, res.Failure, err)
	return racerConfused
}

// racer starts a process that will plan a task with this name.
func (w *world) racer(name string) (*exec.Cmd, *bytes.Buffer) {
	w.Helper()
	var said bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), runnertest.ChildDir+"="+w.Dir, childRace+"="+name, runnertest.ChildLog+"="+filepath.Join(w.Dir, "..", "steps.log"), "GORACE=atexit_sleep_ms=0",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	return cmd, &said
}

// If several processes plan a task with the same name at the same time, one wins. The others are told that the task is being planned or
// exists.
func TestPlannersOfOneName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Careful("small").String())
	for round := range 4 {
		name := fmt.Sprintf("race-%d", round)
		ends := map[int]int{}
		var racers []*exec.Cmd
		var said []*bytes.Buffer
		for range 3 {
			cmd, words := w.racer(name)
			racers, said = append(racers, cmd), append(said, words)
		}
		w.Until("the racers", func() bool {
			there, _ := filepath.Glob(filepath.Join(w.Dir, "..", name+"-*"))
			return len(there) == len(racers)
		})
		w.Write("../"+name, "")
		for _, cmd := range racers {
			_ = cmd.Wait() // the exit code has the result
			ends[cmd.ProcessState.ExitCode()]++
		}
		if ends[racerWon] != 1 || ends[racerWon]+ends[racerLost]+ends[racerTooLate] != len(racers) {
			t.Errorf("round %d ended %v: %q", round, ends, said)
		}
		dirs, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), "*"+name))
		if err != nil || len(dirs) != 1 || strings.Contains(dirs[0], ".new-") {
			t.Fatalf("round %d left %q, %v", round, dirs, err)
		}
		if got := w.asked(dirs[0]); got != "evaluate judge plan research taskspec" {
			t.Errorf("round %d asked %s", round, got)
		}
	}
}
