package git_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// Git goes on when the process that started it is killed, and is ended by whoever takes over, but not while that process is alive.
func TestOrphansAreEnded(t *testing.T) {
	b := gittest.New(t)
	began := filepath.Join(t.TempDir(), "began")
	b.Write(".git/hooks/post-checkout", "#!/bin/sh\necho $TRELLIS_RUN_MARKER > "+began+"\nsleep 3000\n")
	if err := os.Chmod(filepath.Join(b.Dir, ".git/hooks/post-checkout"), 0o755); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- b.Repo.Worktrees().Add(t.Context(), git.NewWorktree{Path: filepath.Join(t.TempDir(), "tree"), Branch: "feature/x", Base: b.Git("rev-parse", "HEAD")})
	}()
	marker := ""
	for end := time.Now().Add(15 * time.Minute); marker == "" && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		data, _ := os.ReadFile(began)
		marker = strings.TrimSpace(string(data))
	}
	if want := "git-" + proc.Self().String(); marker != want {
		t.Fatalf("it carries %q, want %q", marker, want)
	}
	if left := proc.EndOwned(proc.Self()); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	select {
	case err := <-done:
		t.Fatalf("the work of a living process was ended: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	// What a process left that is gone is found by the marker in its environment.
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dead := proc.ID{PID: gone.Process.Pid, Start: "1"}
	orphan := exec.Command("sleep", "3000")
	orphan.Env = append(os.Environ(), proc.MarkerVar+"=git-"+dead.String())
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	if left := proc.EndOwned(dead); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	if err := orphan.Wait(); err == nil || orphan.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the orphan ended with %v", err)
	}
	proc.Sweep(marker) // ends the hook
	<-done
}
