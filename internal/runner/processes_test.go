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

// counting makes a world write down each git process that Trellis starts. The real git's own children are not counted.
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

// Much of what Trellis itself costs are the git processes of a run. More of them want a reason. Seven are of guards: how
// the main checkout looks before the first agent, after each, and before somebody judges, what is staged is looked through for secrets, and whether
// base says what of that to pass by, which is remembered. Six make the checkout that checks run in, once, and say what is in it.
func TestProcessesOfARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	calls := w.counting()
	for i, most := range []int{26, 23} { // who commits, and what base has, is asked once
		res := w.Start(w.Hand(fmt.Sprintf("03-01-counted-%d", i), runnertest.PrdText))
		if res.Status != trellis.Review {
			t.Fatalf("got %s, %v", res.Status, res.Failure)
		}
		if got := calls(); len(got) > most {
			t.Errorf("run %d: got %d processes, want at most %d:\n%s", i, len(got), most, strings.Join(got, "\n"))
		}
	}
}
