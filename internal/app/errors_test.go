package app_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/taskdir"
)

func TestWithNearest(t *testing.T) {
	unknown := errors.New("unknown")
	known := []string{"ready", "waiting"}
	near := app.WithNearest(unknown, "redy", known)
	if hints := app.HintsOf(near); !errors.Is(near, unknown) || near.Error() != "unknown" || !slices.Equal(hints, []string{"did you mean: ready"}) {
		t.Errorf("a word that is near: %v, hints %q", near, hints)
	}
	if far := app.WithNearest(unknown, "zzz", known); far != unknown {
		t.Errorf("a word that is far: %v, hints %q", far, app.HintsOf(far))
	}
}

// A write that the system refuses gets a hint about what to do, as a refused read does; a program that can't be run gets none.
func TestHintsOfRefused(t *testing.T) {
	for op, want := range map[string]int{"mkdir": 1, "exec": 0} {
		err := fmt.Errorf("making folder: %w", &os.PathError{Op: op, Path: t.TempDir(), Err: syscall.EACCES})
		if hints := app.HintsOf(err); len(hints) != want {
			t.Errorf("%s: got %q", op, hints)
		}
	}
}

// If git is missing, the hint names what to install, whatever needed git.
func TestHintsWithoutGit(t *testing.T) {
	_, err := (&git.Repo{Env: []string{"PATH=" + t.TempDir()}}).Version(t.Context())
	if hints := app.HintsOf(fmt.Errorf("looking: %w", err)); len(hints) != 1 || !strings.HasPrefix(hints[0], "install git 2.") {
		t.Errorf("got %q of %v", hints, err)
	}
}

// If the lock of a run is held, the hints say how to follow it; only the run of a task can also be stopped.
func TestHintsOfHeld(t *testing.T) {
	for dir, want := range map[string][]string{
		".trellis/tasks/02-01-auth":                      {"trellis logs -f 02-01-auth", "trellis stop 02-01-auth"},
		".trellis/tasks/archive/2026-02/02-01-auth":      {"trellis logs -f 02-01-auth", "trellis stop 02-01-auth"},
		".trellis/.runtime/runs/260201-090503-k3fq":      {"trellis logs -f 260201-090503-k3fq"},
		".trellis/tasks/" + taskdir.DraftPrefix + "mail": {"trellis logs -f " + taskdir.DraftPrefix + "mail"},
	} {
		held := &durable.HeldError{Path: filepath.Join("/repo", dir, taskdir.RunLock)}
		if got := app.HintsOf(held); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", dir, got, want)
		}
	}
}

// For a journal that can't be read, the hint is the command that sets it aside, for each kind of directory.
func TestHintsOfDamaged(t *testing.T) {
	tasks := filepath.Join(t.TempDir(), ".trellis", "tasks")
	for status, want := range map[string]string{"review": "trellis retry 02-01-a --feedback 'what should be different'", "failed": "trellis retry 02-01-a",
		"planning": "trellis plan --retry 02-01-a --requirement 'what is wanted'", "completed": "trellis task archive 02-01-a"} {
		for dir, want := range map[string]string{"02-01-a": want, "archive/2026-02/02-01-a": "", ".new-02-01-b": "trellis plan --retry 02-01-b --requirement 'what is wanted'"} {
			dir = filepath.Join(tasks, dir)
			if err := errors.Join(os.MkdirAll(dir, 0o777), os.WriteFile(filepath.Join(dir, "task.json"), []byte(`{"status": "`+status+`"}`), 0o666)); err != nil {
				t.Fatal(err)
			}
			if filepath.Base(dir) == ".new-02-01-b" && status != "planning" {
				continue
			}
			err := fmt.Errorf("reading: %w", &journal.DamagedError{File: filepath.Join(dir, "run", "journal.jsonl"), Line: 1, Err: errors.New("cut")})
			if got := strings.Join(app.HintsOf(err), ", "); got != want {
				t.Errorf("%s of %s: got %q, want %q", status, dir, got, want)
			}
		}
	}
	for name, want := range map[string]string{"requirement.md": "trellis plan --retry 02-01-a", "task.json": "trellis validate 02-01-a"} {
		dir := filepath.Join(tasks, "02-01-a")
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "task.json"), []byte(`{"status": "planning"}`), 0o666), os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o666)); err != nil {
			t.Fatal(err)
		}
		err := &journal.DamagedError{File: filepath.Join(dir, "run", "journal.jsonl"), Line: 1, Err: errors.New("cut")}
		if got := strings.Join(app.HintsOf(err), ", "); got != want {
			t.Errorf("with %s: got %q, want %q", name, got, want)
		}
	}
	err := &journal.DamagedError{File: "/x/runs/1/run/journal.jsonl", Line: 1, Err: errors.New("cut")}
	if got, want := app.HintsOf(err), []string{"trellis run FILE begins another run", "rm -r /x/runs/1 forgets this one"}; !slices.Equal(got, want) {
		t.Errorf("of the run of a file: got %q", got)
	}
}
