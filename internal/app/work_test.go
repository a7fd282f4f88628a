package app

import (
	"os"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/taskdir"
)

// The merge command merges into the branch that the work was made for, whatever is checked out where it is typed.
func TestMergeIsToldForTheBase(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	b.Git("branch", "develop")
	b.Git("branch", "it's")
	b.Git("worktree", "add", "-q", b.Path("../beside"), "develop")
	for _, c := range []struct{ in, base, want string }{
		{".", "main", "git merge feature/x"},
		{".", "", "git merge feature/x"},
		{".", "develop", "git -C " + b.Path("../beside") + " merge feature/x"},
		{".", "it's", `git switch 'it'\''s' && git merge feature/x`},
		{"../beside", "main", "git -C " + b.Dir + " merge feature/x"},
		{"../beside", "it's", "git -C " + b.Dir + ` switch 'it'\''s' && git -C ` + b.Dir + " merge feature/x"},
	} {
		p := gittest.Must((&Env{Vars: os.Environ(), Dir: b.Path(c.in), Now: time.Now}).OpenRepository())(t)
		if got := MergeCommand(p, &taskdir.Task{Branch: "feature/x", BaseBranch: c.base}); got != c.want {
			t.Errorf("in %s, for %q: %s, not %s", c.in, c.base, got, c.want)
		}
	}
}
