package taskdir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/taskdir"
)

// A path of a worktree that a person wrote is meant from the top of the repository, wherever it is read. The file keeps it as it is.
func TestRelativeWorktreePath(t *testing.T) {
	s := taskdir.Store{Root: t.TempDir()}
	dir := filepath.Join(s.Tasks(), "02-01-x")
	file := filepath.Join(dir, taskdir.TaskJSON)
	for written, want := range map[string]string{"": "", "../trees/x": filepath.Join(filepath.Dir(s.Root), "trees", "x"), "/trees/x/": "/trees/x/"} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(`{"status": "review", "worktree_path": "`+written+`"}`), 0o666); err != nil {
			t.Fatal(err)
		}
		got, err := s.Update(dir, func(task *taskdir.Task, e *taskdir.Edit) error {
			if task.WorktreePath != want {
				t.Errorf("in an update: got %q, want %q", task.WorktreePath, want)
			}
			e.Set("commit", "c1")
			return nil
		})
		if err != nil || got.WorktreePath != want {
			t.Errorf("%q: got %+v, %v, want %q", written, got, err, want)
		}
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `"worktree_path": "`+written+`"`) {
			t.Errorf("the file became %s, %v", text, err)
		}
	}
}
