package runner_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// If a run is killed before or after any change while it removes a secret from commits, it resumes to one commit without the secret. Soak
// tests kill it both before and after each change.
func TestKilledWhileASecretIsTakenBack(t *testing.T) {
	t.Parallel()
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	for i, when := range []string{"before", "after"} {
		for n := 1; ; n++ {
			if !soak.Asked() && (2*i+n)%4 != 1 {
				continue
			}
			leak := "printf '%s%s\\n' gh " + tokenEnd() + " > conf.txt && git add conf.txt && git commit -q -m one; echo clean > conf.txt; git add conf.txt; git commit -q -m two"
			w := newWorld(t, "roles:\n  implement: [{run: [\""+strings.ReplaceAll(leak, `\`, `\\`)+"\"], answer: done}]\n  check: [{answer: fine}]\n  "+runnertest.Met+"\n")
			w.Write("../bin/git", fmt.Sprintf(`#!/bin/sh
case " $* " in *" update-ref "*|*" commit --quiet "*)
	echo x >> "$0.calls"
	if test $(wc -l < "$0.calls") = %d; then
		test %s = before || %s "$@"
		kill -9 $PPID
		exit 1
	fi
esac
exec %s "$@"
`, n, when, real, real))
			if err := os.Chmod(filepath.Join(w.Dir, "../bin/git"), 0o755); err != nil {
				t.Fatal(err)
			}
			dir := w.Hand("02-01-bye", lyingPRD)
			run := func(path string) error {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), "PATH="+path, runnertest.ChildDir+"="+w.Dir, runnertest.ChildTask+"="+dir, runnertest.ChildLog+"="+filepath.Join(w.Dir, "../steps.log"),
					"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GORACE=atexit_sleep_ms=0")
				return cmd.Run()
			}
			err := run(filepath.Join(w.Dir, "../bin") + ":" + os.Getenv("PATH"))
			killed := false
			if exit, ok := err.(*exec.ExitError); ok {
				killed = exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
			}
			if err != nil && !killed {
				t.Fatalf("%s %d: %v", when, n, err)
			}
			if killed {
				if err := run(os.Getenv("PATH")); err != nil {
					t.Fatalf("%s %d, gone on with: %v", when, n, err)
				}
			}
			if got := w.Git("log", "--format=%s", "main..feature/bye"); strings.Count(got, "\n") > 0 || !strings.HasPrefix(got, "feat") {
				t.Errorf("%s %d: the branch has %q", when, n, got)
			}
			if got := w.Git("log", "-p", "main..feature/bye"); strings.Contains(got, tokenEnd()) || !strings.Contains(got, "+clean") {
				t.Errorf("%s %d: the branch has %q", when, n, got)
			}
			if got := w.Git("log", "-p", "--glob=refs/trellis/backup/*"); !strings.Contains(got, tokenEnd()) {
				t.Errorf("%s %d: what was taken back is not kept", when, n)
			}
			if !killed {
				if n < 4 {
					t.Errorf("only %d changes were made", n-1)
				}
				break
			}
		}
	}
}
