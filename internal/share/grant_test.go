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

// A machine that was granted a task takes the task from the machine that has it, without waiting for that machine's silence. The former
// holder publishes nothing more, and an order that arrived meanwhile is carried out.
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
	if err := b.team.Receive(t.Context(), b.dir()); !errors.As(err, new(*runner.OtherMachineError)) {
		t.Fatalf("received without a grant: %v", err)
	}
	if err := b.team.Ask(t.Context(), order("approve")); err != nil {
		t.Fatal(err)
	}
	revoke := b.team.Grant(task, time.Time{})
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
	if err := end(runner.Result{Status: trellis.InProgress}); !errors.As(err, new(*runner.OtherMachineError)) {
		t.Errorf("the former holder ended with %v", err)
	}
	if now := b.Git("ls-remote", "origin"); now != after {
		t.Errorf("the remote had\n%s\nand has\n%s", after, now)
	}
}

// If a task was granted to two machines in turn, the first, which may have been frozen since, takes nothing once the second has had the task.
func TestGrantedLater(t *testing.T) {
	t.Parallel()
	const silence = time.Hour
	a := net(t, runnertest.Counted(), silence)
	b := a.beside("b", silence)
	a.Hand(task, runnertest.ProvenPRD)
	if _, err := a.team.Submit(t.Context(), a.dir()); err != nil {
		t.Fatal(err)
	}
	first := time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)
	defer a.team.Grant(task, first)()
	second := b.team.Grant(task, first.Add(time.Minute))
	b.pull()
	if res, err := b.Site.TaskRunner().Run(t.Context(), b.dir(), runner.RunOptions{}, nil); err != nil || res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, err)
	}
	second()
	if err := b.team.Change(t.Context(), b.dir(), func() error { b.Edit(b.dir(), `"status": "review"`, `"notes": "x", "status": "review"`); return nil }); err != nil { // a later change by a person keeps the turn
		t.Fatal(err)
	}
	before := a.Git("ls-remote", "origin", "refs/trellis/*")
	for what, do := range map[string]func() error{
		"received": func() error { return a.team.Receive(t.Context(), a.dir()) },
		"taken":    func() error { _, err := a.team.Take(t.Context(), a.dir(), fits); return err },
	} {
		if err := do(); !errors.As(err, new(*runner.OtherMachineError)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after := a.Git("ls-remote", "origin", "refs/trellis/*"); after != before {
		t.Errorf("the remote had\n%s\nand has\n%s", before, after)
	}
	defer a.team.Grant(task, first.Add(2*time.Minute))()
	if err := a.team.Receive(t.Context(), a.dir()); err != nil {
		t.Errorf("given once more: %v", err)
	}
}
