package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// installing is a project whose setup fills deps from lock.json, slowly, and says each time that it does, and whose check needs it.
func installing(t *testing.T, script, setup string) (w *world, installed func() int) {
	t.Helper()
	w = cheat(t, script)
	log := filepath.Join(t.TempDir(), "installed")
	w.Write("package-lock.json", "greeting\n")
	w.Write(".gitignore", "deps/\nbuilt/\n")
	w.Git("add", "-A")
	w.Git("commit", "-q", "-m", "dependencies")
	w.Site.Config.Worktree.Setup = []string{fmt.Sprintf("echo >> '%s'; mkdir -p deps/.bin; cp package-lock.json deps/greeting; ln -sf ../greeting deps/.bin/g%s", log, setup)}
	w.Site.Config.Worktree.Warm = []string{"deps"}
	w.Site.Config.Verify = []string{"cmp package-lock.json deps/.bin/g && sh test.sh"}
	return w, func() int {
		data, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err := os.RemoveAll(log); err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(data), "\n")
	}
}

// What setup makes of lock files is made once, at base, and copied from then on, into worktrees and into the checkouts in which checks
// run; where the lock file is another one, or setup makes more than that, it runs.
func TestWarmFolders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, setup string
		want          []int // installations of the first and of the second task
	}{
		"the same lock file":                {"echo x > notes.txt", "", []int{1, 0}},
		"an agent changes the lock file":    {"echo more > package-lock.json; cp package-lock.json deps/greeting; echo x > notes.txt", "", []int{2, 1}},
		"setup makes more than the folders": {"echo x > notes.txt", "; mkdir -p built; date +%N > built/it", []int{2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, installed := installing(t, c.script, c.setup)
			w.Site.Config.Baseline = false
			for i, want := range c.want {
				if res := w.Start(w.Hand(fmt.Sprintf("03-01-warm-%d", i), runnertest.PrdText)); res.Status != trellis.Review {
					t.Fatalf("task %d: got %s, %v", i, res.Status, res.Failure)
				}
				if got := installed(); got != want {
					t.Errorf("task %d: setup ran %d times, want %d", i, got, want)
				}
			}
		})
	}
}

// An agent that writes into its folder writes into no other: neither the checks of its own task nor another task see it.
func TestWarmFoldersArePoisoned(t *testing.T) {
	t.Parallel()
	w, installed := installing(t, "echo 'echo nonsense' > greet.sh; for f in deps/greeting deps/.bin/g; do echo poison > $f; done; printf 'exit 0\\n' > deps/poison; chmod -R a+w deps", "")
	w.Site.Config.Verify = []string{"[ ! -e deps/poison ] && cmp package-lock.json deps/greeting && { [ -e ran ] || sh test.sh; }"}
	for i, want := range []int{1, 0} {
		res := w.Start(w.Hand(fmt.Sprintf("03-01-warm-%d", i), lyingPRD))
		if res.Failure == nil || !strings.Contains(res.Failure.Detail, "exited with 1") {
			t.Errorf("task %d: got %s, %v", i, res.Status, res.Failure)
		}
		if got := installed(); got != want {
			t.Errorf("task %d: setup ran %d times, want %d", i, got, want)
		}
		if base := w.Read(fmt.Sprintf(".trellis/tasks/03-01-warm-%d/report.md", i)); !strings.Contains(base, "| exit 0") {
			t.Errorf("task %d: its worktree began poisoned:\n%s", i, base)
		}
	}
}

// What is kept is bounded, and what is half kept is not used.
func TestWarmFoldersAreForgotten(t *testing.T) {
	t.Parallel()
	w, installed := installing(t, "echo x > notes.txt", "")
	for i := range 5 {
		w.Write("package-lock.json", fmt.Sprintln("greeting", i))
		w.Git("commit", "-q", "-a", "-m", "other dependencies")
		if res := w.Start(w.Hand(fmt.Sprintf("03-01-warm-%d", i), runnertest.PrdText)); res.Status != trellis.Review {
			t.Fatalf("task %d: got %s, %v", i, res.Status, res.Failure)
		}
	}
	kept, err := filepath.Glob(filepath.Join(w.Dir, ".trellis/.runtime/warm/*/made.json"))
	if err != nil || len(kept) != 3 {
		t.Errorf("kept are %v, %v", kept, err)
	}
	installed()
	for _, made := range kept {
		if err := os.Remove(made); err != nil {
			t.Fatal(err)
		}
	}
	w.Git("commit", "-q", "--allow-empty", "-m", "another base")
	if res := w.Start(w.Hand("03-01-warm-again", runnertest.PrdText)); res.Status != trellis.Review || installed() == 0 {
		t.Errorf("with half of them: %s, %v", res.Status, res.Failure)
	}
}
