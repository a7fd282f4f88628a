package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/durable"
)

// Edge F11: a task that never ran is also removed under the lock of its run, so that no run begins at the same time.
func TestRemoveTakesTheRunLock(t *testing.T) {
	w := newGitWorld(t, "/nowhere")
	w.write(".trellis/tasks/02-01-new/task.json", `{"status": "planning"}`)
	dir, held := w.path(".trellis/tasks/02-01-new"), false
	var out bytes.Buffer
	a := &console{Console: command.Console{Stdin: &out, Stdout: &out, Stderr: &out, Env: append(w.Env[1:], "PATH="+os.Getenv("PATH")), Dir: w.Dir, Now: time.Now,
		Disk: &durable.Disk{Fault: func(step, path string) error {
			if step == "rename" && filepath.Base(path) == "02-01-new" {
				held = durable.Held(filepath.Join(dir, "run", "lock"))
			}
			return nil
		}}}}
	if code := a.Run(t.Context(), []string{"task", "rm", "02-01-new"}); code != 0 || !held {
		t.Errorf("exit %d, held %t: %s", code, held, &out)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("it is there: %v", err)
	}
}
