package runnertest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Depends makes a ready task that depends on others.
func (w *World) Depends(id string, on ...string) string {
	w.Helper()
	dir := filepath.Join(w.Site.Store.Tasks(), id)
	text := `{"status": "ready", "pipeline": {"depends_on": ["` + strings.Join(on, `", "`) + `"]}}`
	if len(on) == 0 {
		text = `{"status": "ready"}`
	}
	if err := errors.Join(Lay(dir, "planning"), os.WriteFile(filepath.Join(dir, "task.json"), []byte(text), 0o644)); err != nil {
		w.Fatal(err)
	}
	return dir
}

// Tip returns the commit at which the branch of a task ends.
func (w *World) Tip(name string) string { w.Helper(); return w.Git("rev-parse", "feature/"+name) }

func (w *World) Stacked(dir, on, commit string) {
	w.Helper()
	if p := w.Task(dir).Pipeline; p.StackedOn != on || p.BaseCommit != commit {
		w.Errorf("%s is on %q at %s, want %q at %s", filepath.Base(dir), p.StackedOn, p.BaseCommit, on, commit)
	}
}
