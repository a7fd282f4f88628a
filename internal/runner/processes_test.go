package runner_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// counting makes the world record each git process that Trellis starts, without git's own children.
func (w *world) counting() (calls func() []string) {
	w.Helper()
	real, err := exec.LookPath("git")
	if err != nil {
		w.Fatal(err)
	}
	root := filepath.Dir(w.Dir)
	log, bin := filepath.Join(root, "git.log"), filepath.Join(root, "bin")
	w.Write("../bin/git", fmt.Sprintf("#!/bin/sh\necho \"$*\" >> '%s'\nexec '%s' \"$@\"\n", log, real))
	if err := os.Chmod(filepath.Join(bin, "git"), 0o755); err != nil {
		w.Fatal(err)
	}
	w.Site.Repo.Env = append([]string{"PATH=" + bin + ":" + os.Getenv("PATH")}, w.Site.Repo.Env...)
	for i, e := range w.Site.Repo.Env[1:] {
		if strings.HasPrefix(e, "PATH=") {
			w.Site.Repo.Env[i+1] = w.Site.Repo.Env[0]
		}
	}
	return func() []string {
		data, err := os.ReadFile(log)
		if err != nil {
			w.Fatal(err)
		}
		if err := os.Remove(log); err != nil {
			w.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(data)), "\n")
	}
}

// A run's git processes are a large part of what Trellis costs, so more of them need a reason. Seven are guards: the main checkout before
// the first agent, after each, and before acceptance; the staged content for secrets; what the base says to ignore of these. Six are for
// the checkout in which checks run.
func TestProcessesOfARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	calls := w.counting()
	for i, most := range []int{26, 23} { // the author and the base's content are read once
		res := w.Start(w.Hand(fmt.Sprintf("03-01-counted-%d", i), runnertest.PrdText))
		if res.Status != trellis.Review {
			t.Fatalf("got %s, %v", res.Status, res.Failure)
		}
		if got := calls(); len(got) > most {
			t.Errorf("run %d: got %d processes, want at most %d:\n%s", i, len(got), most, strings.Join(got, "\n"))
		}
	}
}
