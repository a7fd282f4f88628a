package runner_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// installing returns a project whose setup makes deps from a lock file, and whose check needs deps. installed counts the setups since its last call.
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

// Folders that setup makes from lock files are made once, and copied into later worktrees and checkouts. If the lock file differs, or setup
// makes more than these folders, setup runs.
func TestWarmFolders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, setup string
		want          []int // setups of the first and of the second task
	}{
		"the same lock file":                {"echo x > notes.txt", "", []int{1, 0}},
		"an agent changes the lock file":    {"echo more > package-lock.json; cp package-lock.json deps/greeting; echo x > notes.txt", "", []int{2, 1}},
		"setup makes more than the folders": {"echo x > notes.txt", "; mkdir -p built; date +%N > built/it", []int{2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, installed := installing(t, c.script, c.setup)
			w.Site.Config.Baseline = "false"
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

// If an agent writes into a warm folder of its worktree, neither the checks of its task nor another task's worktree are affected.
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

// If an agent replaces a warm folder, or changes how it is made, the work is judged as in a clone of the commit.
func TestCheatsWithWarmFolders(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct{ script, setup, verify string }{
		"the folder is committed":             {"echo 'built/' > .gitignore; echo 'echo nonsense' > greet.sh; echo 'exit 0' > deps/tool", "; cp test.sh deps/tool", "sh deps/tool"},
		"the folder is a link":                {"echo 'built/' > .gitignore; echo 'echo nonsense' > greet.sh; rm -r deps; mkdir own; echo 'exit 0' > own/tool; ln -s own deps", "; cp test.sh deps/tool", "sh deps/tool"},
		"a lock file that is a link":          {"echo bad > real.lock; ln -s real.lock yarn.lock; echo x > notes.txt", "; [ ! -e yarn.lock ]", "sh test.sh"},
		"a script that setup runs":            {"echo 'exit 1' > install.sh; echo x > notes.txt", "; sh install.sh", "sh test.sh"},
		"the rules by which setup makes them": {"echo 'false' > Makefile; echo x > notes.txt", "; ! grep false Makefile", "sh test.sh"},
	}, "the folder is committed", "a lock file that is a link", "a script that setup runs") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := installing(t, c.script, c.setup)
			w.Write("install.sh", "exit 0\n")
			w.Write("Makefile", "true\n")
			w.Git("add", "-A")
			w.Git("commit", "-q", "-m", "how to install")
			w.Site.Config.Verify = []string{c.verify}
			if res := w.Start(w.Hand("03-01-warm", lyingPRD)); res.Status != trellis.Failed || res.Failure == nil || !strings.Contains(res.Failure.Detail, "exited with 1") {
				t.Errorf("got %s, %v", res.Status, res.Failure)
			}
		})
	}
}

// A kept set of folders that is incomplete, or a day old, is not used, and setup makes another one.
func TestWarmFoldersThatLostSomething(t *testing.T) {
	t.Parallel()
	for name, harm := range soak.Rows(t, map[string]string{
		"a folder":                   "rm -r deps",
		"a file":                     "rm deps/greeting",
		"the content of a file":      ": > deps/greeting",
		"what says what it is":       "rm made.json",
		"its time: it is a day old":  `sed -i 's/"at":"[^"]*"/"at":"2026-01-02T03:04:05Z"/' made.json`,
		"all that it says of itself": ": > made.json",
		"its place: it leads out":    `sed -i 's|"deps"|"../elsewhere"|' made.json; cp -r deps ../elsewhere`,
	}, "a file", "what says what it is", "its place: it leads out") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, installed := installing(t, "echo x > notes.txt", "")
			w.Site.Config.Baseline = "false"
			for i, want := range []int{1, 1, 0} {
				if res := w.Start(w.Hand(fmt.Sprintf("03-01-warm-%d", i), runnertest.PrdText)); res.Status != trellis.Review {
					t.Fatalf("task %d: got %s, %v", i, res.Status, res.Failure)
				}
				if got := installed(); got != want {
					t.Errorf("task %d: setup ran %d times, want %d", i, got, want)
				}
				if i > 0 {
					continue
				}
				set, err := filepath.Glob(filepath.Join(w.Dir, ".trellis/.runtime/warm/*"))
				if err != nil || len(set) != 1 {
					t.Fatalf("kept are %v, %v", set, err)
				}
				cmd := exec.Command("sh", "-c", harm)
				cmd.Dir = set[0]
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
		})
	}
}

// Folders that refer to their worktree are not kept, and the report says so.
func TestWarmFoldersThatNameTheirPlace(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]string{
		"a link":    "; ln -s $PWD/test.sh deps/place",
		"a program": "; printf '#!%s/run\\n' $PWD > deps/place; chmod +x deps/place",
		"out of it": "; ln -s ../../place deps/place",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := installing(t, "echo x > notes.txt", setup)
			if res := w.Start(w.Hand("03-01-warm", runnertest.PrdText)); res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			if report := w.Read(".trellis/tasks/03-01-warm/report.md"); !strings.Contains(report, "worktree.warm: deps is not kept: place in it names the worktree") {
				t.Errorf("report.md says\n%s", report)
			}
			if left, err := os.ReadDir(filepath.Join(w.Dir, ".trellis/.runtime/warm")); err != nil || len(left) != 0 {
				t.Errorf("kept are %v, %v", left, err)
			}
		})
	}
}

// At most three sets are kept, and an incomplete one is not used.
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
