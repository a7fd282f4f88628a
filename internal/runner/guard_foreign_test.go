package runner_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Edge S10: a journal without the clone in which it began, as older versions wrote it, is resumed unless git tracks it.
func TestJournalThatDoesNotSayItsClone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	dir := w.Hand("02-01-a", "# A\n")
	w.Write(".trellis/tasks/02-01-a/task.json", `{"status": "in_progress"}`)
	j, err := journal.Open(journal.Options{Dir: filepath.Join(dir, taskdir.Run)})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Begin(journal.Spec{Run: "02-01-a/1", Flow: pipeline.Flow, Code: pipeline.Code, Input: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	next := func() string {
		t.Helper()
		command, err := w.Site.Assessor().Next(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return command
	}
	if got := next(); !strings.HasPrefix(got, "trellis start ") {
		t.Errorf("not in git: next is %q, want that it goes on", got)
	}
	w.Git("add", "-f", filepath.Join(dir, taskdir.Journal))
	if got := next(); !strings.HasPrefix(got, "trellis retry ") {
		t.Errorf("in git: next is %q, want retry", got)
	}
}

// The next command for a folder whose name no task can have, such as that of a copy, is quoted for a shell.
func TestNextOfNameWithSpaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	dir := w.Hand("02-01-a 2", "# A\n")
	if got, err := w.Site.Assessor().Next(t.Context(), dir); err != nil || got != "trellis validate '02-01-a 2'" {
		t.Errorf("got %q, %v", got, err)
	}
}
