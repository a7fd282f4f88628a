package share_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// A run of a newer Trellis is refused by an older one, which does not take the task or change it.
func TestRunsOfNewerVersions(t *testing.T) {
	t.Parallel()
	const silence = time.Minute
	a := net(t, runnertest.Counted(), silence)
	dir := a.Hand(task, runnertest.ProvenPRD)
	run, err := journal.Open(journal.Options{Dir: filepath.Join(dir, taskdir.Run), Build: "v9.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(run.Begin(journal.Spec{Run: task + "/1", Flow: pipeline.Flow, Code: pipeline.Code + 1, Input: json.RawMessage(`{}`)}), run.Close())
	if err != nil {
		t.Fatal(err)
	}
	a.Edit(dir, `"ready"`, `"in_progress"`)
	if _, err := a.team.Submit(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	b := a.beside("b", silence)
	b.pull()
	before := a.Git("ls-remote", "origin", "refs/trellis/*")
	_, err = b.Site.TaskRunner().Run(t.Context(), b.dir(), runner.RunOptions{}, nil)
	var refused *runner.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Why, "begun by a newer Trellis (v9.0.0; code") || refused.Hint != "trellis upgrade" {
		t.Errorf("got %v", err)
	}
	if after := a.Git("ls-remote", "origin", "refs/trellis/*"); after != before {
		t.Errorf("others were told something:\n%s\nwas\n%s", after, before)
	}
	if got := b.Task(b.dir()).Status; got != trellis.InProgress {
		t.Errorf("it is %s", got)
	}
	b.follow()
	b.Until("the watcher to say so", func() bool { return b.Heard("begun by a newer Trellis") > 0 })
	if got := b.Task(b.dir()).Status; got != trellis.InProgress {
		t.Errorf("its watcher made it %s", got)
	}
}
