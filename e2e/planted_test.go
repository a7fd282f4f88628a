package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// cutOffRun returns a repository with a task whose run was interrupted by a signal.
func cutOffRun(t *testing.T) *site {
	t.Helper()
	s := played(t, sleepy)
	cmd, out := s.background("start", "02-01-bye")
	s.begun()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 143 {
		t.Fatalf("%v\n%s", err, out)
	}
	return s
}

// Edge S10: a run is not resumed from a journal that came by git, whatever that says was done, and the next command makes a run
// of its own. In the clone where it began, a run is resumed.
func TestPlantedJournal(t *testing.T) {
	t.Parallel()
	s := cutOffRun(t)
	s.run("git", "add", "-f", "-A", ".trellis/tasks/02-01-bye", ".trellis/rehearsal.yaml")
	s.run("git", "commit", "-q", "-m", "a run to go on with")
	clone := &site{t, filepath.Join(t.TempDir(), "repo"), s.Env}
	s.run("git", "clone", "-q", s.Dir, clone.Dir)
	for _, args := range [][]string{{"start", "02-01-bye"}, {"watch", "--once"}} {
		code, _, errs := clone.try(program, args...)
		if code == 0 && args[0] == "start" || !strings.Contains(errs, "run/journal.jsonl, is of a run that began in another clone") || !strings.Contains(errs, "trellis retry 02-01-bye") {
			t.Errorf("trellis %v: exit %d\n%s", args, code, errs)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(clone.beside("x"))); err == nil && len(entries) > 0 {
		t.Errorf("there are worktrees: %v", entries)
	}
	if err := os.MkdirAll(filepath.Dir(clone.beside("go")), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(clone.beside("go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	clone.trellis(0, "retry", "02-01-bye")
	clone.trellis(0, "start", "02-01-bye")
	if n := clone.run("git", "rev-list", "--count", "main..feature/bye"); n != "1" {
		t.Errorf("%s commits", n)
	}
	s.finish(t)
}

// A committed symbolic link in place of run does not lead the journal elsewhere.
func TestRunThatIsALink(t *testing.T) {
	t.Parallel()
	s := played(t, atOnce)
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(s.Dir, ".trellis/tasks/02-01-bye/run")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"start", "02-01-bye"}, {"watch", "--once"}, {"retry", "02-01-bye"}, {"approve", "02-01-bye"}, {"task", "archive", "02-01-bye"}, {"task", "set-branch", "02-01-bye", "feature/x"}} {
		if code, out, errs := s.try(program, args...); code == 0 || !strings.Contains(out+errs, "run: is a symbolic link") {
			t.Errorf("trellis %v: exit %d\n%s%s", args, code, out, errs)
		}
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) > 0 {
		t.Errorf("written elsewhere: %v, %v", entries, err)
	}
}
