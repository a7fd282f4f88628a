package cli

import (
	"os/exec"
	"testing"
)

// After undo of a cancellation that ended a run, the run resumes in its worktree.
func TestUndoOfACancelledRun(t *testing.T) {
	t.Parallel()
	w := newEditWorld(t, realTrellis(t), edit{at: "implement", do: "touch $R/begun; while ! test -e $R/over; do sleep 0.01; done"})
	cancelled := make(chan error, 1)
	go func() {
		cmd := exec.Command("sh", "-ec", "while ! test -e $R/begun; do sleep 0.01; done; trellis cancel 02-01-bye; touch $R/over")
		cmd.Dir, cmd.Env = w.Dir, w.Env
		cancelled <- cmd.Run()
	}()
	if code := w.trellis("start", "02-01-bye"); code != 1 || w.standing() != "cancelled" {
		t.Fatalf("start ended with %d, %s\n%s", code, w.standing(), w.said)
	}
	if err := <-cancelled; err != nil {
		t.Fatal(err)
	}
	if code := w.trellis("undo"); code != 0 || w.standing() != "ready" {
		t.Fatalf("undo ended with %d, %s\n%s", code, w.standing(), w.said)
	}
	if code := w.trellis("undo"); code != 3 {
		t.Errorf("a second undo ended with %d\n%s", code, w.said)
	}
	if code := w.trellis("start", "02-01-bye"); code != 0 || w.standing() != "review" {
		t.Errorf("the next start ended with %d, %s\n%s", code, w.standing(), w.said)
	}
}
