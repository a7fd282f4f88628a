package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/soak"
)

// leave creates what is left of a run that ended in review after it had been cut off before: a worktree, with uncommitted work if dirty,
// and the checkout of final verify. The branch is merged by cherry-pick.
func (w *gitWorld) leave(dirty bool) {
	w.Helper()
	const rel = "../repo-worktrees/feature/bye"
	base, dir := w.git("rev-parse", "main"), w.path(rel)
	w.git("worktree", "add", "-q", "--no-track", "-b", "feature/bye", dir, "main")
	w.write(rel+"/greet.sh", "echo Bye\n")
	w.git("-C", dir, "commit", "-qam", "feat: bye")
	tip := w.git("rev-parse", "feature/bye")
	w.git("worktree", "add", "-q", "--detach", dir+"~final", tip)
	w.git("commit", "-q", "--allow-empty", "-m", "meanwhile")
	w.git("cherry-pick", "feature/bye")
	if dirty {
		w.write(rel+"/staged.txt", "staged\n")
		w.git("-C", dir, "add", "-A")
		w.write(rel+"/staged.txt", "and changed\n")
		w.write(rel+"/test.sh", "changed\n")
		w.write(rel+"/new/file.txt", "new\n")
	}
	task, err := json.Marshal(map[string]any{"status": "review", "name": "bye", "branch": "feature/bye", "base_branch": "main", "worktree_path": dir, "commit": tip,
		"pipeline": map[string]any{"base_commit": base, "attempt": 1}})
	if err != nil {
		w.Fatal(err)
	}
	w.write(".trellis/tasks/02-01-bye/task.json", string(task))
}

// cleaned describes the result of a cleanup.
func (w *gitWorld) cleaned() string {
	w.Helper()
	var b strings.Builder
	b.WriteString(w.end())
	for ref := range strings.FieldsSeq(w.git("for-each-ref", "--format=%(refname)", "refs/trellis")) {
		fmt.Fprintf(&b, "%s has tree %s\n%s\n", ref, w.git("rev-parse", ref+"^{tree}"), w.git("log", "-m", "-p", "--format=%s", ref, "--", "staged.txt"))
	}
	left, err := filepath.Glob(w.path("../repo-worktrees/*"))
	return b.String() + fmt.Sprint(left, err)
}

// Whichever call of git in a cleanup fails, and wherever Trellis is killed around a call, nothing is lost, and the same command again has
// the same result. A sample of the cases; all of them with TRELLIS_SOAK.
func TestCleanupAtEveryCall(t *testing.T) {
	t.Parallel()
	trellis, every := realTrellis(t), soak.Every(97)
	at := 0
	for _, dirty := range []bool{false, true} {
		command := []string{"cleanup", "--merged"}
		if dirty {
			command = []string{"cleanup", "02-01-bye", "--force"}
		}
		plain := newGitWorld(t, trellis)
		plain.leave(dirty)
		plain.recount()
		if code := plain.trellis(command...); code != 0 {
			t.Fatalf("it fails by itself:\n%s", plain.said)
		}
		want, calls := plain.cleaned(), plain.counted()
		if backups := strings.Count(want, " has tree "); backups != 1 || strings.Contains(want, "feature/bye") || !strings.Contains(want, "completed merged") || strings.Contains(want, "+and changed") != dirty {
			t.Fatalf("it comes to\n%s\n%s", want, plain.said)
		}
		t.Logf("dirty %v: %d calls of git", dirty, len(calls))
		for _, mode := range []string{"killed-after", "fails", "killed-before", "killed-working", "dies-working", "broken"} {
			for n, call := range calls {
				if at++; at%every != 0 && !(mode == "killed-after" && takesAway(call)) && !(mode == "fails" && call == "write-tree") {
					continue
				}
				t.Run(fmt.Sprintf("%v/%s/%d-%s", dirty, mode, n+1, strings.Fields(call)[0]), func(t *testing.T) {
					t.Parallel()
					w := newGitWorld(t, trellis)
					w.leave(dirty)
					w.recount()
					w.write("../calls/fault", fmt.Sprintf("%d %s\n", n+1, mode))
					for try := 1; w.trellis(command...) != 0; try++ {
						if try == 4 {
							t.Fatalf("it does not come to its end:\n%s", w.said)
						}
						w.write("../calls/mended", "")
					}
					if got := w.cleaned(); got != want {
						t.Errorf("got\n%s\nwant\n%s\n%s", got, want, w.said)
					}
				})
			}
		}
	}
	t.Logf("%d cases in all", at)
}

// takesAway reports whether a call adds or removes something.
func takesAway(call string) bool {
	return changes(call) && !slices.Contains(strings.Fields(call), "list") || strings.HasPrefix(call, "commit-tree")
}
