package share_test

import (
	"errors"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A machine that was granted a task takes it from one that has it, without waiting for its silence. That one pushes nothing more, and what people
// asked of it meanwhile is carried out once.
func TestGranted(t *testing.T) {
	t.Parallel()
	const silence = time.Hour
	a := net(t, runnertest.Counted(), silence)
	a.Hand(task, runnertest.ProvenPRD)
	lease, err := a.team.Take(t.Context(), a.dir(), fits)
	if err != nil {
		t.Fatal(err)
	}
	_, end := lease.Hold(t.Context())
	b := a.beside("b", silence)
	b.pull()
	if err := b.team.Receive(t.Context(), b.dir()); !errors.As(err, new(*runner.ElsewhereError)) {
		t.Fatalf("received without a grant: %v", err)
	}
	if err := b.team.Ask(t.Context(), order("approve")); err != nil {
		t.Fatal(err)
	}
	revoke := b.team.Grant(task)
	if err := b.team.Receive(t.Context(), b.dir()); err != nil {
		t.Fatal(err)
	}
	if list := b.orders(); len(list) > 0 {
		t.Errorf("still to be done: %v", list)
	}
	res, err := b.Site.TaskRunner().Run(t.Context(), b.dir(), runner.RunOptions{}, nil)
	if err != nil || res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, err)
	}
	revoke()
	after := b.Git("ls-remote", "origin")
	if err := lease.Save(t.Context(), "late"); !errors.Is(err, flow.ErrSuspended) {
		t.Errorf("the former holder gave it: %v", err)
	}
	if err := end(runner.Result{Status: trellis.InProgress}); !errors.As(err, new(*runner.ElsewhereError)) {
		t.Errorf("the former holder ended with %v", err)
	}
	if now := b.Git("ls-remote", "origin"); now != after {
		t.Errorf("the remote had\n%s\nand has\n%s", after, now)
	}
}
