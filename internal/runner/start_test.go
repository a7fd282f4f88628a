package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// A task that is set to paused after its delivery is not run again: start reports the delivery.
func TestPausedAfterDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Counted())
	dir := w.Hand("02-01-bye", runnertest.ProvenPRD)
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	before, commit := w.Calls(), w.Git("rev-parse", "feature/bye")
	w.Edit(dir, `"review"`, `"paused"`)
	var refused *runner.RefusedError
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); !errors.As(err, &refused) || !strings.Contains(refused.Why, "delivered") {
		t.Errorf("retried: %v", err)
	}
	if res := w.Start(dir); res.Status != trellis.Review || res.Outcome != trellis.Delivered || w.Heard("not run twice") != 1 {
		t.Errorf("started: %+v, said %q", res, w.Said)
	}
	if after := w.Calls(); after["implement"] != before["implement"] || w.Git("rev-parse", "feature/bye") != commit {
		t.Errorf("it ran again: %v", after)
	}
}

// A delivered task that was set to ready by hand is not listed as waiting for a watcher: a person has to decide, as start says.
func TestListedReadyAfterDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Working)
	dir := w.Hand("02-01-bye", runnertest.ProvenPRD)
	first := w.Read(".trellis/tasks/02-01-bye/task.json")
	listed := func() string {
		t.Helper()
		list, err := status.Reader{Store: w.Site.Store, Now: time.Now()}.Tasks(status.Filter{})
		if err != nil || len(list) != 1 || list[0].Status != trellis.Ready {
			t.Fatalf("got %+v, %v", list, err)
		}
		return fmt.Sprint(list[0].WaitingFor, ", needs a person: ", list[0].NeedsPerson())
	}
	if got, want := listed(), status.ForWatcher+", needs a person: false"; got != want {
		t.Errorf("before its run: %s, want %s", got, want)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.Edit(dir, `"review"`, `"ready"`)
	if got, want := listed(), "decision: it was done before (delivered): run `trellis retry`, needs a person: true"; got != want {
		t.Errorf("ready by hand: %s, want %s", got, want)
	}
	w.Write(".trellis/tasks/02-01-bye/task.json", first)
	if got, want := listed(), "decision: task.json was taken back: run `trellis retry`, needs a person: true"; got != want {
		t.Errorf("overwritten: %s, want %s", got, want)
	}
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, want := listed(), status.ForWatcher+", needs a person: false"; got != want {
		t.Errorf("retried: %s, want %s", got, want)
	}
}

// Start reports each ignored part of a task once, and runs the task.
func TestStartSaysWhatIsPassedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Counted())
	dir := w.Hand("02-01-bye", runnertest.ProvenPRD+"\n  verfy: `false`\n")
	w.Write(".trellis/tasks/02-01-bye/design.md", "```\n<<<<<<< HEAD\n=======\n>>>>>>> x\n```\n")
	w.Write(".trellis/tasks/02-01-bye/task.json", "{\"status\": \"ready\",\n\"priorty\": \"P1\"}")
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	for _, said := range []string{
		"warning: .trellis/tasks/02-01-bye/task.json:2:1: \"priorty\" is not a field, and is ignored\nnext: did you mean: priority",
		"design.md:2: there is a merge conflict here, in code",
		"is read as a part of the criterion, and no command is run for it\nnext: did you mean: verify",
	} {
		if w.Heard(said) != 1 {
			t.Errorf("%q was said %d times in %q", said, w.Heard(said), w.Said)
		}
	}
}

// A waiting task that has not begun does not start if a misspelled field was to make it wait for more. If its run waits, the run resumes.
func TestMisspelledGuardHoldsAWaitingTask(t *testing.T) {
	t.Parallel()
	const misspelled = `"pipeline": {"dependsOn": ["02-02-other"]`
	w := newWorld(t, runnertest.Stepping(runnertest.Obj{"files": runnertest.Obj{"greet.sh": runnertest.Bye}}).String())
	dir := w.Hand("02-02-held", runnertest.ProvenPRD)
	w.Write(".trellis/tasks/02-02-held/task.json", `{"status": "waiting", `+misspelled+`}}`)
	res, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{})
	if not, ok := errors.AsType[*runner.NotReadyError](err); !ok || !strings.Contains(not.Error(), "did you mean: depends_on") {
		t.Errorf("not begun: got %+v, %v", res, err)
	}
	dir = w.Stepped("02-01-bye", runnertest.Obj{"id": "note", "command": "echo first >> NOTES", "risk": "high"}, runnertest.AddFlag)
	if res := w.Start(dir); res.Status != trellis.Waiting || len(res.Waits) == 0 {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.Edit(dir, `"pipeline": {`, misspelled+", ")
	if _, said, err := w.Site.Approvals().DecideStep(dir, proof.Approval{Decision: proof.Approve, By: "ann"}); err != nil {
		t.Fatalf("got %+v, %v", said, err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("begun: got %s, %v", res.Status, res.Failure)
	}
}

// If a journal is damaged, processes that its run left are ended. A ready task with a damaged journal can't be started without a retry.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Working)
	dir := w.Hand("02-01-bye", runnertest.ProvenPRD)
	w.Start(dir)
	h, err := durable.ReadHolder(filepath.Join(dir, taskdir.RunLock))
	if err != nil || h.Marker == "" {
		t.Fatalf("got %+v, %v", h, err)
	}
	left := exec.Command("sleep", "300")
	left.Env = append(os.Environ(), "TRELLIS_RUN_MARKER="+h.Marker)
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- left.Wait() }()
	w.Write(".trellis/tasks/02-01-bye/run/journal.jsonl", "{}\nnonsense\n")
	w.Edit(dir, `"review"`, `"ready"`)
	var refused *runner.RefusedError
	if _, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{}); !errors.As(err, &refused) || refused.Hint != "trellis retry 02-01-bye" {
		t.Errorf("a ready one: %v", err)
	}
	w.Edit(dir, `"ready"`, `"in_progress"`)
	if res := w.Start(dir); res.Failure == nil || res.Failure.Code != string(trellis.JournalDamaged) {
		t.Errorf("got %+v", res)
	}
	select {
	case <-gone:
	case <-time.After(runnertest.Hang):
		t.Error("what the former process started is still running")
		left.Process.Kill()
		<-gone
	}
}

// A start of a task that another process works on names that process, resumes the run if that one is interrupted, and returns the full
// result.
func TestStartBesideAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Program("text", `case $TRELLIS_ROLE in
implement) echo bye > notes.txt; touch "$TRELLIS_REPO/../begun"
	until test -e "$TRELLIS_REPO/../go"; do sleep 0.02; done; echo done;;
accept) echo '{"criteria": [{"id": "A1", "verdict": "met", "evidence": "notes.txt:1"}]}';;
*) echo fine;;
esac
`)
	dir := w.Hand("02-01-bye", runnertest.PrdText)
	var phases []string
	said := w.Site.Event
	w.Site.Event = func(e runner.Event) {
		if said(e); e.State != nil {
			w.Mu.Lock()
			phases = append(phases, e.State.Phase)
			w.Mu.Unlock()
		}
	}
	ctx, interrupt := context.WithCancel(context.Background())
	first, second, third := make(chan runner.Result, 1), make(chan runner.Result, 1), make(chan runner.Result, 1)
	start := func(ctx context.Context, end chan<- runner.Result) {
		res, err := w.Site.Starter().Start(ctx, dir, runner.RunOptions{})
		if err != nil {
			t.Error(err)
		}
		end <- res
	}
	go start(ctx, first)
	w.Until("the agent", func() bool { _, err := os.Stat(filepath.Join(w.Dir, "..", "begun")); return err == nil })
	go start(context.Background(), second)
	w.Until("the name of the other", func() bool {
		return w.Heard(fmt.Sprintf("02-01-bye is held by process %d on ", os.Getpid())) > 0
	})
	interrupt()
	if res := <-first; !res.Interrupted {
		t.Errorf("the first ended with %+v", res)
	}
	w.Until("what is gone on with", func() bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return len(phases) > 1 && phases[len(phases)-1] == "implement" && phases[len(phases)-2] == "implement"
	})
	go start(context.Background(), third)
	w.Until("who waits", func() bool {
		return w.Heard(fmt.Sprintf("02-01-bye is held by process %d on ", os.Getpid())) > 1
	})
	w.Write("../go", "")
	for who, end := range map[string]chan runner.Result{"second": second, "third": third} {
		res := <-end
		if what, _ := res.Report.Undecided(); res.Status != trellis.Review || what != "" || res.Report.Commit == "" {
			t.Errorf("the %s ended with %+v", who, res)
		}
	}
}

// If several processes start a task at the same time, one runs it and the others wait for its result.
func TestStartsAtTheSameMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Program("text", `case $TRELLIS_ROLE in
implement) echo bye > notes.txt; echo $TRELLIS_TASK_ID >> "$TRELLIS_REPO/../calls"; echo done;;
accept) echo '{"criteria": [{"id": "A1", "verdict": "met", "evidence": "notes.txt:1"}]}';;
*) echo fine;;
esac
`)
	planned, ready := w.Hand("02-01-bye", runnertest.PrdText), w.Hand("02-02-well", runnertest.PrdText)
	w.Write(".trellis/tasks/02-02-well/task.json", `{"status": "ready"}`)
	for _, dir := range []string{planned, ready} {
		var starts sync.WaitGroup
		for range 4 {
			starts.Go(func() {
				if res, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{}); err != nil || res.Status != trellis.Review {
					t.Errorf("%s is %s, %v", filepath.Base(dir), res.Status, err)
				}
			})
		}
		starts.Wait()
	}
	if calls, err := os.ReadFile(filepath.Join(w.Dir, "..", "calls")); err != nil || strings.Count(string(calls), "\n") != 2 {
		t.Errorf("the agents that implement: %s, %v", calls, err)
	}
}

// A task with an unknown package is refused before its run begins.
func TestStartOfAnUnknownPackage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Site.Config.Packages = map[string]config.Package{"web": {Path: "web"}}
	dir := w.Hand("02-01-bye", runnertest.PrdText)
	w.Write(".trellis/tasks/02-01-bye/task.json", `{"status": "ready", "package": "wbe"}`)
	var not *runner.NotReadyError
	if _, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{}); !errors.As(err, &not) || not.Problems[0].Line != 1 || !strings.Contains(not.Problems[0].Message, `no package "wbe"`) {
		t.Errorf("got %v", err)
	}
	if got := w.Task(dir).Status; got != trellis.Ready {
		t.Errorf("it is %s", got)
	}
}
