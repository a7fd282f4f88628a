package share_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/share"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A machine that can't record the state of the team keeps its task: what it publishes arrives, and is not published again.
func TestWhatWasHeardCannotBeWritten(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Quickly, time.Hour)
	a.Hand(task, runnertest.ProvenPRD)
	lease, err := a.team.Take(t.Context(), a.dir(), fits)
	if err != nil {
		t.Fatal(err)
	}
	held, end := lease.Hold(t.Context())
	file := share.SightingsFile(a.Site.Store.Root)
	if err := errors.Join(os.Remove(file), os.MkdirAll(file+"/in-the-way", 0o777)); err != nil {
		t.Fatal(err)
	}
	before := a.Git("ls-remote", "origin", "refs/trellis/*")
	within, stop := context.WithTimeout(held, runnertest.Hang)
	defer stop()
	if err := lease.Save(within, "a step"); err != nil {
		t.Errorf("saving: %v", err)
	}
	if after := a.Git("ls-remote", "origin", "refs/trellis/*"); after == before {
		t.Error("others were told nothing")
	}
	if err := end(runner.Result{Dir: a.dir(), Status: trellis.Ready}); err != nil {
		t.Errorf("giving it back: %v", err)
	}
}
