package taskdir_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// corpus returns the task.json files of other projects, by path; it skips the test unless TRELLIS_CORPUS is set.
func corpus(tb testing.TB) map[string][]byte {
	tb.Helper()
	dir := os.Getenv("TRELLIS_CORPUS")
	if dir == "" {
		tb.Skip("TRELLIS_CORPUS does not name a folder with tasks/*/task.json of other projects")
	}
	paths, err := filepath.Glob(filepath.Join(dir, "tasks", "*", "task.json"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no tasks in %s: %v", dir, err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		files[path] = data
	}
	return files
}

func TestCorpusIsRead(t *testing.T) {
	readable, broken := 0, 0
	for path, data := range corpus(t) {
		task, err := taskdir.Parse(path, data)
		var p *trellis.Problem
		if errors.As(err, &p) {
			broken++
			// In both broken files, the first error is a value without quotes.
			line := strings.Split(string(data), "\n")[p.Line-1]
			if !strings.Contains(line, `"completedAt": 2`) || p.Column != strings.Index(line, ": ")+3 || !strings.Contains(p.Hint, `write "completedAt": "2026-01-`) {
				t.Errorf("got %v (%s) for line %q", p, p.Hint, line)
			}
			continue
		}
		readable++
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for _, p := range task.Problems {
			t.Errorf("got problem %v", &p)
		}
		if task.Title == "" || task.Name == "" || task.CreatedAt == "" || task.Status == "" {
			t.Errorf("%s: got %+v", path, task)
		}
	}
	if readable < 7 || broken != 2 {
		t.Errorf("got %d readable and %d broken files, want at least 7 and 2", readable, broken)
	}
}
