package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Edge F11: a process that was stopped while it changed a task holds the lock of the task's files. A command that waits for the
// lock reports the holder, and exits with the code for that; a watcher reports it too, and takes the task up when the lock is free.
func TestTaskFilesHeldByAStoppedProcess(t *testing.T) {
	t.Parallel()
	s := played(t, sleepy)
	if err := os.MkdirAll(s.beside(""), 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("../repo-worktrees/feature/go", "")
	s.write(".trellis/tasks/02-01-bye/run/.gitignore", "*\n")
	stopped, err := durable.TryLock(filepath.Join(s.Dir, ".trellis/tasks/02-01-bye/run/write.lock"), durable.Holder{PID: os.Getpid(), Since: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	who := fmt.Sprintf("write.lock is held by process %d", os.Getpid())
	if _, errs := s.trellis(11, "start", "02-01-bye"); !strings.Contains(errs, who) || !strings.Contains(errs, fmt.Sprintf("next: it is held for milliseconds: if process %d was stopped, kill -CONT", os.Getpid())) {
		t.Errorf("start says %s", errs)
	}
	said, err := os.Create(filepath.Join(filepath.Dir(s.Dir), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	watcher := exec.Command(program, "watch")
	watcher.Dir, watcher.Env, watcher.Stdout, watcher.Stderr = s.Dir, s.Env, said, said
	if err := watcher.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = watcher.Process.Signal(os.Interrupt)
		_ = watcher.Wait()
		if t.Failed() {
			t.Log(s.read("../said"))
		}
	}()
	s.waitFor(func() bool { return strings.Contains(s.read("../said"), who) }, "the watcher says nothing of it")
	if err := stopped.Unlock(); err != nil {
		t.Fatal(err)
	}
	s.waitFor(func() bool { return strings.Contains(s.read(".trellis/tasks/02-01-bye/task.json"), `"review"`) }, "the task is not taken up")
}

// waitFor fails with the text otherwise if so does not become true within hang.
func (s *site) waitFor(so func() bool, otherwise string) {
	s.Helper()
	for end := time.Now().Add(hang); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatal(otherwise)
		}
	}
}
