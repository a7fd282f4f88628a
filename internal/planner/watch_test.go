package planner_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/planner"
)

// Changes that a planning agent makes in the main checkout are reported, also in files that a person had changed before, and none
// of the person's work is undone.
func TestWatchTellsWhatReadersChange(t *testing.T) {
	dir := t.TempDir()
	sh := func(script string) {
		t.Helper()
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	sh("git init -q -b main; git config user.name A; git config user.email a@example.org; echo a >a.txt; echo b >b.txt; git add .; git commit -qm first; echo mine >a.txt")
	repo, err := git.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var calls agentcall.Caller
	planner.Deps{Repo: repo}.Equip(&calls)
	for _, c := range []struct{ script, want string }{
		{"true", ""},
		{"echo theirs >>a.txt; echo x >new.txt", "a.txt new.txt"},
		{"mkdir -p .trellis/tasks/x; echo x >.trellis/tasks/x/y", ""},
		{"git add a.txt; git commit -qm theirs", "HEAD a.txt"},
	} {
		end, err := calls.Watch(t.Context(), flow.Call{}, agentcall.Request{})
		if err != nil {
			t.Fatal(err)
		}
		sh(c.script)
		notes, fail, err := end(t.Context())
		if err != nil || fail != nil {
			t.Fatalf("%s: %v, %v", c.script, fail, err)
		}
		var paths []string
		for _, n := range notes {
			path, _, _ := strings.Cut(n, " was changed")
			paths = append(paths, path)
		}
		if want := strings.Fields(c.want); !slices.Equal(paths, want) {
			t.Errorf("%s: got %v, want %v", c.script, paths, want)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(data) != "mine\ntheirs\n" {
		t.Errorf("got %q, %v", data, err)
	}
}
