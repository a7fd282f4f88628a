package scheduler_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trellis-tasks/trellis/internal/scheduler"
)

// The problems of a directory that is gone are not reported.
func TestUnrestOfADirectoryThatIsGone(t *testing.T) {
	if at := (scheduler.Unrest{}).Until(filepath.Join(t.TempDir(), "02-01-gone")); !at.After(time.Now()) {
		t.Errorf("it is told of at %v", at)
	}
}

// A directory that changes all the time is reported ten seconds after it was found invalid (edge C17).
func TestUnrestHasAnEnd(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		u, begun, said := scheduler.Unrest{}, time.Now(), time.Time{}
		for end := begun.Add(time.Minute); said.IsZero() && time.Now().Before(end); {
			for _, name := range []string{dir, filepath.Join(dir, "notes.txt")} {
				if err := os.Chtimes(name, time.Now(), time.Now()); err != nil {
					t.Fatal(err)
				}
			}
			at := u.Until(dir)
			if !at.After(time.Now()) {
				said = at
			}
			time.Sleep(min(400*time.Millisecond, max(0, time.Until(at))))
		}
		if got, want := said.Sub(begun), 10*time.Second; got != want {
			t.Errorf("it is told of after %v, want %v", got, want)
		}
	})
}
